package scheduler

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/leaving"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// again returns a new pod with the same name as the given pod and another UID.
func again(p *corev1.Pod) *corev1.Pod {
	p.UID += "-again"
	return p
}

// eachKind runs a test twice: for a preemptor that is a single pod, and for one that is a gang with
// one member. newPreemptor returns the pod.
func eachKind(t *testing.T, run func(t *testing.T, newPreemptor func(r *rig) *corev1.Pod)) {
	t.Helper()
	for kind, group := range map[string]string{"a pod": "", "a gang": "p"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			run(t, func(r *rig) *corev1.Pod {
				if group != "" {
					r.gangOf(group, 1, 10)
				}
				return pod("p-0", group, "1", 10)
			})
		})
	}
}

// TestFailuresOfThoseWhoHaveLeft checks that the failures of a deleted preemptor are forgotten. The
// next workload of that name must not back off because of them.
func TestFailuresOfThoseWhoHaveLeft(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, newPreemptor func(r *rig) *corev1.Pod) {
		r := newRig(t, node("node-0", "1"))
		r.create(on(pod("v", "", "1", 0), "node-0"))
		p := newPreemptor(r)
		r.create(p)
		r.cycle()
		r.remove(p)
		r.eventually("it is not wanted any more", func() bool { return !r.wants(0) })
		r.fail(0, errRefused)
		r.eventually("nothing is remembered", func() bool { return r.sched.engine.Len() == 0 })
	})
}

// TestUnwantedIsNoFailure checks that a workload is retried at once when its reservations are
// released, any number of times.
func TestUnwantedIsNoFailure(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, newPreemptor func(r *rig) *corev1.Pod) {
		r := newRig(t, node("node-0", "1"))
		r.create(on(pod("v", "", "1", 0), "node-0"))
		p := newPreemptor(r)
		r.create(p)
		o := r.sched.index.KeyOf(p)
		for i := range 3 {
			r.eventually("it is tried", func() bool { return len(r.active()) > 0 })
			r.cycle()
			if len(r.evictor.orders) != i+1 {
				t.Fatalf("%d evictions, want %d", len(r.evictor.orders), i+1)
			}
			r.sched.steps.step(engine.Releases{Key: o})
			r.finish(i, eviction.Outcome{Err: eviction.ErrOutdated, Unwanted: true})
			if r.sched.waits.Evicting(o) {
				t.Fatalf("It is held back after it has been displaced %d times", i+1)
			}
		}
		// While events about a victim are late, the eviction may fail several times because it is
		// outdated.
		for i := 3; i < 5; i++ {
			r.eventually("it is tried", func() bool { return len(r.active()) > 0 })
			r.cycle()
			r.fail(i, eviction.ErrOutdated)
			if held, want := r.sched.waits.Evicting(o), i > 3; held != want {
				t.Errorf("Held back: %v, want %v, when victims have changed %d times", held, want, i-2)
			}
		}
	})
}

// TestNothingIsPromisedToThoseWhoHaveLeft checks a preemptor that is deleted during its decision.
// It must get no reservation, and no pod is evicted for it.
func TestNothingIsPromisedToThoseWhoHaveLeft(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, newPreemptor func(r *rig) *corev1.Pod) {
		r := newRig(t, node("node-0", "1"))
		r.create(on(pod("v", "", "1", 0), "node-0"))
		p := newPreemptor(r)
		r.create(p)
		r.snapshot()
		pre := r.plugin.podPreemptor(p)
		if g := r.sched.index.GangOf(p); g != nil {
			m := r.sched.placements.Members(g.Key)
			pre = r.plugin.gangPreemptor(g, &m)
		}
		made, err := r.plugin.decide(t.Context(), pre)
		if err != nil {
			t.Fatal(err)
		}
		r.remove(p)
		// Events arrive in order. So when the informer has this pod, it has reported the deletion.
		r.create(on(pod("w", "", "1", 0), "elsewhere"))
		r.plugin.carryOut(t.Context(), p, made)
		if !r.sched.reserved.Empty() {
			t.Error("Room is kept for a pod that has gone")
		}
		for _, order := range r.evictor.orders {
			if r.plugin.Wants(&order) {
				t.Errorf("%d pods are to go for a pod that has gone", len(order.Victims))
			}
		}
	})
}

