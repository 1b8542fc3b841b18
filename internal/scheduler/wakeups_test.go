package scheduler

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

var (
	wakeupSequences = flag.Uint64("scheduler.sequences", 10, "how many random sequences of events TestNoLostWakeup plays")
	wakeupSeed      = flag.Uint64("scheduler.seed", 1, "the seed of the first sequence of TestNoLostWakeup")
)

// wakeupEvents are the kinds of events. A kind that is listed several times is more frequent.
var wakeupEvents = []string{
	"pod", "pod", "pod", "member", "member", "member", "member", "a set of members", "a set of members", "a set of members", "gang", "gang", "gang",
	"delete a pod", "delete a pod", "delete a pending pod", "drop a group", "move a member",
	"end an order", "end an order", "end an order", "end an order", "fail an order", "a victim goes", "a victim goes", "a victim goes",
	"a pod that runs", "queue", "queue", "drop a queue", "node", "node", "drop a node", "cordon a node", "a node fails or recovers",
	"taint a node", "resize a node", "resize a node", "a pod with affinity", "a pod with affinity", "a gated pod", "a gated pod", "end a gate", "end a gate",
}

// rolesOfG2 gives roles to the members of the PodGroup g2: it needs an even member and an odd one.
type rolesOfG2 struct{ cluster.Underived }

// MinCount is part of Derived.
func (rolesOfG2) MinCount(key types.NamespacedName) (int, bool) { return 2, key.Name == "g2" }

// RoleOf is part of Derived.
func (rolesOfG2) RoleOf(pod *corev1.Pod) (string, int) {
	if !strings.HasPrefix(pod.Name, "g2-") {
		return "", 0
	}
	if (pod.Name[len(pod.Name)-1]-'0')%2 == 0 {
		return "even", 1
	}
	return "odd", 1
}

// trial is a cluster with events that may retry workloads.
type trial struct{ *world }

// happen applies an event. It does nothing if the event is not possible now.
func (c trial) happen(h happening) {
	c.t.Helper()
	switch h.what {
	case "gang":
		c.setGroup(h)
	case "a set of members":
		group := fmt.Sprint("g", h.a%3)
		for i := range 2 + h.b%3 {
			c.create(pod(fmt.Sprintf("%s-%d", group, i), group, fmt.Sprint(1+(h.c>>i)%2), priorities[h.a%3]))
		}
	case "taint a node", "resize a node":
		c.changeNode(h)
	case "a pod with affinity":
		c.create(withAffinity(pod(fmt.Sprint("near-", h.a%3), "", fmt.Sprint(1+h.b%2), priorities[h.c%3]), h))
	case "a gated pod":
		p := pod(fmt.Sprint("gated-", h.a%2), "", fmt.Sprint(1+h.b%3), priorities[h.c%3])
		if h.b%2 == 0 {
			group := fmt.Sprint("g", h.a%3)
			p = pod(fmt.Sprintf("%s-%d", group, h.c%4), group, fmt.Sprint(1+h.b%3), priorities[h.a%3])
		}
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "test/gate"}}
		c.create(p)
	case "end a gate":
		if p, ok := pick(c.pods(func(pod *corev1.Pod) bool { return len(pod.Spec.SchedulingGates) > 0 && pod.DeletionTimestamp == nil }), h.a); ok {
			c.note("pod %s (%s) has no gate any more", p.Name, p.UID)
			p = p.DeepCopy()
			p.Spec.SchedulingGates = nil
			c.update(p)
		}
	default:
		c.world.happen(h)
	}
}

// setGroup creates a PodGroup, or changes its minCount.
func (c trial) setGroup(h happening) {
	name := fmt.Sprint("g", h.a%3)
	g := &gang.Group{Key: key(name), UID: c.uid(), MinCount: 1 + h.b%3, Priority: ptr.To(priorities[h.a%3]), Whole: h.c%2 == 0}
	if before, ok := c.groups.Group(g.Key); ok {
		g.UID, g.Whole, g.Queue = before.UID, before.Whole, before.Queue
	} else if h.c%3 == 0 {
		g.Queue = "q"
	}
	c.note("PodGroup %s with minCount %d in queue %q", name, g.MinCount, g.Queue)
	c.groups.set(g)
	c.r.sched.GroupChanged(g.Key)
}

