package scheduler

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// limitedQueue returns a Queue that has a limit of CPUs.
func limitedQueue(name, cpus string) *v1alpha1.Queue {
	return &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.QueueSpec{
		Limit: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)},
	}}
}

func (r *rig) queuedGang(name, queue string, minCount int) {
	g := r.gangOf(name, minCount, 0)
	g.Queue = queue
	r.groups.set(g)
}

// TestGangAtTheLimitIsTriedOnce checks a gang that the limit of its queue blocks. After one member
// was tried, no other member is tried.
func TestGangAtTheLimitIsTriedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "8")...)
	r.sched.QueueSet(limitedQueue("a", "2"))
	r.queuedGang("g", "a", 3)
	tried := sets.New[string]()
	r.meanwhile = func(pod *corev1.Pod) { tried.Insert(pod.Name) }
	r.create(members("g", 3, "1", 0)...)
	r.eventually("the gang is kept by the limit", func() bool {
		r.cycles()
		return r.sched.gangs.Verdict(gangKey(key("g"))).Reason == v1alpha1.ReasonQueueLimit
	})
	// Wait long enough for another turn, which would take milliseconds.
	if r.settles(admission.Interval / 2); tried.Len() != 1 {
		t.Errorf("%v are tried, and nothing has changed", sets.List(tried))
	}
	r.sched.QueueSet(limitedQueue("a", "3"))
	r.eventually("the gang has another turn", func() bool { return len(r.active()) > 0 })
	r.cycles()
	r.waitBound("g-0", "g-1", "g-2")
}

// TestGangOfAQueueThatComes checks that a gang that names a missing queue is retried when the queue
// is created.
func TestGangOfAQueueThatComes(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "8")...)
	r.sched.QueueSet(limitedQueue("other", "8"))
	r.queuedGang("g", "later", 2)
	r.create(members("g", 2, "1", 0)...)
	r.eventually("the gang waits for its queue", func() bool {
		return r.sched.gangs.Verdict(gangKey(key("g"))).Reason == v1alpha1.ReasonQueueNotFound
	})
	r.sched.QueueSet(limitedQueue("later", "8"))
	r.eventually("what it asks for counts for its queue", func() bool { return r.sched.quotas.Knows("uid-g-0") })
	r.eventually("the gang is tried", func() bool { return len(r.active()) > 0 })
	r.cycles()
	r.waitBound("g-0", "g-1")
}

// newWholeInQueue returns a rig with one node that two members of the gang g fill. The gang needs
// both and is in a queue.
func newWholeInQueue(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, nodes(1, "2")...)
	r.sched.QueueSet(limitedQueue("a", "8"))
	r.queuedGang("g", "a", 2)
	r.create(members("g", 2, "1", 0)...)
	r.eventually("the gang has its turn", func() bool { return len(r.active()) > 0 })
	r.cycles()
	r.waitBound("g-0", "g-1")
	return r
}

// TestReplacementOfAMember checks that the replacement of a member needs no turn if its gang has
// too few members on nodes.
func TestReplacementOfAMember(t *testing.T) {
	t.Parallel()
	r := newWholeInQueue(t)
	// From here on, the scheduler gives no turns.
	r.sched.retries.leads.Store(false)
	again := pod("g-2", "g", "1", 0)
	r.create(again)
	if !r.sched.gates.waitsForTurn(again) || r.sched.gates.represents(again) {
		t.Error("what a whole gang has more does not wait")
	}
	r.remove(members("g", 2, "1", 0)[0])
	if r.sched.gates.waitsForTurn(again) {
		t.Error("the replacement waits behind others")
	}
	if !r.sched.gates.represents(again) {
		t.Error("the replacement hears of nothing that happens")
	}
}

// TestReplacementWhileSurplusStandsInLine checks a surplus member that leads its gang and waits for
// a turn. The surplus member must be retried when another member must be replaced.
func TestReplacementWhileSurplusStandsInLine(t *testing.T) {
	t.Parallel()
	r := newWholeInQueue(t)
	surplus := pod("g-2", "g", "1", 0)
	r.create(surplus)
	r.eventually("the surplus has its turn", func() bool { return len(r.active()) > 0 })
	r.cycles()
	r.sched.retries.leads.Store(false)
	r.sched.retries.activate(surplus)
	r.eventually("it stands in the line", func() bool { return r.sched.turns.Holds(gangKey(key("g"))) })
	r.remove(members("g", 2, "1", 0)[0])
	r.create(pod("g-3", "g", "1", 0))
	r.eventually("it is tried", func() bool { return len(r.active()) > 0 })
	r.cycles()
	r.waitBound("g-1", "g-2")
}