// TestPlanForThoseWhoHaveLeft checks that a member that is deleted during planning is not in the
// plan. If it were, the other members would wait for it forever.
func TestPlanForThoseWhoHaveLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(2, "1")...)
	g := r.gangOf("g", 1, 10)
	all := members("g", 2, "1", 10)
	r.create(all...)
	r.snapshot()
	known := r.sched.placements.Members(g.Key)
	r.remove(all[1])
	r.create(on(pod("w", "", "1", 0), "elsewhere"))
	if _, status := r.plugin.planGang(t.Context(), framework.NewCycleState(), all[0], g, &known); !status.IsSuccess() {
		t.Fatal(status)
	}
	if node, ok := r.sched.gangs.PlannedNode(gangKey(g.Key), string(all[1].UID)); ok || r.sched.reserved.Has(string(all[1].UID)) {
		t.Errorf("A member that has gone is planned for %s, or has a reservation", node)
	}
	if !r.sched.reserved.Has(string(all[0].UID)) || r.sched.gangs.Planned(gangKey(g.Key)) != 1 {
		t.Error("The other one is not planned")
	}
}

// TestPromiseAsPartOfAnother checks a preemptor that becomes a member of a gang while its victims
// are being evicted. When that eviction fails, the reservation that the pod has as a member of the
// gang remains.
func TestPromiseAsPartOfAnother(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, newPreemptor func(r *rig) *corev1.Pod) {
		r := newRig(t, nodes(2, "1")...)
		r.create(on(pod("v-0", "", "1", 0), "node-0"), on(pod("v-1", "", "1", 1), "node-1"))
		p := newPreemptor(r)
		r.create(p)
		r.cycle()
		pi, err := framework.NewPodInfo(p)
		if err != nil {
			t.Fatal(err)
		}
		r.sched.steps.reserveRooms(gangKey(key("other")), []*engine.Reservation{{Pod: pi, UID: string(p.UID), Node: "node-1"}})
		r.finish(0, eviction.Outcome{Err: eviction.ErrOutdated, Unwanted: true})
		if node := r.sched.reserved.NodeOf(string(p.UID)); node != "node-1" {
			t.Errorf("It is promised room on %q", node)
		}
		for _, n := range r.evictor.taken() {
			if n.Pod.UID == p.UID && n.Node == "" {
				t.Error("It is said to be promised none")
			}
		}
	})
}

// TestPromiseToANamesake checks a preemptor that is deleted and created again while its victims are
// being evicted. When that eviction fails, the reservation of the new preemptor remains.
func TestPromiseToANamesake(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, newPreemptor func(r *rig) *corev1.Pod) {
		r := newRig(t, nodes(2, "1")...)
		r.create(on(pod("v-0", "", "1", 0), "node-0"), on(pod("v-1", "", "1", 1), "node-1"))
		p := newPreemptor(r)
		r.create(p)
		r.cycle()
		if got := r.taken(0); !slices.Equal(got, []string{"v-0"}) {
			t.Fatalf("%v is taken", got)
		}
		r.remove(p)
		r.eventually("it is not wanted any more", func() bool { return !r.wants(0) })
		// Wait until the old gang is forgotten. Until then, a new gang of the same name waits for
		// the end of the old gang's evictions.
		r.eventually("it is forgotten", func() bool { return !r.sched.waits.Evicting(r.sched.index.KeyOf(p)) })
		// The new workload does not need the first victim, which is on another node.
		next := again(newPreemptor(r))
		next.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-1"}
		r.create(next)
		r.cycle()
		if got := r.taken(1); !slices.Equal(got, []string{"v-1"}) {
			t.Fatalf("%v is taken for the namesake", got)
		}
		r.finish(0, eviction.Outcome{Err: eviction.ErrOutdated, Unwanted: true})
		if !r.wants(1) {
			t.Error("The namesake has lost what it was promised")
		}
		if !r.sched.waits.Evicting(r.sched.index.KeyOf(next)) {
			t.Error("The namesake is let through while room is being made for it")
		}
		r.succeed(1)
		if r.sched.waits.Evicting(r.sched.index.KeyOf(next)) {
			t.Error("The namesake is held back when its own calls are done")
		}
	})
}

