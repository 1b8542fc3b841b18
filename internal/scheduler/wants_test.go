package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// TestWants checks the cache of wants. A result that the order is wanted is valid for a short time,
// unless a relevant change comes earlier. A result that it is not wanted is not cached.
func TestWants(t *testing.T) {
	t.Parallel()
	x, y := &eviction.Order{}, &eviction.Order{}
	promised := []*engine.Reservation{{}, {}}
	for name, c := range map[string]struct {
		first bool
		// between is called before the second call of asks.
		between func(*wants)
		// after is the time between the two calls.
		after time.Duration
		// order is the order of the second call.
		order *eviction.Order
		// promised are the reservations of the second call.
		promised  []*engine.Reservation
		wantAsked bool
	}{
		"yes, at once":                    {first: true, order: x, promised: promised},
		"yes, shortly after":              {first: true, order: x, promised: promised, after: wantedFor - 1},
		"yes, later":                      {first: true, order: x, promised: promised, after: wantedFor, wantAsked: true},
		"yes, and something has changed":  {first: true, order: x, promised: promised, between: (*wants).askAnew, wantAsked: true},
		"yes, and nothing is promised":    {first: true, order: x, wantAsked: true},
		"yes, and less is promised":       {first: true, order: x, promised: promised[:1], wantAsked: true},
		"yes, and as much is, by another": {first: true, order: x, promised: slices.Clone(promised), wantAsked: true},
		"no, at once":                     {order: x, promised: promised, wantAsked: true},
		"of another":                      {first: true, order: y, promised: promised, wantAsked: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w wants
			clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
			if got := w.asks(x, promised, clk, func() bool { return c.first }); got != c.first {
				t.Fatalf("got %v first, want %v", got, c.first)
			}
			if c.between != nil {
				c.between(&w)
			}
			clk.SetTime(clk.Now().Add(c.after))
			asked := false
			got := w.asks(c.order, c.promised, clk, func() bool { asked = true; return false })
			if asked != c.wantAsked || got == c.wantAsked {
				t.Errorf("it was asked: %v, want %v; the answer is %v", asked, c.wantAsked, got)
			}
		})
	}
}

// TestWantsAreForgotten checks that the cache drops expired results when it stores a new one.
func TestWantsAreForgotten(t *testing.T) {
	t.Parallel()
	var w wants
	yes := func() bool { return true }
	for at := range int64(2) {
		w.asks(&eviction.Order{}, nil, clocktesting.NewFakePassiveClock(time.Unix(at, 0)), yes)
	}
	if len(w.known) != 1 {
		t.Errorf("%d answers are kept, want one", len(w.known))
	}
}

// TestChangeWhileItIsAsked checks a change during the call of isWanted. The result must not be used
// afterwards.
func TestChangeWhileItIsAsked(t *testing.T) {
	t.Parallel()
	var w wants
	order, clk := &eviction.Order{}, clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	w.asks(order, nil, clk, func() bool { w.askAnew(); return true })
	if w.asks(order, nil, clk, func() bool { return false }) {
		t.Error("the answer from before counts")
	}
}

// TestWantsUntilItIsNot checks that a change of the preemptor's reservations invalidates cached
// results at once.
func TestWantsUntilItIsNot(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(r *rig, preemptor *corev1.Pod){
		"its room is given up": func(r *rig, preemptor *corev1.Pod) {
			r.sched.steps.step(engine.PodsRelease{Key: podKey(preemptor), Pods: []engine.UID{string(preemptor.UID)}})
		},
		"it is promised another node": func(r *rig, preemptor *corev1.Pod) {
			now := *r.sched.reserved.Of(podKey(preemptor))[0]
			now.Node = "node-1"
			r.sched.steps.reserveRooms(podKey(preemptor), []*engine.Reservation{&now})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(2, "1")...)
			r.create(on(pod("v", "", "1", 0), "node-0"), on(pod("w", "", "1", 9), "node-1"))
			preemptor := pod("p", "", "1", 5)
			r.create(preemptor)
			r.cycle()
			if !r.wants(0) {
				t.Fatal("it is not wanted from the beginning")
			}
			spoil(r, preemptor)
			if r.wants(0) {
				t.Error("it is still wanted")
			}
		})
	}
}