// TestChargedAsItIsNow checks that recharge uses the current version of a pod. The pod may have
// been changed or deleted since it was listed.
func TestChargedAsItIsNow(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "8")...)
	r.sched.QueueSet(limitedQueue("a", "8"))
	listed := ofQueue("a", on(pod("p", "", "1", 0), "node-0"))
	r.sched.ledger.Recharge(listed)
	if r.sched.quotas.Knows(listed.UID) {
		t.Error("one that has gone counts")
	}
	r.create(ofQueue("a", pod("p", "", "1", 0)))
	r.sched.ledger.Recharge(listed)
	s := r.sched.quotas.Snapshot([]string{"cpu"})
	if s.Allocated[0][0] != 0 || s.Requested[0][0] != 1000 {
		t.Errorf("allocated %v and requested %v, want what it is now", s.Allocated, s.Requested)
	}
}

// TestMembershipOfWhatHasChanged checks MembershipChanged with outdated versions of a pod.
func TestMembershipOfWhatHasChanged(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "8")...)
	r.sched.QueueSet(limitedQueue("a", "8"))
	listed := ofQueue("a", pod("p", "", "1", 0))
	r.sched.MembershipChanged(listed, key("g"), true)
	if r.sched.quotas.Knows(listed.UID) {
		t.Error("one that has gone counts")
	}
	r.create(on(ofQueue("a", pod("p", "", "1", 0)), "node-0"))
	r.sched.MembershipChanged(listed, key("g"), true)
	if s := r.sched.quotas.Snapshot([]string{"cpu"}); s.Allocated[0][0] != 1000 {
		t.Errorf("allocated %v, want what it is now", s.Allocated)
	}
}

// TestWidenedQueue checks that pods of other schedulers count for a queue when their namespace is
// allowed to use it. There is no event about these pods.
func TestWidenedQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "8")...)
	narrow := limitedQueue("a", "8")
	narrow.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	r.sched.QueueSet(narrow)
	p := on(ofQueue("a", pod("p", "", "1", 0)), "node-0")
	p.Spec.SchedulerName = "other"
	r.create(p)
	allocated := func() int64 { return r.sched.quotas.Snapshot([]string{"cpu"}).Allocated[0][0] }
	r.eventually("it is charged", func() bool { return r.sched.quotas.Knows(p.UID) })
	if got := allocated(); got != 0 {
		t.Fatalf("The queue has %d, which it may not", got)
	}
	r.sched.QueueSet(limitedQueue("a", "8"))
	if got := allocated(); got != 1000 {
		t.Errorf("the queue has %d, want 1000", got)
	}
}

// TestQueueThatIsNamedBeforeItIsThere checks a running pod whose label is changed to a queue that
// does not exist. The pod counts for its previous queue until the new queue exists.
func TestQueueThatIsNamedBeforeItIsThere(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "8")...)
	r.sched.QueueSet(limitedQueue("a", "8"))
	p := on(ofQueue("a", pod("p", "", "1", 0)), "node-0")
	r.create(p)
	allocated := func(queue string) int64 {
		s := r.sched.quotas.Snapshot([]string{"cpu"})
		i, ok := s.Tree.Find(queue)
		if !ok {
			return 0
		}
		return s.Allocated[i][0]
	}
	r.eventually("it is charged", func() bool { return allocated("a") == 1000 })
	relabelled := ofQueue("b", p.DeepCopy())
	if _, err := r.client.CoreV1().Pods("ns").Update(t.Context(), relabelled, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("it is known", func() bool {
		now, err := r.sched.index.Pods.Pods("ns").Get("p")
		return err == nil && now.Labels[v1alpha1.LabelQueue] == "b"
	})
	r.never("it leaves its queue", 50*time.Millisecond, func() bool { return allocated("a") != 1000 })
	r.sched.QueueSet(limitedQueue("b", "8"))
	if a, b := allocated("a"), allocated("b"); a != 0 || b != 1000 {
		t.Errorf("%d are allocated in the queue it had, and %d in the one that it names", a, b)
	}
}

// held is a Derived that does not know the groups of pods until ended is set.
type held struct {
	cluster.Underived
	ended atomic.Bool
}

func (h *held) Hold(*corev1.Pod) gang.Verdict {
	if h.ended.Load() {
		return gang.Verdict{}
	}
	return gang.Verdict{Reason: grouping.ReasonOwnerUnknown, Message: "it is not known"}
}