// TestReplacedInARelist checks a pod that is replaced by a pod of the same name while the watch is
// interrupted. Informers report that as an update.
func TestReplacedInARelist(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, newPreemptor func(r *rig) *corev1.Pod) {
		r := newRig(t, nodes(2, "1")...)
		r.create(on(pod("v-0", "", "1", 0), "node-0"), on(pod("v-1", "", "1", 1), "node-1"))
		p := newPreemptor(r)
		r.create(p)
		r.cycle()
		if got := r.taken(0); !slices.Equal(got, []string{"v-0"}) {
			t.Fatalf("%v is taken", got)
		}
		if err := r.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), again(p.DeepCopy()), p.Namespace); err != nil {
			t.Fatal(err)
		}
		r.eventually("nothing is promised to the one that has gone", func() bool { return !r.sched.reserved.Has(string(p.UID)) && !r.wants(0) })
		if r.sched.quotas.Knows(p.UID) {
			t.Error("The one that has gone counts for its queue")
		}
	})
}

// TestVictimsThatHaveGoneAreNotRemembered checks that no state remains of victims that are deleted
// before their eviction. No further event will report their deletion.
func TestVictimsThatHaveGoneAreNotRemembered(t *testing.T) {
	t.Parallel()
	r := newRig(t, node("node-0", "1"))
	v := on(pod("v", "", "1", 0), "node-0")
	r.create(v)
	p := pod("p", "", "1", 10)
	r.create(p)
	r.snapshot()
	made, err := r.plugin.decide(t.Context(), r.plugin.podPreemptor(p))
	if err != nil {
		t.Fatal(err)
	}
	r.remove(v)
	r.create(on(pod("w", "", "1", 0), "elsewhere"))
	r.plugin.carryOut(t.Context(), p, made)
	r.sched.leaving.Sweep(r.sched.clock.Now().Add(2 * leaving.Lag))
	if n := len(r.sched.leaving.Taken()); n != 0 {
		t.Errorf("%d victims are remembered, and have long gone", n)
	}
}

// TestGangThatLeavesWhileItIsPlanned checks that no state remains of a gang that is deleted while
// it is planned.
func TestGangThatLeavesWhileItIsPlanned(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "1")...)
	g := r.gangOf("g", 1, 10)
	all := members("g", 1, "1", 10)
	r.create(all...)
	r.snapshot()
	known := r.sched.placements.Members(g.Key)
	r.remove(all[0])
	r.create(on(pod("w", "", "1", 0), "elsewhere"))
	r.plugin.planGang(t.Context(), framework.NewCycleState(), all[0], g, &known)
	if n := r.sched.gangs.Len(); n != 0 {
		t.Errorf("%d gangs are remembered, with the verdict %+v", n, r.sched.gangs.Verdict(gangKey(g.Key)))
	}
}

// ofQueue puts a single pod into a queue.
func ofQueue(queue string, p *corev1.Pod) *corev1.Pod {
	p.Labels = map[string]string{v1alpha1.LabelQueue: queue}
	return p
}

// TestTurnOfAPodThatHasLeft checks that a deleted pod gets no turn, even if the scheduler's queue
// calls PreEnqueue for it afterwards.
func TestTurnOfAPodThatHasLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "1")...)
	r.sched.QueueSet(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	p := ofQueue("a", pod("p", "", "1", 10))
	r.create(p)
	r.cycle()
	r.waitBound("p")
	r.remove(p)
	r.create(on(pod("w", "", "1", 0), "elsewhere"))
	r.sched.gates.pod(p)
	if n := r.sched.engine.Len(); n != 0 {
		t.Errorf("%d entries are left of it", n)
	}
}

// TestTurnOfANamesake checks that a pod gets its turn if the deletion of an earlier pod with its
// name is reported late.
func TestTurnOfANamesake(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "2")...)
	r.sched.QueueSet(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	r.create(ofQueue("a", pod("first", "", "1", 10)))
	r.eventually("it is the other one's turn", func() bool { return len(r.active()) == 1 })
	r.create(ofQueue("a", again(pod("p", "", "1", 10))))
	r.sched.podWatch.deleted(ofQueue("a", pod("p", "", "1", 10)))
	r.eventually("it is its turn", func() bool { return slices.Contains(r.active(), "p") })
	r.cycles()
	r.waitBound("p")
}

// boundMeanwhile is a lister whose first call returns the pod without a node and records its
// binding. All later calls return the pod with a node.
type boundMeanwhile struct {
	corelisters.PodNamespaceLister

	sched *Scheduler
	pod   *corev1.Pod
	once  bool
}

// oneNamespace is a lister that has the pods of a single namespace.
type oneNamespace struct {
	corelisters.PodLister

	pods corelisters.PodNamespaceLister
}

