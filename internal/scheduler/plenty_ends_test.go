package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/reporter"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// tickless is a clock whose tickers never tick.
type tickless struct{ clock.RealClock }

func (tickless) NewTicker(time.Duration) clock.Ticker { return silent{} }

type silent struct{}

func (silent) C() <-chan time.Time { return nil }
func (silent) Stop()               {}

// TestCalledBackAtOnce checks that workloads are recalled at once when room becomes scarce. The
// test has no ticks of the main loop.
func TestCalledBackAtOnce(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]func(r *rig){
		"a node goes": func(r *rig) { r.removeNode("node-1") },
		"something runs that nothing has scheduled": func(r *rig) { r.create(on(pod("static", "", "8", 0), "node-1")) },
		"others arrive": func(r *rig) { r.create(severalOf("a", 8)...) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigOn(t, clientWith(nodes(2, "8")...), &groups{all: map[types.NamespacedName]*gang.Group{}}, knownYAML, nil, func(in *Inputs) { in.Clock = tickless{} })
			r.sched.QueueSet(limitedQueue("a", "16"))
			r.sched.QueueSet(limitedQueue("b", "16"))
			crowd := severalOf("b", 10)
			r.create(crowd...)
			for _, p := range crowd {
				r.passFreely(podKey(p), "b")
			}
			r.sched.waits.Gather(podKey(crowd[0]), r.sched.clock.Now())
			r.eventually("it is known that there is plenty of room", func() bool { return r.sched.ledger.HasPlenty("b") })
			happens(r)
			r.eventually("they are called back", func() bool { return r.sched.turns.TurnOf(podKey(crowd[9]), "b") == admission.Held })
		})
	}
}

// passFreely admits a workload without a turn, as if the quota ledger already had it.
func (r *rig) passFreely(key workload.Key, queue string) {
	r.sched.turns.Forget(key)
	r.sched.turns.Pass(admission.Waiter{Key: key, Queue: queue}, r.sched.clock.Now())
}

// freeGang creates the gang g in queue a and admits it with passFreely.
func (r *rig) freeGang() (gang []*corev1.Pod) {
	r.t.Helper()
	r.sched.QueueSet(limitedQueue("a", "12"))
	r.abounds("a")
	r.waitBound("first-of-a")
	r.queuedGang("g", "a", 2)
	gang = members("g", 2, "1", 5)
	r.create(gang...)
	r.eventually("it goes on", func() bool { return len(r.active()) == 1 })
	r.passFreely(gangKey(key("g")), "a")
	return gang
}

// TestSettledGangsHoldNoneUp checks how long a gang that was admitted without a turn counts as
// under way: until all its members have a node. The members may be bound by this scheduler or
// another one.
func TestSettledGangsHoldNoneUp(t *testing.T) {
	t.Parallel()
	bind := func(r *rig, name, node string) {
		r.t.Helper()
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
		if err := r.client.CoreV1().Pods("ns").Bind(r.t.Context(), binding, metav1.CreateOptions{}); err != nil {
			r.t.Fatal(err)
		}
	}
	for name, settle := range map[string]func(r *rig, gang []*corev1.Pod){
		"bound by another scheduler that leads": func(r *rig, gang []*corev1.Pod) {
			for _, p := range gang {
				bind(r, p.Name, "node-1")
			}
		},
		"one bound, one gone": func(r *rig, gang []*corev1.Pod) {
			bind(r, gang[0].Name, "node-1")
			r.remove(gang[1])
		},
		"one gone, one bound": func(r *rig, gang []*corev1.Pod) {
			r.remove(gang[1])
			bind(r, gang[0].Name, "node-1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigWith(t, knownYAML, nil, nodes(2, "8")...)
			settle(r, r.freeGang())
			r.eventually("none is under way", func() bool { return !r.sched.turns.AnyFree() })
			r.eventually("nothing is known of its turns", func() bool { return r.sched.turns.TurnOf(gangKey(key("g")), "a") == admission.NotEntered })
		})
	}
}

// TestGangThatCannotComeCallsNoneBack checks a gang without a turn that is not placed because a
// member is missing. This does not show a lack of room, so no other workload is recalled.
func TestGangThatCannotComeCallsNoneBack(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, knownYAML, nil, nodes(2, "8")...)
	gang := r.freeGang()
	other := ofQueue("a", pod("other", "", "1", 0))
	r.create(other)
	r.eventually("another goes on", func() bool { return len(r.active()) == 2 })
	r.passFreely(podKey(other), "a")
	r.remove(gang[slices.IndexFunc(gang, func(p *corev1.Pod) bool { return !slices.Contains(r.active(), p.Name) })])
	r.cycle()
	_, seated := r.sched.turns.Position(podKey(other))
	if got := r.sched.turns.TurnOf(podKey(other), "a"); got != admission.Admitted || seated {
		t.Errorf("another goes freely no more: its turn is %v, in a batch %v", got, seated)
	}
}

// TestTurnThatComesWhileTurnedAway checks a pod that gets its next turn while the framework is
// still rejecting it. The pod must be retried at once.
func TestTurnThatComesWhileTurnedAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "8")...)
	r.sched.QueueSet(limitedQueue("a", "8"))
	first := podKey(pod("first", "", "1", 0))
	r.sched.engine.Step(time.Time{}, engine.PodArrives{Pod: first.UID, Key: first, Group: workload.Key{}})
	isUnderway := func(key workload.Key) func() bool { return func() bool { return r.sched.turns.IsUnderway(key) } }
	handle, turnedAway := r.upstream.FailureHandler, false
	r.upstream.FailureHandler = func(ctx context.Context, profile framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		turnedAway = strings.Contains(status.Message(), reporter.HoldForTurn)
		r.sched.turns.Forget(first)
		r.eventually("its next turn has come", isUnderway(podKey(pod.Pod)))
		handle(ctx, profile, pod, status, nominating, start)
	}
	for i := range 8 {
		p := ofQueue("a", pod(fmt.Sprint("p", i), "", "1", 0))
		r.create(p)
		r.eventually("its turn has come", func() bool { return len(r.active()) == 1 })
		r.sched.turns.Enter(admission.Waiter{Key: first, Queue: "a", Priority: 9}, r.sched.clock.Now())
		r.sched.turns.Forget(podKey(p))
		r.eventually("another one's has", isUnderway(first))
		// The recall takes up to a second. If the pod is placed in this time, the result is also
		// correct.
		r.sched.turns.Pass(admission.Waiter{Key: podKey(p), Queue: "a"}, r.sched.clock.Now())
		r.sched.turns.Recall(func(string) bool { return false })
		if r.cycle(); turnedAway {
			if len(r.active()) != 1 {
				t.Errorf("it does not go: %s", r.pending())
			}
			return
		}
	}
	t.Error("none is turned away")
}
