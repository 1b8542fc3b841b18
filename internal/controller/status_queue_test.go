package controller

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

func TestProtectedUntil(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		pods       []*corev1.Pod
		minRuntime time.Duration
		want       int64
	}{
		"it runs":                       {pods: named("r", 2, running), minRuntime: time.Minute, want: 1060},
		"part of a second counts whole": {pods: named("r", 2, running), minRuntime: 1500 * time.Millisecond, want: 1002},
		"it does not run":               {pods: named("a", 2, assigned), minRuntime: time.Minute},
		"nothing protects it":           {pods: named("r", 2, running)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, gangGroup(2))
			b.pods, b.minRuntime = c.pods, c.minRuntime
			b.step(300 * time.Millisecond)
			b.reconcile()
			b.checkProtected(c.want)
		})
	}
}

// checkProtected compares status.protectedUntil with a Unix time in seconds; 0 for none.
func (b *bench) checkProtected(want int64) {
	b.t.Helper()
	got := b.group().Status.ProtectedUntil
	if (got == nil) != (want == 0) || got != nil && got.Unix() != want {
		b.t.Errorf("Protected until %v, want %d", got, want)
	}
}

func TestProtectedUntilFollows(t *testing.T) {
	t.Parallel()
	b := newBench(t, gangGroup(2))
	b.pods, b.minRuntime = named("r", 2, running), time.Minute
	b.reconcile()
	version := b.group().ResourceVersion
	b.step(500 * time.Millisecond)
	b.reconcile()
	if got := b.group().ResourceVersion; got != version {
		t.Error("Nothing has changed, and the status was written")
	}
	b.step(time.Hour)
	b.minRuntime = 2 * time.Hour
	b.reconcile()
	b.checkProtected(1000 + 7200)
	b.minRuntime = 0
	b.reconcile()
	b.checkProtected(0)
	b.minRuntime = time.Minute
	b.reconcile()
	b.pods = named("p", 2)
	b.reconcile()
	b.step(engine.ShortTime)
	b.reconcile()
	b.checkProtected(0)
}

func TestQueueOrphaned(t *testing.T) {
	t.Parallel()
	b := newBench(t, gangGroup(2))
	find := func() *metav1.Condition {
		return meta.FindStatusCondition(b.group().Status.Conditions, v1alpha1.ConditionQueueOrphaned)
	}
	gone := gang.Verdict{Reason: v1alpha1.ReasonQueueNotFound, Message: `Queue "a" does not exist`}
	b.orphaned = gone
	b.pods = named("p", 2)
	b.reconcile()
	if c := find(); c != nil {
		t.Errorf("Nothing runs, and the condition is %+v", c)
	}
	b.pods = slices.Concat(named("p", 1), named("r", 1, running))
	b.reconcile()
	if c := find(); c == nil || c.Status != metav1.ConditionTrue || c.Reason != gone.Reason || !strings.Contains(c.Message, `"a"`) {
		t.Errorf("The condition is %+v", c)
	}
	if b.before {
		t.Error("It was said before, before it was")
	}
	b.reconcile()
	if !b.before {
		t.Error("What was said before is forgotten")
	}
	b.orphaned = gang.Verdict{}
	b.reconcile()
	if c := find(); c != nil {
		t.Errorf("The queue is back, and the condition is %+v", c)
	}
}

// homeOf returns a namespace with a default queue.
func homeOf(queue string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
	metav1.SetMetaDataAnnotation(&ns.ObjectMeta, v1alpha1.AnnotationDefaultQueue, queue)
	return ns
}