func (l oneNamespace) Pods(string) corelisters.PodNamespaceLister { return l.pods }

func (l *boundMeanwhile) Get(string) (*corev1.Pod, error) {
	if !l.once {
		l.once = true
		before := l.pod
		l.pod = on(l.pod.DeepCopy(), "node-0")
		l.sched.engine.Step(time.Time{}, engine.PodBinds{Pod: string(l.pod.UID), Key: podKey(l.pod)})
		return before, nil
	}
	return l.pod, nil
}

// nobodyWaits is a framework that has no pods at Permit or in PreBind.
type nobodyWaits struct{ framework.Framework }

func (nobodyWaits) GetWaitingPod(types.UID) fwk.WaitingPod     { return nil }
func (nobodyWaits) GetPodInPreBind(types.UID) fwk.PodInPreBind { return nil }

// TestVictimThatIsBoundMeanwhile checks that a victim that was just bound is deleted. The scheduler
// must not try to return it to the queue: that would fail, and no event would report the failure.
func TestVictimThatIsBoundMeanwhile(t *testing.T) {
	t.Parallel()
	h := detached(&Inputs{})
	h.releases.handle = nobodyWaits{}
	v := pod("v", "", "1", 0)
	h.engine.Step(time.Time{}, engine.PodArrives{Pod: string(v.UID), Key: podKey(v), Group: workload.Key{}})
	h.steps.step(engine.PodAssumes{Pod: string(v.UID), Key: podKey(v), Node: "node-0"})
	h.index.Pods = oneNamespace{pods: &boundMeanwhile{sched: h, pod: v}}
	if p := (&Plugin{sched: h, handle: nobodyWaits{}}); p.TurnBack(v) {
		t.Error("A pod that is bound is turned back")
	}
}

// TestThoseWhoHaveLeftAreNotThrough checks a member that is deleted in its cycle. The member stays
// assumed until the framework forgets it. In this time, it must not count for the next gang of the
// same name.
func TestThoseWhoHaveLeftAreNotThrough(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(2, "1")...)
	g := r.gangOf("g", 2, 10)
	before := members("g", 2, "1", 10)
	r.create(before...)
	for _, p := range before {
		r.remove(p)
	}
	if status := r.plugin.Reserve(t.Context(), framework.NewCycleState(), before[0], "node-0"); !status.IsSuccess() {
		t.Fatal(status)
	}
	after := members("g", 2, "1", 10)
	for _, p := range after {
		again(p)
	}
	r.create(after...)
	known := r.sched.placements.Members(g.Key)
	if pre := r.plugin.gangPreemptor(g, &known); pre.minCount != 2 {
		t.Errorf("%d more members are needed, want 2", pre.minCount)
	}
	r.sched.gangs.SetPlan(gangKey(g.Key), []engine.Assignment{{Member: string(after[0].UID), Node: "node-0"}, {Member: string(after[1].UID), Node: "node-1"}})
	if status := r.plugin.Reserve(t.Context(), framework.NewCycleState(), after[0], "node-0"); !status.IsSuccess() {
		t.Fatal(status)
	}
	if status, _ := r.plugin.Permit(t.Context(), framework.NewCycleState(), after[0], "node-0"); status.Code() != fwk.Wait {
		t.Errorf("The first member gets %v at Permit", status)
	}
}

// TestPlanIsTakenBackBeforePermit checks a member whose gang loses its plan before the member
// reaches Permit. The member must not wait at Permit, because no other members will come.
func TestPlanIsTakenBackBeforePermit(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(2, "1")...)
	g := r.gangOf("g", 2, 10)
	all := members("g", 2, "1", 10)
	r.create(all...)
	r.sched.gangs.SetPlan(gangKey(g.Key), []engine.Assignment{{Member: string(all[0].UID), Node: "node-0"}, {Member: string(all[1].UID), Node: "node-1"}})
	if status := r.plugin.Reserve(t.Context(), framework.NewCycleState(), all[0], "node-0"); !status.IsSuccess() {
		t.Fatal(status)
	}
	if status, _ := r.plugin.Permit(t.Context(), framework.NewCycleState(), all[0], "node-0"); status.Code() != fwk.Wait {
		t.Errorf("The member gets %v at Permit while another one is to come", status)
	}
	r.sched.releases.plan(g.Key, nil, "another plugin holds a member back")
	if status, _ := r.plugin.Permit(t.Context(), framework.NewCycleState(), all[0], "node-0"); status.Code() != fwk.Unschedulable {
		t.Errorf("The member gets %v at Permit, and none is to come", status)
	}
}