// TestWantsForTheGangAsItWas checks that an order is no longer wanted after its gang has changed.
func TestWantsForTheGangAsItWas(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*gang.Group)
		want   bool
	}{
		"it needs fewer members":     {func(g *gang.Group) { g.MinCount = 1 }, false},
		"it is another of its name":  {func(g *gang.Group) { g.UID = "made-anew" }, false},
		"it is written and the same": {func(*gang.Group) {}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(2, "1")...)
			r.create(on(pod("v", "", "1", 0), "node-0"), on(pod("w", "", "1", 0), "node-1"))
			g := r.gangOf("p", 2, 10)
			r.create(members("p", 2, "1", 10)...)
			r.cycle()
			if !r.wants(0) {
				t.Fatal("it is not wanted from the beginning")
			}
			now := *g
			tt.change(&now)
			r.groups.set(&now)
			r.sched.GroupChanged(g.Key)
			if got := r.wants(0); got != tt.want {
				t.Errorf("wanted: %v, want %v", got, tt.want)
			}
		})
	}
}

// TestSurplusAtTheOrder checks an order for surplus members of a protected group. The order must
// list the group, and must stop when the group has no surplus left.
func TestSurplusAtTheOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// guarded is the min-runtime of the victim's queue.
		guarded  time.Duration
		minCount int
		want     bool
	}{
		"a member past minCount, guarded":     {time.Hour, 2, true},
		"a member past minCount, not guarded": {0, 2, false},
		"a member that it needs, not guarded": {0, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(1, "3")...)
			q := limitedQueue("a", "8")
			q.Spec.PreemptMinRuntime = &metav1.Duration{Duration: c.guarded}
			r.sched.QueueSet(q)
			r.queuedGang("g", "a", c.minCount)
			g := &gang.Group{Key: key("g")}
			all := members("g", 3, "1", 0)
			for _, pod := range all {
				pod.Status.Phase = corev1.PodRunning
				r.create(on(pod, "node-0"))
			}
			r.create(ofQueue("a", pod("p", "", "1", 10)))
			r.eventually("it takes a member", func() bool { r.cycles(); return len(r.evictor.orders) == 1 })
			order := r.evictor.orders[0]
			if got := slices.Contains(order.Surplus, g.Key); got != c.want || len(order.Victims) != 1 {
				t.Fatalf("surplus: %t, want %t; the order is %+v", got, c.want, order)
			}
			if keeps := r.plugin.KeepsMinCount(g.Key); keeps != (c.minCount < 3) {
				t.Errorf("it keeps its minCount: %t", keeps)
			}
			at := slices.IndexFunc(all, func(pod *corev1.Pod) bool { return order.Victims[pod.UID] == nil })
			r.remove(all[at])
			r.eventually("it needs all that are left", func() bool { return !r.plugin.KeepsMinCount(g.Key) })
		})
	}
}

// TestSurplusByRole checks a protected gang with surplus workers in one role. Only workers of that
// role may be evicted, and only as long as they are surplus.
func TestSurplusByRole(t *testing.T) {
	t.Parallel()
	needs := map[string]int{"head": 1, "gpu": 1, "cpu": 1}
	r := newRigOn(t, clientWith(nodes(1, "5")...), &groups{all: map[types.NamespacedName]*gang.Group{}}, schedulerYAML, nil,
		func(in *Inputs) { in.Derived = named{sized{roles{needed: needs}, 3}} })
	q := limitedQueue("a", "8")
	q.Spec.PreemptMinRuntime = &metav1.Duration{Duration: time.Hour}
	r.sched.QueueSet(q)
	r.queuedGang("g", "a", 3)
	all := make(map[string]*corev1.Pod)
	// Without roles, the youngest member would be evicted first.
	for _, name := range []string{"cpu-0", "cpu-1", "gpu-0", "gpu-1", "head-0"} {
		member := pod(name, "g", "1", 0)
		member.Status.Phase, member.Status.StartTime = corev1.PodRunning, &metav1.Time{Time: time.Unix(int64(1000+len(all)), 0)}
		r.create(on(member, "node-0"))
		all[name] = member
	}
	r.create(ofQueue("a", pod("p", "", "1", 10)))
	r.eventually("it takes a member", func() bool { r.cycles(); return len(r.evictor.orders) == 1 })
	order := r.evictor.orders[0]
	if len(order.Victims) != 1 || order.Victims[all["gpu-1"].UID] == nil || !slices.Contains(order.Surplus, key("g")) {
		t.Fatalf("The order is %+v, want gpu-1 as surplus", order)
	}
	if !r.plugin.KeepsMinCount(key("g")) {
		t.Error("It does not keep its minCount")
	}
	// Three members keep running. The number is enough, but a role lacks a member.
	r.remove(all["gpu-0"])
	r.eventually("it lacks a worker with a GPU", func() bool { return !r.plugin.KeepsMinCount(key("g")) })
}

