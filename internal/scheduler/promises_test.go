package scheduler

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
)

// happening is a random event in the cluster. a, b and c select objects among the existing ones.
type happening struct {
	what    string
	a, b, c int
}

// happenings are the kinds of events. A kind that is listed several times is more frequent.
var happenings = []string{
	"pod", "pod", "pod", "pod", "member", "member", "member", "member", "group", "group",
	"delete a pod", "delete a pod", "delete a pending pod", "delete a pending pod", "drop a group", "move a member",
	"end an order", "end an order", "end an order", "fail an order", "a victim goes", "a victim goes", "a victim goes",
	"a pod that runs", "queue", "drop a queue", "node", "drop a node", "cordon a node", "a node fails or recovers", "time passes", "restart",
}

// world is a scheduler on a fake client, with a virtual clock and random events. There are only a
// few names of objects, so names are used again. UIDs are not.
type world struct {
	t       *testing.T
	r       *rig
	client  *fake.Clientset
	groups  *groups
	queues  map[string]*v1alpha1.Queue
	pending []int // orders that have not ended
	uids    int
	// versions counts the versions of pods.
	versions atomic.Int64
	log      []string
	// derived are the derived groups and the roles of pods; nil for none.
	derived cluster.Derived
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, nil)
}

// newWorldOf is newWorld with derived groups.
func newWorldOf(t *testing.T, derived cluster.Derived) *world {
	t.Helper()
	c := &world{
		t: t, client: clientWith(nodes(3, "3")...), groups: &groups{all: map[types.NamespacedName]*gang.Group{}},
		queues: map[string]*v1alpha1.Queue{}, derived: derived,
	}
	c.client.PrependReactor("patch", "pods", c.patch)
	for i := range 6 {
		c.create(on(pod(fmt.Sprint("low-", i), "", "1", int32(i%2)), fmt.Sprint("node-", i%3)))
	}
	c.start()
	return c
}

// patch applies a patch like the API server. It rejects a patch that has the UID of another pod. It
// gives the pod a new resource version, because the framework's queue ignores updates without one.
func (c *world) patch(action clienttesting.Action) (bool, runtime.Object, error) {
	patch, ok := action.(clienttesting.PatchActionImpl)
	if !ok {
		return false, nil, nil
	}
	var body map[string]any
	if err := json.Unmarshal(patch.GetPatch(), &body); err != nil {
		return true, nil, err
	}
	metadata, _ := body["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	if pod, uid := c.find(patch.GetName()), metadata["uid"]; pod != nil && uid != nil && uid != string(pod.UID) {
		return true, nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, pod.Name,
			field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), uid, "field is immutable")})
	}
	metadata["resourceVersion"] = c.version()
	body["metadata"] = metadata
	var err error
	if patch.Patch, err = json.Marshal(body); err != nil {
		return true, nil, err
	}
	return clienttesting.ObjectReaction(c.client.Tracker())(patch)
}

// version returns a new resource version.
func (c *world) version() string { return fmt.Sprint(c.versions.Add(1)) }

// start runs a new scheduler on the existing objects.
func (c *world) start() {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.t.Context()))
	statuses := podstatus.New(ctx, c.client, c.client, flowcontrol.NewFakeAlwaysRateLimiter(), clock.RealClock{})
	go statuses.Run()
	c.r = newRigOn(c.t, c.client, c.groups, schedulerYAML, nil, func(in *Inputs) { in.Statuses, in.Derived = statuses, c.derived })
	stop := c.r.stop
	c.r.stop = func() { stop(); cancel() }
	c.t.Cleanup(cancel)
	c.r.evictor.writeTo(statuses)
	c.r.plugin.handle.SetAPICacher(statuses)
	for _, q := range c.queues {
		c.r.sched.QueueSet(q)
	}
	synctest.Wait()
	c.r.sched.Lead()
}