// TestCacheThatIsBehind checks a preemptor whose cycle ran before the scheduler's cache knew that
// the victim is gone. It must be retried soon, without a backoff.
func TestCacheThatIsBehind(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, newPreemptor func(r *rig) *corev1.Pod) {
		r := newRig(t, node("node-0", "1"))
		v := on(pod("v", "", "1", 0), "node-0")
		r.create(v)
		p := newPreemptor(r)
		r.create(p)
		r.cycle()
		r.remove(v)
		behind := v.DeepCopy()
		behind.DeletionTimestamp = ptr.To(metav1.Now())
		if err := r.upstream.Cache.AddPod(klog.Background(), behind); err != nil {
			t.Fatal(err)
		}
		r.succeed(0)
		r.eventually("it is tried", func() bool { return slices.Contains(r.active(), p.Name) })
		r.cycle()
		// A backoff takes at least one second, so a retry within half a second shows that the
		// preemptor is not in backoff.
		err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Second/2, true, func(context.Context) (bool, error) {
			return r.sched.waits.WaitsFor(r.sched.index.KeyOf(p), engine.Pause) || slices.Contains(r.active(), p.Name), nil
		})
		if err != nil {
			t.Error("It backs off")
		}
		if err := r.upstream.Cache.RemovePod(klog.Background(), behind); err != nil {
			t.Fatal(err)
		}
		r.cycle()
		r.waitBound(p.Name)
	})
}

// TestCacheThatIsLongBehind checks the delays of retries while the cache is late. They double up to
// one second, because each failed retry costs a cycle.
func TestCacheThatIsLongBehind(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	var l leaving.Pods
	l.Take(map[types.UID]*corev1.Pod{"victim": nil})
	l.Gone(inNamespace("ns", "victim"), start)
	for _, uid := range []types.UID{"victim", "of-others"} {
		var waits []time.Duration
		for now := start; now.Before(start.Add(5 * time.Second)); {
			delay := cacheDelay(now.Sub(l.GoneSince(uid, now)))
			waits = append(waits, delay/time.Millisecond)
			now = now.Add(delay)
		}
		if want := []time.Duration{10, 10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000, 1000}; !slices.Equal(waits, want) {
			t.Errorf("%s: waits of %d ms, want %d", uid, waits, want)
		}
	}
	if l.Sweep(start.Add(2 * leaving.Lag)); len(l.Taken()) != 0 {
		t.Errorf("%d pods are remembered, and have long gone", len(l.Taken()))
	}
}

// TestPromiseToThoseWhoHaveMoved checks a gang that changes during its decision, before the
// reservation is made. The reservation must be released.
func TestPromiseToThoseWhoHaveMoved(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]func(r *rig, g *gang.Group, member *corev1.Pod){
		"a member joins another group": func(r *rig, _ *gang.Group, member *corev1.Pod) {
			moved := member.DeepCopy()
			moved.Labels[v1alpha1.LabelPodGroup] = "other"
			if _, err := r.client.CoreV1().Pods(moved.Namespace).Update(t.Context(), moved, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			r.eventually("it has moved", func() bool { return !isIn(r, key("g"), member) })
		},
		"more members are needed": func(r *rig, g *gang.Group, _ *corev1.Pod) {
			more := *g
			more.MinCount = 3
			r.groups.set(&more)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(2, "1")...)
			r.create(on(pod("v-0", "", "1", 0), "node-0"), on(pod("v-1", "", "1", 0), "node-1"))
			g := r.gangOf("g", 2, 10)
			all := members("g", 2, "1", 10)
			r.create(all...)
			r.snapshot()
			known := r.sched.placements.Members(g.Key)
			made, err := r.plugin.decide(t.Context(), r.plugin.gangPreemptor(g, &known))
			if err != nil {
				t.Fatal(err)
			}
			happens(r, g, all[1])
			// Events arrive in order. So when the informer has this pod, it has reported the
			// change.
			r.create(on(pod("w", "", "1", 0), "elsewhere"))
			r.plugin.carryOut(t.Context(), all[0], made)
			r.sched.memberships.leftDuring(g.Key, made.pre.pods)
			if !r.sched.reserved.Empty() {
				t.Error("Room is kept for a gang that lacks members")
			}
		})
	}
}