// TestGroupsOfQueues checks that each change of Queues requests the PodGroups once.
func TestGroupsOfQueues(t *testing.T) {
	t.Parallel()
	inQueue := gangGroup(2)
	inQueue.Spec.QueueName = ptr.To("a")
	outside := gangGroup(2)
	outside.Name = "outside"
	requests := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer requests.ShutDown()
	changed := &Trigger{}
	if err := changed.Start(t.Context(), requests); err != nil {
		t.Fatal(err)
	}
	orphans := -1
	var figures map[string]v1alpha1.QueueStatus
	ledger := queue.NewLedger()
	objects := newClient(t, inQueue, outside)
	s := NewQueueStatus(&Inputs{
		Client: objects, QueueClient: objects, Ledger: ledger, Changed: changed, OrphanedPods: func(n int) { orphans = n },
		QueueFigures: func(all map[string]v1alpha1.QueueStatus) { figures = all },
		Clock:        clocktesting.NewFakeClock(time.Unix(1000, 0)),
	})
	looked := func() []string {
		t.Helper()
		if err := s.regroup(t.Context()); err != nil {
			t.Fatal(err)
		}
		var out []string
		for requests.Len() > 0 {
			r, _ := requests.Get()
			requests.Done(r)
			out = append(out, r.Name)
		}
		return out
	}
	if got := looked(); len(got) != 0 {
		t.Errorf("%v are looked at, and there are no queues", got)
	}
	for _, change := range []func(){
		func() { ledger.SetQueue(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "b"}}) },
		func() { ledger.DeleteQueue("b") },
		func() { ledger.SetNamespace(homeOf("b")) },
		func() { ledger.SetNamespace(homeOf("")) },
	} {
		change()
		// The group outside names no queue, but may use the default queue of its namespace.
		if got := slices.Sorted(slices.Values(looked())); !slices.Equal(got, []string{"g", "outside"}) {
			t.Errorf("%v are looked at, want both", got)
		}
		if got := looked(); len(got) != 0 {
			t.Errorf("%v are looked at again", got)
		}
	}
	ledger.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")},
	}})
	ledger.SetQueue(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
	for i, name := range []string{"", "a", "a", "b"} {
		pod := named("r", 4, running)[i]
		pod.UID += types.UID(name)
		ledger.Charge(pod, name)
	}
	if err := s.update(t.Context()); err != nil || orphans != 2 {
		t.Errorf("%d orphaned pods (%v), want 2", orphans, err)
	}
	b := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	if err := objects.Create(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	ledger.SetQueue(b)
	err := s.update(t.Context())
	if allocated := figures["b"].Allocated; err != nil || allocated.Pods().Value() != 1 || len(figures) != 1 {
		t.Errorf("the figures are %+v (%v), want one pod of b", figures, err)
	}
	ledger.DeleteQueue("b")
	if err := s.update(t.Context()); err != nil || orphans != 0 || len(figures) != 0 {
		t.Errorf("%d orphaned pods, figures %v (%v) without queues", orphans, figures, err)
	}
}

// TestQueueStatusThatIsReadLate checks a cache that shows an outdated status of a Queue. The
// outdated status equals the new status, but the status on the server does not. So the new status
// must be written.
func TestQueueStatusThatIsReadLate(t *testing.T) {
	t.Parallel()
	var frozen *v1alpha1.QueueList
	server := newWithWatch(t, &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "q"}})
	late := interceptor.NewClient(server, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if out, ok := list.(*v1alpha1.QueueList); ok && frozen != nil {
				frozen.DeepCopyInto(out)
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})
	ledger := queue.NewLedger()
	ledger.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")},
	}})
	ledger.SetQueue(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "q"}})
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	s := NewQueueStatus(&Inputs{Client: late, QueueClient: late, Ledger: ledger, OrphanedPods: func(int) {}, Clock: clk})
	pods := func() int64 {
		t.Helper()
		clk.Step(queueInterval)
		if err := s.update(t.Context()); err != nil {
			t.Fatal(err)
		}
		var q v1alpha1.Queue
		if err := server.Get(t.Context(), types.NamespacedName{Name: "q"}, &q); err != nil {
			t.Fatal(err)
		}
		return q.Status.Allocated.Pods().Value()
	}
	one := named("r", 1, running)[0]
	if got := pods(); got != 0 {
		t.Fatalf("%d pods, and there are none", got)
	}
	var now v1alpha1.QueueList
	if err := server.List(t.Context(), &now); err != nil {
		t.Fatal(err)
	}
	frozen = &now
	ledger.Charge(one, "q")
	if got := pods(); got != 1 {
		t.Errorf("%d pods, want the one that has come", got)
	}
	ledger.Forget(one.UID)
	pods()
	frozen = nil
	if got := pods(); got != 0 {
		t.Errorf("%d pods, and the one has gone", got)
	}
}