// stop ends the scheduler. Pending evictions are canceled and write nothing.
func (c *world) stop() {
	synctest.Wait()
	c.r.evictor.writeTo(nil)
	c.r.stop()
	for _, i := range c.pending {
		c.r.evictor.outcomes[i] <- eviction.Outcome{Err: context.Canceled}
	}
	c.pending = nil
	synctest.Wait()
}

func (c *world) uid() types.UID {
	c.uids++
	return types.UID(fmt.Sprint("uid-", c.uids))
}

// find returns a pod from the API; nil if it does not exist.
func (c *world) find(name string) *corev1.Pod {
	obj, err := c.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), "ns", name)
	if err != nil {
		return nil
	}
	pod, _ := obj.(*corev1.Pod)
	return pod
}

// pods returns the pods in the API that which accepts, sorted by name.
func (c *world) pods(which func(*corev1.Pod) bool) []*corev1.Pod {
	c.t.Helper()
	list, err := c.client.CoreV1().Pods("ns").List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	var out []*corev1.Pod
	for i := range list.Items {
		if pod := &list.Items[i]; which == nil || which(pod) {
			out = append(out, pod)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// pick returns the element that i selects; false if there are no elements.
func pick[T any](from []T, i int) (one T, ok bool) {
	if len(from) == 0 {
		return one, false
	}
	return from[i%len(from)], true
}

func (c *world) create(pod *corev1.Pod) {
	c.t.Helper()
	if c.find(pod.Name) != nil {
		return
	}
	pod.UID = c.uid()
	c.note("pod %s (%s) of %q asks for %s with priority %d", pod.Name, pod.UID, pod.Labels[v1alpha1.LabelPodGroup], pod.Spec.Containers[0].Resources.Requests.Cpu(), *pod.Spec.Priority)
	if _, err := c.client.CoreV1().Pods("ns").Create(c.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// update writes a pod with a new resource version; see patch.
func (c *world) update(pod *corev1.Pod) {
	c.t.Helper()
	pod.ResourceVersion = c.version()
	if err := c.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, "ns"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *world) delete(pod *corev1.Pod) {
	c.t.Helper()
	c.note("pod %s (%s) is gone", pod.Name, pod.UID)
	if err := c.client.CoreV1().Pods("ns").Delete(c.t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// leave sets the deletion timestamp of a pod.
func (c *world) leave(pod *corev1.Pod) {
	if now := c.find(pod.Name); now != nil && now.UID == pod.UID && now.DeletionTimestamp == nil {
		c.note("pod %s (%s) begins to leave", pod.Name, pod.UID)
		now = now.DeepCopy()
		now.Finalizers, now.DeletionTimestamp = []string{"x/y"}, &metav1.Time{Time: time.Now()}
		c.update(now)
	}
}

func (c *world) note(format string, args ...any) {
	c.log = append(c.log, fmt.Sprintf(format, args...))
}

// priorities are the possible priorities of pods and groups.
var priorities = []int32{1, 10, 100}

// happen applies an event to the cluster. It does nothing if the event is not possible now.
func (c *world) happen(h happening) {
	c.t.Helper()
	isPending := func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" }
	switch h.what {
	case "pod":
		c.create(pod(fmt.Sprint("single-", h.a%3), "", fmt.Sprint(1+h.b%3), priorities[h.c%3]))
	case "a pod that runs":
		c.create(on(pod(fmt.Sprint("low-", h.a%8), "", "1", int32(h.b%2)), fmt.Sprint("node-", h.c%3)))
	case "member":
		group := fmt.Sprint("g", h.a%3)
		priority := priorities[h.a%3]
		c.create(pod(fmt.Sprintf("%s-%d", group, h.b%4), group, fmt.Sprint(1+h.c%2), priority))
	case "group":
		name := fmt.Sprint("g", h.a%3)
		if _, ok := c.groups.Group(key(name)); ok {
			return
		}
		g := &gang.Group{Key: key(name), UID: c.uid(), MinCount: 1 + h.b%4, Priority: ptr.To(priorities[h.a%3]), Whole: h.c%2 == 0}
		if h.c%3 == 0 {
			g.Queue = "q"
		}
		c.note("PodGroup %s with minCount %d in queue %q", name, g.MinCount, g.Queue)
		c.groups.set(g)
		c.r.sched.GroupChanged(g.Key)
	case "drop a group":
		name := key(fmt.Sprint("g", h.a%3))
		if _, ok := c.groups.Group(name); ok {
			c.note("PodGroup %s is gone", name.Name)
			c.groups.drop(name)
			c.r.sched.GroupChanged(name)
		}
	case "delete a pod":
		if p, ok := pick(c.pods(nil), h.a); ok {
			c.delete(p)
		}
	case "delete a pending pod":
		if p, ok := pick(c.pods(isPending), h.a); ok {
			c.delete(p)
		}
	case "move a member":
		p, ok := pick(c.pods(func(pod *corev1.Pod) bool { return isPending(pod) && pod.Labels[v1alpha1.LabelPodGroup] != "" }), h.a)
		if ok {
			p = p.DeepCopy()
			p.Labels[v1alpha1.LabelPodGroup] = fmt.Sprint("g", h.b%3)
			c.note("pod %s (%s) names PodGroup g%d", p.Name, p.UID, h.b%3)
			c.update(p)
		}
	case "end an order", "fail an order":
		c.endOrder(h)
	case "a victim goes":
		if p, ok := pick(c.pods(func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }), h.a); ok {
			c.delete(p)
		}
	case "queue":
		q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "q"}}
		if h.a%2 == 0 {
			q.Spec.Limit = corev1.ResourceList{corev1.ResourceCPU: resourceMustParse(fmt.Sprint(1 + h.b%6))}
		}
		c.note("Queue q with the limit %v", q.Spec.Limit)
		c.queues["q"] = q
		c.r.sched.QueueSet(q)
	case "drop a queue":
		if c.queues["q"] != nil {
			c.note("Queue q is gone")
			delete(c.queues, "q")
			c.r.sched.QueueDeleted(confirmed("q"))
		}
	case "node", "drop a node", "cordon a node", "a node fails or recovers":
		c.changeNodes(h)
	case "time passes":
		c.note("%d s pass", 1+h.a%20)
		time.Sleep(time.Duration(1+h.a%20) * time.Second)
	case "restart":
		c.note("the scheduler is started anew")
		c.stop()
		c.start()
	}
}

// endOrder ends an eviction after some or all of its victims have begun to terminate.
func (c *world) endOrder(h happening) {
	i, ok := pick(c.pending, h.a)
	if !ok {
		return
	}
	c.pending = slices.DeleteFunc(c.pending, func(j int) bool { return i == j })
	order := c.r.evictor.orders[i]
	outcome := eviction.Outcome{Begun: sets.New[types.UID]()}
	left := len(order.Victims)
	if h.what == "fail an order" {
		outcome.Err, left = errRefused, h.b%(left+1)
		if h.c%2 == 0 && left == 0 {
			outcome = eviction.Outcome{Err: eviction.ErrOutdated, Unwanted: true}
		}
	}
	victims := make([]*corev1.Pod, 0, len(order.Victims))
	for _, v := range order.Victims {
		victims = append(victims, v)
	}
	slices.SortFunc(victims, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	if outcome.Err == nil && !c.r.plugin.Wants(&order) {
		outcome, left = eviction.Outcome{Err: eviction.ErrOutdated, Unwanted: true}, 0
	}
	for _, v := range victims[:left] {
		outcome.Begun.Insert(v.UID)
		if !c.r.plugin.TurnBack(v) {
			c.leave(v)
		}
	}
	c.note("order %d for %s ends with %v after %d of %d victims", i, order.Decision.Preemptor.Name, outcome.Err, left, len(victims))
	c.r.evictor.outcomes[i] <- outcome
}

func (c *world) changeNodes(h happening) {
	c.t.Helper()
	name := fmt.Sprint("node-", h.a%4)
	all := c.client.CoreV1().Nodes()
	now, err := all.Get(c.t.Context(), name, metav1.GetOptions{})
	switch {
	case err != nil && h.what == "node":
		c.note("node %s", name)
		_, err = all.Create(c.t.Context(), node(name, "3"), metav1.CreateOptions{})
	case err != nil:
		return
	case h.what == "drop a node":
		c.note("node %s is gone", name)
		err = all.Delete(c.t.Context(), name, metav1.DeleteOptions{})
	case h.what == "cordon a node":
		now = now.DeepCopy()
		now.Spec.Unschedulable = !now.Spec.Unschedulable
		c.note("node %s: unschedulable is %v", name, now.Spec.Unschedulable)
		_, err = all.Update(c.t.Context(), now, metav1.UpdateOptions{})
	case h.what == "a node fails or recovers":
		now = now.DeepCopy()
		if len(now.Spec.Taints) > 0 {
			untainted(now)
		} else {
			notReady(now)
		}
		c.note("node %s: the taints are %v", name, now.Spec.Taints)
		_, err = all.Update(c.t.Context(), now, metav1.UpdateOptions{})
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// settle lets the scheduler run until it is idle, without any advance of the virtual clock.
func (c *world) settle() {
	c.t.Helper()
	for range 200 {
		synctest.Wait()
		if len(c.r.active()) == 0 {
			return
		}
		orders := len(c.r.evictor.orders)
		c.r.cycle()
		for i := orders; i < len(c.r.evictor.orders); i++ {
			order := &c.r.evictor.orders[i]
			c.pending = append(c.pending, i)
			c.note("  order %d for %s takes %d", i, order.Decision.Preemptor.Name, len(order.Victims))
		}
	}
	c.t.Errorf("It does not settle: %s", c.r.pending())
}

// unfounded describes a reservation that has no valid reason; "" if there is none.
func (c *world) unfounded() string {
	c.t.Helper()
	h := c.r.sched
	for node, all := range h.reserved.Nodes() {
		for _, r := range all {
			if why := c.unfoundedReservation(cluster.PodIn(r)); why != "" {
				return fmt.Sprintf("room on %s is reserved for %s (%s): %s", node, cluster.PodIn(r).Name, r.UID, why)
			}
		}
	}
	for _, name := range []string{"node-0", "node-1", "node-2", "node-3"} {
		for _, pi := range h.handle.NominatedPodsForNode(name) {
			pod := pi.GetPod()
			if on, ok := c.r.reservedOn(pod.UID); (!ok || on != name) && !h.records.IsAssumed(string(pod.UID)) {
				return fmt.Sprintf("%s (%s) is nominated to %s in memory, and its reservation is on %q", pod.Name, pod.UID, name, on)
			}
		}
	}
	for _, pod := range c.pods(func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil }) {
		name := pod.Status.NominatedNodeName
		if on, _ := c.r.reservedOn(pod.UID); name != "" && on != name && !h.records.IsAssumed(string(pod.UID)) {
			return fmt.Sprintf("%s (%s) is nominated to %s in the API, and its reservation is on %q", pod.Name, pod.UID, name, on)
		}
	}
	return ""
}

// unfoundedReservation says why the reservation of a pod has no valid reason; "" if it has one.
func (c *world) unfoundedReservation(pod *corev1.Pod) string {
	h := c.r.sched
	now := c.find(pod.Name)
	switch {
	case now == nil || now.UID != pod.UID:
		return "it does not exist"
	case now.Spec.NodeName != "" || now.DeletionTimestamp != nil:
		return "it is not pending"
	}
	key := h.index.KeyOf(now)
	if !slices.ContainsFunc(h.reserved.Of(key), func(r *engine.Reservation) bool { return r.UID == string(pod.UID) }) {
		return "that is not " + key.String() + "'s, which it is part of"
	}
	group, isMember := h.index.GroupOf(now)
	if isMember {
		g, ok := h.index.Groups.Group(group)
		members := h.placements.Members(group)
		switch {
		case !ok:
			return "its PodGroup does not exist"
		case gang.Gate(group, g, &members) != gang.Verdict{}:
			return gang.Gate(group, g, &members).Message
		}
	}
	if h.waits.Evicting(key) {
		return ""
	}
	if h.ledger.IsDisallowed(key) {
		return "its queue does not let it have that"
	}
	_, planned := h.gangs.PlannedNode(gangKey(group), string(pod.UID))
	soon := h.waits.WaitsFor(key, engine.Pause) || h.waits.WaitsFor(key, engine.Going) || h.waits.WaitsFor(key, engine.RetryDue)
	soon = soon || h.turns.Holds(key)
	if !planned && !soon && !h.waits.WaitsForVictims(key) && !c.isQueued(now) {
		return "it waits for nothing"
	}
	return ""
}

// isQueued reports whether a pod or a member of its gang is in the active or backoff queue.
func (c *world) isQueued(pod *corev1.Pod) bool {
	key := c.r.sched.index.KeyOf(pod)
	queue := c.r.upstream.SchedulingQueue
	return slices.ContainsFunc(slices.Concat(queue.PodsInActiveQ(), queue.PodsInBackoffQ()), func(other *corev1.Pod) bool {
		return c.r.sched.index.KeyOf(other) == key
	})
}

// checks sets the number of random sequences of events, unless the flag -rapid.checks is set. Each
// sequence uses a scheduler of its own. The returned function restores the previous number.
func checks(t *testing.T, count string) func() {
	t.Helper()
	const name = "rapid.checks"
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	before := flag.Lookup(name).Value.String()
	if given {
		count = before
	}
	set := func(to string) {
		if err := flag.Set(name, to); err != nil {
			t.Error(err)
		}
	}
	set(count)
	return func() { set(before) }
}

// prepareSequences changes the state of the process so that each sequence can have a virtual clock.
// The test must not be parallel.
func prepareSequences(t *testing.T) {
	t.Helper()
	// The scheduler starts one goroutine for the signals of the process. Start it here, so that it
	// does not belong to a single sequence.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR2)
	// The error handlers sleep between two errors. They use the clock of the sequence in which the
	// last error occurred, so remove them.
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil //nolint:reassign // There is no other way, and no other test runs.
	t.Cleanup(func() {
		signal.Stop(signals)
		utilruntime.ErrorHandlers = handlers //nolint:reassign // See above.
	})
}

// TestPromisesEndWithTheirReason checks reservations during random events. Room may be reserved
// only for pods that wait until the room is free, or that are being placed. Nominations and
// verdicts must agree with the reservations.
func TestPromisesEndWithTheirReason(t *testing.T) {
	prepareSequences(t)
	t.Cleanup(checks(t, "30"))
	one := rapid.Custom(func(t *rapid.T) happening {
		n := rapid.IntRange(0, 23)
		return happening{what: rapid.SampledFrom(happenings).Draw(t, "what"), a: n.Draw(t, "a"), b: n.Draw(t, "b"), c: n.Draw(t, "c")}
	})
	rapid.Check(t, func(rt *rapid.T) {
		all := rapid.SliceOfN(one, 30, 60).Draw(rt, "happenings")
		wrong := ""
		synctest.Test(t, func(t *testing.T) {
			c := newWorld(t)
			defer func() {
				c.stop()
				// Let the virtual clock advance, so that pods that still wait at Permit time out.
				time.Sleep(time.Hour)
			}()
			for _, h := range all {
				c.happen(h)
				c.settle()
				if why := c.unfounded(); why != "" {
					wrong = fmt.Sprintf("%s\nafter\n  %s", why, strings.Join(c.log, "\n  "))
					return
				}
			}
		})
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}