// named is a Derived in which pods belong to the group that they name.
type named struct{ sized }

// GroupOf is part of gang.Derived.
func (named) GroupOf(pod *corev1.Pod) (types.NamespacedName, bool) { return gang.GroupOf(pod) }

// TestSurplusThatGoesMeanwhile checks a protected gang that loses a member after the snapshot of a
// decision. The order must still evict only surplus.
func TestSurplusThatGoesMeanwhile(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "3")...)
	q := limitedQueue("a", "8")
	q.Spec.PreemptMinRuntime = &metav1.Duration{Duration: time.Hour}
	r.sched.QueueSet(q)
	r.queuedGang("g", "a", 2)
	all := members("g", 3, "1", 0)
	for _, pod := range all {
		pod.Status.Phase = corev1.PodRunning
		r.create(on(pod, "node-0"))
	}
	r.meanwhile = func(*corev1.Pod) {
		r.meanwhile = func(*corev1.Pod) {}
		r.remove(all[0])
	}
	r.create(ofQueue("a", pod("p", "", "1", 10)))
	r.eventually("it is decided", func() bool { r.cycles(); return len(r.evictor.orders) > 0 })
	order := r.evictor.orders[0]
	if order.Victims[all[0].UID] != nil || len(order.Victims) != 1 {
		t.Fatalf("The order is %+v", order)
	}
	if !slices.Contains(order.Surplus, key("g")) || r.plugin.KeepsMinCount(key("g")) {
		t.Errorf("surplus of %v is taken, and the gang keeps its minCount: %t", order.Surplus, r.plugin.KeepsMinCount(key("g")))
	}
}

// TestWantsUntilANodeIsLost checks that the loss of a node invalidates a cached result before it
// expires.
func TestWantsUntilANodeIsLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(r *rig){
		"it is cordoned": func(r *rig) {
			r.changeNode("node-0", func(node *corev1.Node) { node.Spec.Unschedulable = true })
		},
		"it goes": func(r *rig) { r.removeNode("node-0") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(1, "1")...)
			order, still := &eviction.Order{}, clocktesting.NewFakePassiveClock(time.Unix(0, 0))
			r.sched.wanted.asks(order, nil, still, func() bool { return true })
			lose(r)
			r.eventually("it is asked again", func() bool {
				return !r.sched.wanted.asks(order, nil, still, func() bool { return false })
			})
		})
	}
}

// BenchmarkForfeits measures the check whether a gang in a queue may keep its reservations. Four
// victims of each member are terminating.
func BenchmarkForfeits(b *testing.B) {
	for _, members := range []int{10, 100, 500} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			h, key := promisedGang(b, members)
			for b.Loop() {
				if h.ledger.IsDisallowed(key) {
					b.Fatal("it is barred")
				}
			}
		})
	}
}

func promisedGang(t testing.TB, members int) (*Scheduler, workload.Key) {
	t.Helper()
	h := detached(&Inputs{Groups: &gang.Store{}})
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	h.index.Pods = corelisters.NewPodLister(indexer)
	h.quotas.SetQueue(limitedQueue("a", "1000000"))
	h.quotas.SetQueue(limitedQueue("b", "1000000"))
	cpu := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	for i := range 4 * members {
		pod := placed(fmt.Sprint("victim-", i))
		pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		pod.Spec.Containers[0].Resources.Requests = cpu
		h.quotas.Charge(pod, "b")
	}
	key := gangKey(types.NamespacedName{Namespace: "ns", Name: "g"})
	var reserved []*engine.Reservation
	for i := range members {
		pod := turnsPod(fmt.Sprint("member-", i))
		pod.Spec.Containers[0].Resources.Requests = cpu
		pod.Namespace, pod.Name, pod.Labels = "ns", string(pod.UID), map[string]string{v1alpha1.LabelQueue: "a"}
		if err := indexer.Add(pod); err != nil {
			t.Fatal(err)
		}
		h.quotas.Charge(pod, "a")
		pi, err := framework.NewPodInfo(pod)
		if err != nil {
			t.Fatal(err)
		}
		reserved = append(reserved, &engine.Reservation{
			Pod: pi, UID: string(pod.UID), Node: fmt.Sprint("node-", i), Place: i, Standing: workload.Standing{Queue: "a"},
		})
	}
	h.steps.reserveRooms(key, reserved)
	return h, key
}