// withAffinity adds affinity or anti-affinity to a pod, for pods with the same label on a node.
func withAffinity(p *corev1.Pod, h happening) *corev1.Pod {
	p.Labels = map[string]string{"near": fmt.Sprint(h.b % 2)}
	term := []corev1.PodAffinityTerm{{
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"near": fmt.Sprint(h.c % 2)}}, TopologyKey: corev1.LabelHostname,
	}}
	p.Spec.Affinity = &corev1.Affinity{}
	if h.a%2 == 0 {
		p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term}
	} else {
		p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term}
	}
	return p
}

// changeNode changes the taint of an owner on a node, or the resources that the node offers.
func (c trial) changeNode(h happening) {
	c.t.Helper()
	name, all := fmt.Sprint("node-", h.a%4), c.client.CoreV1().Nodes()
	now, err := all.Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return
	}
	now = now.DeepCopy()
	if h.what == "taint a node" {
		if len(now.Spec.Taints) > 0 {
			untainted(now)
		} else {
			now.Spec.Taints = []corev1.Taint{{Key: "owner", Effect: corev1.TaintEffectNoSchedule}}
		}
		c.note("node %s: the taints are %v", name, now.Spec.Taints)
	} else {
		offersCPU(fmt.Sprint(2 + h.b%5))(now)
		c.note("node %s offers %d CPUs", name, 2+h.b%5)
	}
	if _, err := all.Update(c.t.Context(), now, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// pass lets time pass: longer than the backoff of a pod and the dip of a node.
func (c trial) pass() {
	c.t.Helper()
	for range 25 {
		time.Sleep(time.Second)
		c.settle()
	}
}

// lostWakeup describes a workload that has room or may preempt, and that nothing will retry; "" if
// there is none.
func (c trial) lostWakeup() string {
	c.t.Helper()
	seen := sets.New[workload.Key]()
	for _, pod := range c.pods(func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil }) {
		key := c.r.sched.index.KeyOf(pod)
		if seen.Has(key) || c.r.sched.records.IsAssumed(string(pod.UID)) || c.r.sched.placements.IsLeaving(pod) {
			continue
		}
		seen.Insert(key)
		d := c.preview(pod)
		if d == nil || c.isExcused(key, d) {
			continue
		}
		before := c.standing()
		causes := c.causes(key)
		c.r.sched.retries.Retry(key)
		c.settle()
		if after := c.standing(); after != before {
			return fmt.Sprintf("%s was not retried (%s: %s; causes %s), and a retry succeeds:\nbefore %s\nafter  %s", key, d.Outcome, d.Message, causes, before, after)
		}
	}
	return ""
}

// preview returns the decision that a cycle of a pod's workload would apply; nil if the workload is
// blocked. The memory of pods without room is not asked.
func (c trial) preview(pod *corev1.Pod) *core.Decision {
	c.t.Helper()
	c.r.snapshot()
	kept := c.r.plugin.refusals
	c.r.plugin.refusals = noRoomCache{}
	p, err := c.r.plugin.Preview(c.t.Context(), pod)
	c.r.plugin.refusals = kept
	if err != nil {
		c.t.Fatal(err)
	}
	return p.Decision
}

// isExcused reports whether a workload need not be retried, although a decision finds room for it
// or victims.
func (c trial) isExcused(key workload.Key, d *core.Decision) bool {
	waits := c.r.sched.waits
	for _, timed := range []engine.Cause{engine.Pause, engine.ProtectionEnds, engine.RetryDue, engine.Backoff} {
		if waits.WaitsFor(key, timed) {
			return true
		}
	}
	switch {
	case waits.Evicting(key), c.r.sched.turns.Holds(key):
		return true
	case d.Outcome == core.Fits:
		return false
	case d.Outcome == core.Preempts:
		return waits.WaitsForVictims(key)
	default:
		// No room is free yet, and no eviction would make room.
		return true
	}
}

