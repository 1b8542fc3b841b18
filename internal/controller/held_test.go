package controller

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/metrics"
)

// holding is a Derived that blocks all pods with the same verdict.
type holding struct {
	Derived
	verdict gang.Verdict
	// group is the group of every pod; the zero name for none.
	group types.NamespacedName
	// once is true if the block ends after the next call of Hold.
	once bool
}

func (h *holding) GroupOf(*corev1.Pod) (types.NamespacedName, bool) {
	return h.group, h.group != types.NamespacedName{}
}
func (h *holding) IsBounded(types.NamespacedName) bool { return true }

func (h *holding) Hold(*corev1.Pod) gang.Verdict {
	v := h.verdict
	if h.once {
		h.verdict = gang.Verdict{}
	}
	return v
}

// TestHeld checks that a pod that is blocked for some time reports the reason once. When the block
// ends, the reason is removed from the condition.
func TestHeld(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "uid"}}
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	if err := indexer.Add(pod); err != nil {
		t.Fatal(err)
	}
	clk := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	derived := &holding{verdict: gang.Verdict{Reason: grouping.ReasonOwnerUnknown, Message: "the pod belongs to Job x"}}
	recorder := events.NewFakeRecorder(10)
	var said []string
	held := NewHeld(corelisters.NewPodLister(indexer), derived, &gang.Store{}, recorder, func(pod *corev1.Pod, c corev1.PodCondition) {
		said = append(said, c.Reason)
		// Store the condition in the pod, as the API server does.
		pod.Status.Conditions = []corev1.PodCondition{c}
	}, func(string, int) {}, clk)
	reconciled := func() time.Duration {
		t.Helper()
		result, err := held.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "pod"}})
		if err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter
	}
	if reconciled() == 0 || len(said)+len(recorder.Events) > 0 {
		t.Errorf("it says %q at once", said)
	}
	for range 2 {
		clk.SetTime(clk.Now().Add(heldTime))
		reconciled()
	}
	if strings.Join(said, " ") != grouping.ReasonOwnerUnknown || len(recorder.Events) != 1 {
		t.Errorf("it says %q, and there are %d events", said, len(recorder.Events))
	}
	derived.verdict = gang.Verdict{}
	for range 2 {
		reconciled()
	}
	if strings.Join(said, " ") != grouping.ReasonOwnerUnknown+" "+v1alpha1.ReasonPending {
		t.Errorf("once it is known, it says %q", said)
	}
}

// TestHeldNoLonger checks a block that ends while Reconcile runs. The block must be reported with
// its reason, or not at all.
func TestHeldNoLonger(t *testing.T) {
	t.Parallel()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	if err := indexer.Add(named("p", 1)[0]); err != nil {
		t.Fatal(err)
	}
	clk := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	derived := &holding{verdict: gang.Verdict{Reason: grouping.ReasonOwnerUnknown, Message: "the pod belongs to Job x"}}
	recorder := events.NewFakeRecorder(10)
	var said []string
	held := NewHeld(corelisters.NewPodLister(indexer), derived, &gang.Store{}, recorder,
		func(_ *corev1.Pod, c corev1.PodCondition) { said = append(said, c.Reason+": "+c.Message) }, func(string, int) {}, clk)
	for range 2 {
		if _, err := held.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "p-0"}}); err != nil {
			t.Fatal(err)
		}
		clk.SetTime(clk.Now().Add(heldTime))
		derived.once = true
	}
	if len(said) != 1 || said[0] != grouping.ReasonOwnerUnknown+": the pod belongs to Job x" {
		t.Errorf("The condition is %q", said)
	}
	if event := <-recorder.Events; !strings.Contains(event, "the pod waits: the pod belongs to Job x") {
		t.Errorf("The event is %q", event)
	}
}

