package scheduler

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

func TestQueueOf(t *testing.T) {
	groups := &gang.Store{}
	for _, g := range []gang.Group{
		{Key: types.NamespacedName{Namespace: "ns", Name: "own"}, Queue: "of-group"},
		{Key: types.NamespacedName{Namespace: "ns", Name: "native"}, Labels: map[string]string{v1alpha1.LabelQueue: "of-label", "team/queue": "of-key"}},
	} {
		groups.Set(&g)
	}
	h := detached(&Inputs{Groups: groups})
	args := &configv1alpha1.ReprieveArgs{QueueLabelKey: ptr.To("team/queue")}
	configv1alpha1.SetDefaults(args)
	h.index.Profiles.Add("keyed", args, nil)
	tests := map[string]struct {
		scheduler string
		labels    map[string]string
		want      string
	}{
		"a pod's own label":             {labels: map[string]string{v1alpha1.LabelQueue: "a"}, want: "a"},
		"by the key of its profile":     {scheduler: "keyed", labels: map[string]string{v1alpha1.LabelQueue: "a", "team/queue": "b"}, want: "b"},
		"its group's, not its own":      {labels: map[string]string{v1alpha1.LabelPodGroup: "own", v1alpha1.LabelQueue: "a"}, want: "of-group"},
		"the label of its group":        {labels: map[string]string{v1alpha1.LabelPodGroup: "native"}, want: "of-label"},
		"of its group, by that key":     {scheduler: "keyed", labels: map[string]string{v1alpha1.LabelPodGroup: "native"}, want: "of-key"},
		"none":                          {want: ""},
		"a group that is not there yet": {labels: map[string]string{v1alpha1.LabelPodGroup: "later", v1alpha1.LabelQueue: "a"}, want: "a"},
	}
	pods := make(map[string]*corev1.Pod)
	for name, tt := range tests {
		pods[name] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: tt.labels}, Spec: corev1.PodSpec{SchedulerName: tt.scheduler}}
		if got := h.ledger.QueueOf(pods[name]); got != "" {
			t.Errorf("%s: queue %q, where there are none", name, got)
		}
	}
	h.quotas.SetQueue(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := h.ledger.QueueOf(pods[name]); got != tt.want {
				t.Errorf("queue %q, want %q", got, tt.want)
			}
		})
	}
}

// withoutQueues returns a function that makes all calls about queues in the life of a pod, in a
// cluster without queues.
func withoutQueues() func() {
	h := detached(&Inputs{Groups: &gang.Store{}})
	args := &configv1alpha1.ReprieveArgs{}
	configv1alpha1.SetDefaults(args)
	h.index.Profiles.Add("reprieve-scheduler", args, nil)
	one := pod("one", "", "1", 0)
	one.Labels = map[string]string{v1alpha1.LabelQueue: "a"}
	pods := []*corev1.Pod{one}
	pre := preemptor{queue: h.ledger.QueueOf(one), pods: pods, minCount: 1}
	return func() {
		h.ledger.Charge(one)
		h.quotas.Forget(one.UID)
		if h.gates.waitsForTurn(one) || h.gates.blockedByQueue(one) != (gang.Verdict{}) || pre.limit(h.ledger) != (gang.Verdict{}) || !h.ledger.IsCharged(pre.queue, pre.pods) ||
			h.ledger.QueueOf(one) != "" || h.quotas.Check("a") != (gang.Verdict{}) || h.quotas.Snapshot(nil) != nil {
			panic("queues are in the way, and there are none")
		}
	}
}

func TestNoQueuesAllocateNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, withoutQueues()); n != 0 {
		t.Errorf("%v allocations for a pod where there are no queues", n)
	}
}

// BenchmarkNoQueues measures the cost of the calls about queues in the life of a pod, in a cluster
// without queues.
func BenchmarkNoQueues(b *testing.B) {
	way := withoutQueues()
	b.ReportAllocs()
	for b.Loop() {
		way()
	}
}