// TestHeldPodsAskForNothing checks that pods count as demand of their queue only once their groups
// are known.
func TestHeldPodsAskForNothing(t *testing.T) {
	t.Parallel()
	known := &held{}
	r := newRigOn(t, clientWith(nodes(1, "8")...), &groups{all: map[types.NamespacedName]*gang.Group{}}, schedulerYAML, nil,
		func(in *Inputs) { in.Derived = known })
	r.sched.QueueSet(limitedQueue("a", "8"))
	p := ofQueue("a", pod("p", "", "1", 0))
	r.create(p)
	requested := func() int64 { return r.sched.quotas.Snapshot([]string{"cpu"}).Requested[0][0] }
	r.sched.ledger.Recharge(p)
	if got := requested(); got != 0 {
		t.Errorf("one that is held asks for %d", got)
	}
	known.ended.Store(true)
	r.sched.MembershipChanged(p, types.NamespacedName{}, false)
	if got := requested(); got != 1000 {
		t.Errorf("one that is held no more asks for %d, want 1000", got)
	}
}

// TestDemandOfGangs checks that the members of a gang count as demand only while the gang can be
// placed.
func TestDemandOfGangs(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(2, "8")...)
	r.sched.QueueSet(limitedQueue("a", "16"))
	r.sched.QueueSet(limitedQueue("b", "16"))
	r.create(ofQueue("b", pod("b-0", "", "8", 0)), ofQueue("b", pod("b-1", "", "8", 0)))
	r.queuedGang("g", "a", 3)
	share := func() int64 {
		s := r.sched.quotas.Snapshot([]string{"cpu"})
		a, _ := s.Tree.Find("a")
		return s.Shares[a][0]
	}
	b := func() int64 {
		s := r.sched.quotas.Snapshot([]string{"cpu"})
		b, _ := s.Tree.Find("b")
		return s.Shares[b][0]
	}
	r.eventually("pods without a gang count", func() bool { return b() == 16000 })
	m := members("g", 3, "2", 0)
	r.create(m[0], m[1])
	r.eventually("the members are charged", func() bool { return r.sched.quotas.Snapshot([]string{"cpu"}).Requested[0][0] == 4000 })
	if got := share(); got != 0 {
		t.Errorf("the share is %d with a gang that lacks a member, want 0", got)
	}
	r.create(m[2])
	r.eventually("the gang that is whole counts", func() bool { return share() == 6000 })
	r.remove(m[0])
	r.eventually("the gang that lacks a member again does not", func() bool { return share() == 0 })
	r.groups.drop(key("g"))
	r.queuedGang("g", "a", 2)
	r.sched.GroupChanged(key("g"))
	if got := share(); got != 4000 {
		t.Errorf("the share is %d once two are enough, want 4000", got)
	}
}

// TestPodAtTheLimit checks a pod whose queue is at its limit. The pod must preempt only less
// important work of the same queue, even if nodes have free room.
func TestPodAtTheLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(2, "4")...)
	r.sched.QueueSet(limitedQueue("a", "2"))
	r.sched.QueueSet(limitedQueue("b", "8"))
	r.create(
		ofQueue("a", on(pod("low", "", "1", 1), "node-0")), ofQueue("a", on(pod("mid", "", "1", 2), "node-0")),
		ofQueue("b", on(pod("other", "", "1", 0), "node-0")),
	)
	r.create(ofQueue("a", pod("equal", "", "1", 1)))
	r.eventually("the equal one has its turn", func() bool { return len(r.active()) > 0 })
	r.cycles()
	if len(r.evictor.orders) > 0 {
		t.Fatalf("%v is taken for one that is no more important", r.taken(0))
	}
	r.create(ofQueue("a", pod("high", "", "1", 10)))
	r.eventually("the more important one has its turn", func() bool { return len(r.active()) > 0 })
	r.cycles()
	if got := r.taken(0); !slices.Equal(got, []string{"low"}) {
		t.Fatalf("%v is taken, want the least important of the queue", got)
	}
	r.succeed(0)
	r.never("it is placed beside what has not gone", admission.Interval/2, func() bool {
		r.cycles()
		return r.nodeOf("high") != "" || r.nodeOf("equal") != ""
	})
	if _, ok := r.reservedOn("uid-high"); !ok {
		t.Error("its room is not kept")
	}
	r.remove(pod("low", "", "1", 1))
	r.eventually("it is tried again", func() bool { return len(r.active()) > 0 })
	r.cycles()
	r.waitBound("high")
	if len(r.evictor.orders) != 1 {
		t.Errorf("%v is taken as well", r.taken(1))
	}
	if node := r.nodeOf("equal"); node != "" {
		t.Errorf("the limit is exceeded: equal is on %s", node)
	}
}