// TestHeldPodsAreCounted checks the numbers of pods by reason, after a reason has changed or ended,
// and after a pod was deleted.
func TestHeldPodsAreCounted(t *testing.T) {
	t.Parallel()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, name := range []string{"a", "b"} {
		if err := indexer.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}); err != nil {
			t.Fatal(err)
		}
	}
	clk := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	derived := &holding{}
	shown := map[string]int{}
	held := NewHeld(corelisters.NewPodLister(indexer), derived, &gang.Store{}, events.NewFakeRecorder(10), func(*corev1.Pod, corev1.PodCondition) {},
		func(reason string, pods int) { shown[reason] = pods }, clk)
	look := func(reason string, names ...string) {
		t.Helper()
		derived.verdict = gang.Verdict{}
		if reason != "" {
			derived.verdict = gang.Verdict{Reason: reason, Message: reason}
		}
		for _, name := range names {
			if _, err := held.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: name}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := func(when string, unknown, notGroupable int) {
		t.Helper()
		if shown[string(metrics.OwnerUnknown)] != unknown || shown[string(metrics.NotGroupable)] != notGroupable {
			t.Errorf("%s, shown are %v, want %d and %d", when, shown, unknown, notGroupable)
		}
	}
	look(grouping.ReasonOwnerUnknown, "a", "b")
	want("at once", 0, 0)
	clk.SetTime(clk.Now().Add(heldTime))
	look(grouping.ReasonOwnerUnknown, "a", "b", "a")
	want("after a while", 2, 0)
	look(grouping.ReasonNotGroupable, "a")
	want("once a has another reason", 1, 1)
	look("", "a")
	want("once a has none", 1, 0)
	if err := indexer.Delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b"}}); err != nil {
		t.Fatal(err)
	}
	look(grouping.ReasonOwnerUnknown, "b")
	want("once b has gone", 0, 0)
	if v1alpha1.ReasonPriorityAbovePods != string(metrics.PriorityAbovePods) {
		t.Errorf("the metric begins with %s, which is no reason", metrics.PriorityAbovePods)
	}
}

// TestOutrankedIsLookedAt checks that a new or changed PodGroup requests exactly the pending
// members that it outranks.
func TestOutrankedIsLookedAt(t *testing.T) {
	t.Parallel()
	in := Inputs{Members: fixedMembers{Pending: []*corev1.Pod{classed("high", "high", 10), classed("low", "low", 5)}, Assigned: []*corev1.Pod{classed("runs", "low", 5)}}}
	pg := written(func(pg *v1alpha1.PodGroup) { pg.Spec.Priority = ptr.To[int32](10) })
	clk := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request](),
		workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Clock: clk})
	defer queue.ShutDown()
	handler := in.outranked()
	handler.Create(t.Context(), event.TypedCreateEvent[*v1alpha1.PodGroup]{Object: pg}, queue)
	handler.Update(t.Context(), event.TypedUpdateEvent[*v1alpha1.PodGroup]{ObjectOld: pg, ObjectNew: pg}, queue)
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		clk.Step(heldTime)
		return queue.Len() > 0, nil
	})
	if err != nil {
		t.Fatal("none is looked at")
	}
	if req, _ := queue.Get(); req.Name != "low" || queue.Len() > 0 {
		t.Errorf("%s is looked at, and %d others", req, queue.Len())
	}
}

// TestWhatAnEarlierLeaderSaid checks a pod whose condition says that it is blocked although it is
// not. The pod must be reconciled, and its condition must be replaced.
func TestWhatAnEarlierLeaderSaid(t *testing.T) {
	t.Parallel()
	group := types.NamespacedName{Namespace: "ns", Name: "g"}
	cases := map[string]struct {
		reason string
		change func(*corev1.Pod)
		group  types.NamespacedName
		want   bool
	}{
		"its object was not known":              {reason: grouping.ReasonOwnerUnknown, want: true},
		"its object was not understood":         {reason: grouping.ReasonNotGroupable, group: group, want: true},
		"its group stood higher":                {reason: v1alpha1.ReasonPriorityAbovePods, group: group, want: true},
		"its group was not made":                {reason: gang.ReasonPodGroupNotMade, want: true},
		"its group is not made":                 {reason: gang.ReasonPodGroupNotMade, group: group},
		"it lacks room":                         {reason: corev1.PodReasonUnschedulable},
		"it says nothing":                       {},
		"it has a node meanwhile":               {reason: grouping.ReasonOwnerUnknown, change: assigned},
		"its object was not known, and it goes": {reason: grouping.ReasonOwnerUnknown, change: terminating},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := named("p", 1)[0]
			if c.reason != "" {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: c.reason}}
			}
			if c.change != nil {
				c.change(pod)
			}
			indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
			if err := indexer.Add(pod); err != nil {
				t.Fatal(err)
			}
			said := ""
			held := NewHeld(corelisters.NewPodLister(indexer), &holding{group: c.group}, &gang.Store{}, events.NewFakeRecorder(10),
				func(_ *corev1.Pod, c corev1.PodCondition) { said = c.Reason }, func(string, int) {}, clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)))
			requests := held.concerned(t.Context(), pod)
			for _, req := range requests {
				if _, err := held.Reconcile(t.Context(), req); err != nil {
					t.Fatal(err)
				}
			}
			if len(requests) > 0 != c.want || (said == v1alpha1.ReasonPending) != c.want {
				t.Errorf("it is looked at %d times, and says %q", len(requests), said)
			}
		})
	}
}
