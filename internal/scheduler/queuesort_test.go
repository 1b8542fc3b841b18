package scheduler

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// newSort returns a PrioritySort. groups maps the names of groups to their priorities; nil stands
// for a priority that is not resolved yet.
func newSort(tb testing.TB, groups map[string]*int32) fwk.QueueSortPlugin {
	tb.Helper()
	store := &gang.Store{}
	for name, priority := range groups {
		store.Set(&gang.Group{Key: key(name), MinCount: 1, Priority: priority})
	}
	plugins := NewPlugins(Inputs{Groups: store})
	plugins.sched.Store(detached(&plugins.inputs))
	made, err := plugins.Registry()[SortName](tb.Context(), nil, nil)
	if err != nil {
		tb.Fatal(err)
	}
	sort, ok := made.(fwk.QueueSortPlugin)
	if !ok || sort.Name() != SortName {
		tb.Fatalf("Made %T %s", made, made.Name())
	}
	return sort
}

// queued returns a pod that entered the queue at the time since, in seconds.
func queued(name, group string, priority int32, since int64) *framework.QueuedPodInfo {
	return &framework.QueuedPodInfo{
		PodInfo:        &framework.PodInfo{Pod: pod(name, group, "1", priority)},
		QueueingParams: framework.QueueingParams{Timestamp: time.Unix(since, 0)},
	}
}

func TestQueueOrder(t *testing.T) {
	t.Parallel()
	sort := newSort(t, map[string]*int32{"low": ptr.To[int32](1), "high": ptr.To[int32](9), "also-high": ptr.To[int32](9), "unresolved": nil})
	cases := map[string]struct {
		first, second *framework.QueuedPodInfo
		// tie is true if neither pod comes before the other.
		tie bool
	}{
		"pods by their own priority":                     {first: queued("a", "", 5, 2), second: queued("b", "", 4, 1)},
		"pods of one priority by time":                   {first: queued("a", "", 5, 1), second: queued("b", "", 5, 2)},
		"pods of one priority and one time":              {first: queued("a", "", 5, 1), second: queued("b", "", 5, 1), tie: true},
		"groups by the groups' priority":                 {first: queued("a", "high", 0, 2), second: queued("b", "low", 7, 1)},
		"a member before a pod above its own priority":   {first: queued("a", "high", 0, 2), second: queued("b", "", 8, 1)},
		"a pod before a member of a higher own priority": {first: queued("a", "", 2, 2), second: queued("b", "low", 7, 1)},
		"members of one group by time":                   {first: queued("a", "high", 0, 1), second: queued("b", "high", 7, 2)},
		"groups of one priority by time":                 {first: queued("a", "also-high", 0, 1), second: queued("b", "high", 7, 2)},
		"a group of a pod's priority by time":            {first: queued("a", "high", 0, 1), second: queued("b", "", 9, 2)},
		"no group of that name: the pod's own":           {first: queued("a", "gone", 7, 2), second: queued("b", "", 5, 1)},
		"a group without a priority: the pod's own":      {first: queued("a", "unresolved", 7, 2), second: queued("b", "", 5, 1)},
		"negative priorities come last":                  {first: queued("a", "low", -9, 2), second: queued("b", "", -1, 1)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := sort.Less(c.first, c.second); got == c.tie {
				t.Errorf("The first comes first: %t", got)
			}
			if sort.Less(c.second, c.first) {
				t.Error("The second comes first")
			}
		})
	}
}

// TestQueueOrderOfReservedRoom checks that a pod whose victims are gone comes before equal pods
// that arrived after its first attempt.
func TestQueueOrderOfReservedRoom(t *testing.T) {
	t.Parallel()
	sched := detached(&Inputs{Groups: &groups{}})
	plugins := &Plugins{}
	plugins.sched.Store(sched)
	sort := &PrioritySort{plugins: plugins}
	promised, other := queued("promised", "", 5, 9), queued("other", "", 5, 4)
	earlier, higher := queued("earlier", "", 5, 2), queued("higher", "", 6, 9)
	promised.Pod.CreationTimestamp = metav1.Unix(3, 0)
	wantFirst := func(when string, first, second *framework.QueuedPodInfo) {
		t.Helper()
		if !sort.Less(first, second) || sort.Less(second, first) {
			t.Errorf("%s: %s does not come before %s", when, first.Pod.Name, second.Pod.Name)
		}
	}
	wantFirst("nothing is reserved", other, promised)
	sched.steps.step(engine.PodArrives{Pod: string(promised.Pod.UID), Key: podKey(promised.Pod)})
	sched.steps.reserveRooms(podKey(promised.Pod), []*engine.Reservation{{Pod: promised.PodInfo, UID: string(promised.Pod.UID), Node: "n"}})
	wantFirst("room is reserved", promised, other)
	wantFirst("room is reserved", earlier, promised)
	wantFirst("room is reserved", higher, promised)
	sched.engine.Step(time.Time{}, engine.Releases{Key: podKey(promised.Pod)})
	wantFirst("it is reserved no more", other, promised)
}

// TestQueueOrderAllocatesNothing checks that Less allocates no memory. The heap calls it at every
// step, under the lock of the queue.
func TestQueueOrderAllocatesNothing(t *testing.T) {
	sort := newSort(t, map[string]*int32{"low": ptr.To[int32](1), "high": ptr.To[int32](9)})
	first, second := queued("a", "high", 0, 1), queued("b", "low", 0, 1)
	if n := testing.AllocsPerRun(1000, func() { sort.Less(first, second) }); n != 0 {
		t.Errorf("A comparison allocates %v times", n)
	}
}

// podHeap is a heap of pods, like the scheduler's queue.
type podHeap struct {
	pods []*framework.QueuedPodInfo
	less fwk.LessFunc
}

func (h *podHeap) Len() int           { return len(h.pods) }
func (h *podHeap) Less(i, j int) bool { return h.less(h.pods[i], h.pods[j]) }
func (h *podHeap) Swap(i, j int)      { h.pods[i], h.pods[j] = h.pods[j], h.pods[i] }
func (h *podHeap) Push(x any) {
	if p, ok := x.(*framework.QueuedPodInfo); ok {
		h.pods = append(h.pods, p)
	}
}

func (h *podHeap) Pop() any {
	last := h.pods[len(h.pods)-1]
	h.pods = h.pods[:len(h.pods)-1]
	return last
}

// BenchmarkQueue removes a pod from a queue of ten thousand pods and adds it again. Half of the
// pods belong to 500 groups.
func BenchmarkQueue(b *testing.B) {
	groups := make(map[string]*int32)
	for i := range 500 {
		groups[fmt.Sprintf("g-%d", i)] = ptr.To(int32(i % 10))
	}
	for name, less := range map[string]fwk.LessFunc{
		"PrioritySort": (&queuesort.PrioritySort{}).Less,
		SortName:       newSort(b, groups).Less,
	} {
		b.Run(name, func(b *testing.B) {
			random := rand.New(rand.NewPCG(1, 2))
			queue := &podHeap{less: less}
			for i := range 10000 {
				group := ""
				if i%2 == 0 {
					group = fmt.Sprintf("g-%d", random.IntN(500))
				}
				queue.pods = append(queue.pods, queued(fmt.Sprintf("p-%d", i), group, random.Int32N(10), int64(i)))
			}
			heap.Init(queue)
			b.ReportAllocs()
			for b.Loop() {
				p, ok := heap.Pop(queue).(*framework.QueuedPodInfo)
				if !ok {
					b.Fatal("no pod")
				}
				p.Timestamp = p.Timestamp.Add(time.Hour)
				heap.Push(queue, p)
			}
		})
	}
}