// TestGangAtTheLimit is TestPodAtTheLimit for a gang.
func TestGangAtTheLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(2, "4")...)
	r.sched.QueueSet(limitedQueue("a", "3"))
	r.create(
		ofQueue("a", on(pod("low", "", "1", 1), "node-0")), ofQueue("a", on(pod("mid", "", "1", 2), "node-1")),
		ofQueue("a", on(pod("top", "", "1", 20), "node-1")),
	)
	g := r.gangOf("g", 2, 10)
	g.Queue = "a"
	r.groups.set(g)
	r.create(members("g", 2, "1", 10)...)
	r.eventually("the gang has its turn", func() bool { return len(r.active()) > 0 })
	r.cycles()
	if got := r.taken(0); !slices.Equal(got, []string{"low", "mid"}) {
		t.Fatalf("%v is taken, want what is less important", got)
	}
	r.succeed(0)
	r.remove(pod("low", "", "1", 1))
	r.never("it is placed before all have gone", admission.Interval/2, func() bool {
		r.cycles()
		return r.nodeOf("g-0") != "" || r.nodeOf("g-1") != ""
	})
	r.remove(pod("mid", "", "1", 2))
	r.eventually("the gang is tried again", func() bool { return len(r.active()) > 0 })
	r.cycles()
	r.waitBound("g-0", "g-1")
	if len(r.evictor.orders) != 1 {
		t.Errorf("%v is taken as well", r.taken(1))
	}
}

// TestAtTheLimitWhenAWindowEnds checks protected work in a queue at its limit. Until the end of the
// min-runtime, the preemptor's message names the min-runtime. Then the work is evicted.
func TestAtTheLimitWhenAWindowEnds(t *testing.T) {
	t.Parallel()
	const window = 10 * time.Second
	for name, isGang := range map[string]bool{"a pod": false, "a gang": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(1, "4")...)
			q := limitedQueue("a", "1")
			q.Spec.PreemptMinRuntime = &metav1.Duration{Duration: window}
			r.sched.QueueSet(q)
			began := time.Now()
			r.create(ofQueue("a", classed(on(pod("low", "", "1", 1), "node-0"), "", began)))
			preemptor := ofQueue("a", pod("high", "", "1", 10))
			if isGang {
				g := r.gangOf("g", 1, 10)
				g.Queue = "a"
				r.groups.set(g)
				preemptor = pod("high", "g", "1", 10)
			}
			r.create(preemptor)
			r.eventually("it has its turn", func() bool { return len(r.active()) > 0 })
			r.cycles()
			if said := r.says("high"); !strings.Contains(said, `Queue "a" has a limit`) || !strings.Contains(said, "waits until") {
				t.Errorf("%q, want the limit and the window", said)
			}
			r.eventually("the window ends", func() bool { r.cycles(); return len(r.evictor.orders) > 0 })
			if took := time.Since(began); took < window {
				t.Errorf("low is taken after %v, within its window", took)
			}
		})
	}
}

// TestAtTheLimitOverdue checks that an overdue pod counts for the limit of its queue as long as it
// exists. Work that waited for the end of this pod must evict other pods instead, on any node.
func TestAtTheLimitOverdue(t *testing.T) {
	t.Parallel()
	r := newRigArgs(t, "{terminationTimeout: 10s}", nodes(2, "2")...)
	r.sched.QueueSet(limitedQueue("a", "2"))
	r.create(ofQueue("a", on(pod("stuck", "", "1", 1), "node-0")), ofQueue("a", on(pod("low", "", "1", 1), "node-0")))
	r.terminate("stuck", time.Now())
	r.create(ofQueue("a", pod("high", "", "1", 10)))
	r.eventually("the more important one has its turn", func() bool { return len(r.active()) > 0 })
	r.cycles()
	if node, ok := r.reservedOn("uid-high"); !ok || len(r.evictor.orders) > 0 {
		t.Fatalf("it has room on %q, and %d preemptions; want to wait for the one that goes", node, len(r.evictor.orders))
	}
	r.eventually("another one makes way", func() bool { r.cycles(); return len(r.evictor.orders) > 0 })
	if got := r.taken(0); !slices.Equal(got, []string{"low"}) {
		t.Errorf("%v is taken, want low", got)
	}
}