func TestMinRuntimeOfGroup(t *testing.T) {
	h := detached(&Inputs{Groups: &gang.Store{}})
	for name, change := range map[string]func(*configv1alpha1.ReprieveArgs){
		"patient": func(a *configv1alpha1.ReprieveArgs) {
			a.PreemptMinRuntime, a.ReclaimMinRuntime = &metav1.Duration{Duration: time.Minute}, &metav1.Duration{Duration: time.Hour}
		},
		"podwise": func(a *configv1alpha1.ReprieveArgs) {
			a.PreemptMinRuntime, a.WorkloadAware = &metav1.Duration{Duration: time.Minute}, ptr.To(false)
		},
		"leafwise": func(a *configv1alpha1.ReprieveArgs) {
			a.ReclaimResolveMethod = ptr.To(configv1alpha1.ResolveQueue)
		},
	} {
		args := &configv1alpha1.ReprieveArgs{}
		change(args)
		configv1alpha1.SetDefaults(args)
		h.index.Profiles.Add(name, args, nil)
	}
	h.quotas.SetQueue(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "top"}, Spec: v1alpha1.QueueSpec{ReclaimMinRuntime: &metav1.Duration{Duration: 2 * time.Hour}}})
	h.quotas.SetQueue(&v1alpha1.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec:       v1alpha1.QueueSpec{Parent: ptr.To("top"), ReclaimMinRuntime: &metav1.Duration{Duration: time.Second}},
	})
	h.quotas.SetQueue(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
	tests := map[string]struct {
		profile, queue string
		want           time.Duration
	}{
		"no queue":                     {profile: "patient", want: time.Minute},
		"a queue that says nothing":    {profile: "patient", queue: "b", want: time.Hour},
		"a queue below one that says":  {profile: "patient", queue: "a", want: 2 * time.Hour},
		"by the leaf alone":            {profile: "leafwise", queue: "a", want: time.Second},
		"members one by one":           {profile: "podwise", queue: "a"},
		"a profile without the plugin": {profile: "other", queue: "a", want: 2 * time.Hour},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			one := &corev1.Pod{Spec: corev1.PodSpec{SchedulerName: tt.profile}}
			if got := h.MinRuntime(&gang.Group{Queue: tt.queue}, &gang.Members{Pending: []*corev1.Pod{one}}); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// TestBarred checks when a workload keeps its reservations: as long as its queue allows them.
func TestBarred(t *testing.T) {
	limited := func(name string, gpus string) *v1alpha1.Queue {
		return &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.QueueSpec{Limit: corev1.ResourceList{"gpu": resource.MustParse(gpus)}}}
	}
	for name, tt := range map[string]struct {
		change func(h *Scheduler, pods cache.Indexer, waits *corev1.Pod)
		want   bool
	}{
		"nothing has changed":   {change: func(*Scheduler, cache.Indexer, *corev1.Pod) {}},
		"the queue is gone":     {change: func(h *Scheduler, _ cache.Indexer, _ *corev1.Pod) { h.quotas.DeleteQueue("a") }, want: true},
		"it has others below":   {change: func(h *Scheduler, _ cache.Indexer, _ *corev1.Pod) { h.quotas.SetQueue(below("c", "a")) }, want: true},
		"the limit still holds": {change: func(h *Scheduler, _ cache.Indexer, _ *corev1.Pod) { h.quotas.SetQueue(limited("a", "9")) }},
		"the limit is too low":  {change: func(h *Scheduler, _ cache.Indexer, _ *corev1.Pod) { h.quotas.SetQueue(limited("a", "8")) }, want: true},
		"it is in another queue": {change: func(_ *Scheduler, pods cache.Indexer, waits *corev1.Pod) {
			waits.Labels = map[string]string{v1alpha1.LabelQueue: "b"}
			if err := pods.Update(waits); err != nil {
				t.Fatal(err)
			}
		}, want: true},
		"there are no queues any more": {change: func(h *Scheduler, _ cache.Indexer, _ *corev1.Pod) {
			h.quotas.DeleteQueue("a")
			h.quotas.DeleteQueue("b")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
			h := detached(&Inputs{Groups: &gang.Store{}})
			h.index.Pods = corelisters.NewPodLister(indexer)
			for _, name := range []string{"a", "b"} {
				h.quotas.SetQueue(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}})
			}
			h.quotas.Charge(placed("runs"), "a")
			waits := turnsPod("waits")
			waits.Namespace, waits.Name, waits.Labels = "ns", "waits", map[string]string{v1alpha1.LabelQueue: "a"}
			if err := indexer.Add(waits); err != nil {
				t.Fatal(err)
			}
			pi, err := framework.NewPodInfo(waits.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			o := h.index.KeyOf(waits)
			h.steps.arrives(waits)
			h.steps.reserveRooms(o, []*engine.Reservation{{Pod: pi, UID: string(waits.UID), Node: "n", Standing: workload.Standing{Queue: "a"}}})
			tt.change(h, indexer, waits.DeepCopy())
			if got := h.ledger.IsDisallowed(o); got != tt.want {
				t.Errorf("barred is %v, want %v", got, tt.want)
			}
		})
	}
}

func below(name, parent string) *v1alpha1.Queue {
	return &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.QueueSpec{Parent: &parent}}
}

// TestTurnedDownByItsQueue checks a workload that its queue blocks. Its message names the cause,
// and the framework drops its nomination. PostFilter of other plugins must not fail, because the
// error would be in the message.
func TestTurnedDownByItsQueue(t *testing.T) {
	t.Parallel()
	for name, isGang := range map[string]bool{"a pod": false, "a gang": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, node("node-0", "4"))
			r.sched.QueueSet(&v1alpha1.Queue{
				ObjectMeta: metav1.ObjectMeta{Name: "q"},
				Spec:       v1alpha1.QueueSpec{Limit: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
			})
			p := pod("p", "", "2", 10)
			p.Labels = map[string]string{v1alpha1.LabelQueue: "q"}
			if isGang {
				r.gangOf("g", 1, 10).Queue = "q"
				p = pod("p", "g", "2", 10)
			}
			// Another component may have written the nomination.
			p.Status.NominatedNodeName = "node-0"
			r.create(p)
			r.eventually("its turn comes", func() bool { return len(r.active()) > 0 })
			r.cycle()
			r.eventually("it says what is in the way", func() bool {
				got, err := r.sched.index.Pods.Pods("ns").Get("p")
				return err == nil && cluster.ScheduledCondition(got) != nil
			})
			got, err := r.sched.index.Pods.Pods("ns").Get("p")
			if err != nil {
				t.Fatal(err)
			}
			if said := cluster.ScheduledCondition(got).Message; !strings.Contains(said, `Queue "q" has a limit`) || strings.Contains(said, "not found") {
				t.Errorf("It says %q", said)
			}
			if nodes := r.nominatedTo(1); len(nodes) > 0 {
				t.Errorf("It is expected on %v", nodes)
			}
		})
	}
}