// causes names the causes that a workload waits for.
func (c trial) causes(key workload.Key) string {
	var out []string
	for cause := engine.Reserved; cause <= engine.Nodes; cause++ {
		if c.r.sched.waits.WaitsFor(key, cause) {
			out = append(out, cause.String())
		}
	}
	if c.r.sched.waits.WaitsForVictims(key) {
		out = append(out, fmt.Sprint("victims, needed: ", c.r.sched.waits.NeededVictims(key)))
	}
	if v := c.r.sched.gangs.Verdict(key); v != (gang.Verdict{}) {
		out = append(out, fmt.Sprintf("verdict %s: %s", v.Reason, v.Message))
	}
	return fmt.Sprintf("[%s], planned %d, %s", strings.Join(out, ", "), c.r.sched.gangs.Planned(key), c.r.pending())
}

// standing describes the places of all pods: bound, assumed or reserved, and the orders.
func (c trial) standing() string {
	c.t.Helper()
	var out []string
	for _, pod := range c.pods(nil) {
		reserved, _ := c.r.reservedOn(pod.UID)
		at := pod.Spec.NodeName
		if c.r.sched.records.IsAssumed(string(pod.UID)) {
			at = "assumed"
		}
		out = append(out, fmt.Sprintf("%s:%s/%s", pod.Name, at, reserved))
	}
	slices.Sort(out)
	return fmt.Sprintf("%d orders, %s", len(c.r.evictor.orders), strings.Join(out, " "))
}

// eventsOf returns the events of a sequence.
func eventsOf(seed uint64) []happening {
	random := rand.New(rand.NewPCG(seed, 0))
	out := make([]happening, 25)
	for i := range out {
		out[i] = happening{what: wakeupEvents[random.IntN(len(wakeupEvents))], a: random.IntN(24), b: random.IntN(24), c: random.IntN(24)}
	}
	return out
}

// playWakeups plays events, and describes the first lost wake-up; "" if there is none.
func playWakeups(t *testing.T, events []happening) (wrong string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := trial{newWorldOf(t, rolesOfG2{})}
		defer func() {
			c.stop()
			// Pods that still wait at Permit time out.
			time.Sleep(time.Hour)
		}()
		c.settle()
		for _, h := range events {
			c.note("%+v", h)
			c.happen(h)
			c.settle()
			c.pass()
			if wrong = c.lostWakeup(); wrong != "" {
				wrong += "\nafter\n  " + strings.Join(c.log, "\n  ")
				return
			}
		}
	})
	return wrong
}

// shrink removes the events that a failing sequence does not need. It returns the rest, and the
// lost wake-up after the rest.
func shrink(t *testing.T, events []happening, wrong string) ([]happening, string) {
	t.Helper()
	for _, event := range slices.Backward(slices.Clone(events)) {
		without := slices.DeleteFunc(slices.Clone(events), func(other happening) bool { return other == event })
		if still := playWakeups(t, without); still != "" {
			events, wrong = without, still
		}
	}
	return events, wrong
}

// TestNoLostWakeup plays random sequences of events. After each event, a long enough time passes. A
// workload for which a fresh decision finds room or victims must have been retried by then. The
// flags scheduler.sequences and scheduler.seed choose other sequences; see make wakeups.
func TestNoLostWakeup(t *testing.T) {
	prepareSequences(t)
	for i := range *wakeupSequences {
		seed := *wakeupSeed + i
		events := eventsOf(seed)
		wrong := playWakeups(t, events)
		if wrong == "" {
			continue
		}
		events, wrong = shrink(t, events, wrong)
		t.Errorf("seed %d, with %d events: %s", seed, len(events), wrong)
	}
}