// TestChargedBeforeItIsPromised checks that a pod with a reservation counts before the next pod is
// checked against the limit. The quota ledger may learn of a pod later than the scheduler's queue.
func TestChargedBeforeItIsPromised(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "4")...)
	r.sched.QueueSet(limitedQueue("a", "1"))
	p := ofQueue("a", pod("p", "", "1", 0))
	r.create(p)
	r.eventually("it has its turn", func() bool { return len(r.active()) > 0 })
	r.sched.quotas.Forget(p.UID)
	r.sched.gates.blockedByQueue(p)
	if !r.sched.quotas.Knows(p.UID) {
		t.Error("It is let through without being charged")
	}
}

// TestPlanAtALoweredLimit checks a lowered limit. Terminating pods count as gone for workloads that
// wait for them, but they count as usage for a plan whose members are being placed.
func TestPlanAtALoweredLimit(t *testing.T) {
	t.Parallel()
	h := detached(&Inputs{Groups: &gang.Store{}})
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	h.index.Pods = corelisters.NewPodLister(indexer)
	h.quotas.SetQueue(limitedQueue("a", "2"))
	leaves, waits := placed("leaves"), turnsPod("waits")
	leaves.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	for _, p := range []*corev1.Pod{leaves, waits} {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		h.quotas.Charge(p, "a")
	}
	waits.Namespace, waits.Name, waits.Labels = "ns", "waits", map[string]string{v1alpha1.LabelQueue: "a"}
	if err := indexer.Add(waits); err != nil {
		t.Fatal(err)
	}
	pi, err := framework.NewPodInfo(waits)
	if err != nil {
		t.Fatal(err)
	}
	g := gangKey(types.NamespacedName{Namespace: "ns", Name: "g"})
	h.steps.arrives(waits)
	h.steps.reserveRooms(g, []*engine.Reservation{{Pod: pi, UID: string(waits.UID), Node: "n", Standing: workload.Standing{Queue: "a"}}})
	h.quotas.SetQueue(limitedQueue("a", "1"))
	if h.ledger.IsDisallowed(g) {
		t.Error("It may not wait for what leaves")
	}
	h.engine.Step(time.Time{}, engine.GroupArrives{Group: g})
	h.gangs.SetPlan(g, []engine.Assignment{{Member: string(waits.UID), Node: "n"}})
	if !h.ledger.IsDisallowed(g) {
		t.Error("It may come in beside what has not left yet")
	}
}

// TestWhatLimitsWakes checks which work is retried when pods of a queue end: work at the limit of
// that queue, or at the limit of a queue above it.
func TestWhatLimitsWakes(t *testing.T) {
	t.Parallel()
	below := func(q *v1alpha1.Queue, parent string) *v1alpha1.Queue {
		q.Spec.Parent = &parent
		return q
	}
	for name, tt := range map[string]struct {
		goes string
		want []string
	}{
		"a pod of one queue":         {goes: "in-a", want: []string{"waits-a"}},
		"a pod of another":           {goes: "in-b", want: []string{"waits-b"}},
		"one of a queue beside":      {goes: "in-beside", want: []string{"waits-child"}},
		"one of a queue without any": {goes: "in-free"},
		"one of none":                {goes: "in-none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(1, "100")...)
			for _, q := range []*v1alpha1.Queue{
				limitedQueue("a", "1"), limitedQueue("b", "1"), limitedQueue("parent", "1"),
				below(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "beside"}}, "parent"),
				below(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "child"}}, "parent"), {ObjectMeta: metav1.ObjectMeta{Name: "free"}},
			} {
				r.sched.QueueSet(q)
			}
			running := map[string]*corev1.Pod{"in-none": on(pod("in-none", "", "1", 0), "node-0")}
			r.create(running["in-none"])
			for _, q := range []string{"a", "b", "beside", "free"} {
				running["in-"+q] = ofQueue(q, on(pod("in-"+q, "", "1", 0), "node-0"))
				r.create(running["in-"+q])
			}
			var waiting []workload.Key
			for _, q := range []string{"a", "b", "child"} {
				p := ofQueue(q, pod("waits-"+q, "", "1", 0))
				waiting = append(waiting, podKey(p))
				r.create(p)
			}
			r.eventually("all are kept by a limit", func() bool {
				r.cycles()
				return !slices.ContainsFunc(waiting, func(key workload.Key) bool { return !r.sched.waits.WaitsFor(key, engine.Queue) })
			})
			woken := func() (names []string) {
				for _, key := range waiting {
					if !r.sched.waits.WaitsFor(key, engine.Queue) {
						names = append(names, key.Name)
					}
				}
				return names
			}
			r.remove(running[tt.goes])
			r.eventually("those are woken that it concerns", func() bool { return slices.Equal(woken(), tt.want) })
			r.never("others are woken", 50*time.Millisecond, func() bool { return !slices.Equal(woken(), tt.want) })
		})
	}
}
