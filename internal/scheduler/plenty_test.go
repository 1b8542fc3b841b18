package scheduler

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/profiles"
)

// knownYAML is a configuration whose profile runs only plugins with known inputs.
var knownYAML = strings.ReplaceAll(schedulerYAML, ", {name: Refusing}", "")

// severalOf returns count pods of a queue. Each requests one CPU.
func severalOf(queue string, count int) []*corev1.Pod {
	out := make([]*corev1.Pod, count)
	for i := range out {
		out[i] = ofQueue(queue, pod(fmt.Sprintf("%s-%d", queue, i), "", "1", 0))
	}
	return out
}

// abounds waits until the scheduler knows that all waiting work of a queue has room.
func (r *rig) abounds(queue string) {
	r.t.Helper()
	r.create(ofQueue(queue, pod("first-of-"+queue, "", "1", 0)))
	r.eventually("it is known that there is plenty of room", func() bool {
		if !r.sched.ledger.HasPlenty(queue) {
			// The pod may have been placed before the quota ledger had it. Another pod triggers
			// another check.
			next := ofQueue(queue, pod("next-of-"+queue, "", "1", 0))
			r.create(next)
			r.remove(next)
		}
		return r.sched.ledger.HasPlenty(queue)
	})
	r.eventually("the first has gone on", func() bool { return len(r.active()) > 0 })
}

// TestPassesWherePlenty checks that pods and gangs are admitted in the order of arrival while all
// queued work has room.
func TestPassesWherePlenty(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, knownYAML, nil, nodes(2, "8")...)
	r.sched.QueueSet(limitedQueue("a", "12"))
	r.abounds("a")
	one := ofQueue("a", pod("one", "", "1", 0))
	r.create(one)
	r.eventually("it goes on", func() bool { return len(r.active()) == 2 })
	r.sched.turns.Forget(podKey(one))
	if r.sched.gates.waitsForTurn(one) || r.sched.turns.TurnOf(podKey(one), "a") != admission.Admitted {
		t.Error("the pod waits for its turn")
	}
	if _, seated := r.sched.turns.Position(podKey(one)); seated {
		t.Error("the pod has gone on in a batch")
	}
	r.queuedGang("g", "a", 3)
	r.create(members("g", 3, "1", 0)...)
	r.cycles()
	r.waitBound("first-of-a", "one", "g-0", "g-1", "g-2")
}

// TestTurnsWhereNotPlenty checks that pods that were admitted without turns are recalled when room
// becomes scarce. After the recall, each queue must get its share.
func TestTurnsWhereNotPlenty(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, knownYAML, nil, nodes(2, "8")...)
	r.sched.QueueSet(limitedQueue("a", "16"))
	r.sched.QueueSet(limitedQueue("b", "16"))
	r.abounds("b")
	r.create(severalOf("b", 13)...)
	r.eventually("all of them go on", func() bool { return len(r.active()) == 14 })
	r.create(severalOf("a", 8)...)
	r.eventually("they are called back", func() bool { return r.sched.turns.TurnOf(podKey(pod("b-12", "", "1", 0)), "b") == admission.Held })
	has := func(queue string) int64 {
		s := r.sched.quotas.Snapshot([]string{"cpu"})
		i, _ := s.Tree.Find(queue)
		return s.Allocated[i][0]
	}
	r.eventually("all room is taken", func() bool {
		r.cycles()
		return has("a")+has("b") == 16000
	})
	if got := has("a"); got != 8000 {
		t.Errorf("what comes last has %d of its share of 8000", got)
	}
}

// TestCalledBackWhenANodeGoes checks that pods that were admitted without turns are recalled when a
// node is deleted, even if no other workload waits for a turn.
func TestCalledBackWhenANodeGoes(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, knownYAML, nil, nodes(2, "8")...)
	r.sched.QueueSet(limitedQueue("b", "16"))
	r.abounds("b")
	r.create(severalOf("b", 10)...)
	r.eventually("all of them go on", func() bool { return len(r.active()) == 11 })
	r.removeNode("node-1")
	r.eventually("they are called back", func() bool { return r.sched.turns.TurnOf(podKey(pod("b-9", "", "1", 0)), "b") == admission.Held })
}

// TestNoPlentyForStrangers checks that all workloads need turns if the inputs of any plugin or
// extender are unknown.
func TestNoPlentyForStrangers(t *testing.T) {
	t.Parallel()
	filtering := []config.Extender{{URLPrefix: "http://127.0.0.1:1", FilterVerb: "filter", Weight: 1}}
	for name, tc := range map[string]struct {
		yaml      string
		extenders []config.Extender
		want      bool
	}{
		"without regard to taints": {yaml: strings.Replace(knownYAML, "{name: DefaultPreemption}", "{name: DefaultPreemption}, {name: TaintToleration}", 1)},
		"plugins of the library":   {yaml: knownYAML, want: true},
		"a plugin of one's own":    {yaml: schedulerYAML},
		"arguments":                {yaml: knownYAML + "  pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [example.com/x]}}]\n"},
		"an extender":              {yaml: knownYAML, extenders: filtering},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigWith(t, tc.yaml, tc.extenders, nodes(1, "8")...)
			r.sched.QueueSet(limitedQueue("a", "8"))
			r.sched.quotas.Judge(func(corev1.ResourceName) bool { return false })
			if got := r.sched.ledger.HasPlenty("a"); got != tc.want {
				t.Errorf("plenty of room is known: %v, want %v", got, tc.want)
			}
		})
	}
}

// TestConfine checks which arguments and extenders Confine reports.
func TestConfine(t *testing.T) {
	t.Parallel()
	const zone = "{matchExpressions: [{key: zone, operator: In, values: [a]}]}"
	manages := func(ignored bool) []config.Extender {
		return []config.Extender{{ManagedResources: []config.ExtenderManagedResource{{Name: "example.com/x", IgnoredByScheduler: ignored}}}}
	}
	for name, tc := range map[string]struct {
		args      string
		extenders []config.Extender
		want      bool
	}{
		"the defaults":                {},
		"an extender's resource":      {extenders: manages(false)},
		"an extender has one ignored": {extenders: manages(true), want: true},
		"required affinity":           {args: "{name: NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [" + zone + "]}}}}", want: true},
		"preferred affinity":          {args: "{name: NodeAffinity, args: {addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: " + zone + "}]}}}"},
		"spread that must hold":       {args: "{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}}", want: true},
		"spread that should":          {args: "{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}"},
		"a resource is ignored":       {args: "{name: NodeResourcesFit, args: {ignoredResources: [example.com/x]}}", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := profiles.Confine(decodeProfiles(t, schedulerYAML+"  pluginConfig: ["+tc.args+"]\n"), tc.extenders); got != tc.want {
				t.Errorf("pods are confined: %v, want %v", got, tc.want)
			}
		})
	}
}
