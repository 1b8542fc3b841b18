package scheduler

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// preemptsInVain makes a preemptor lose its room in each round, and checks that it must not preempt
// after three rounds. Without a pause, it would evict a pod in each round.
func (r *rig) preemptsInVain(key func() workload.Key, lose func(round int)) {
	r.t.Helper()
	const rounds = 3
	for i := range rounds {
		r.eventually(fmt.Sprintf("it preempts in round %d", i), func() bool { r.cycles(); return len(r.evictor.orders) == i+1 })
		lose(i)
	}
	r.eventually("it backs off from preempting", func() bool { r.cycles(); return r.sched.ledger.BacksOff(key()) })
	r.tries()
	if n := len(r.evictor.orders); n != rounds {
		r.t.Errorf("%d preemptions, want %d", n, rounds)
	}
	if n := r.withoutBinding(); n != rounds {
		r.t.Errorf("%v preemptions without a binding are counted, want %d", n, rounds)
	}
	if !r.sched.reserved.Empty() {
		r.t.Error("Room is reserved for it")
	}
}

// tries runs some cycles, so that a preemptor that may preempt does so.
func (r *rig) tries() {
	r.t.Helper()
	for range 10 {
		r.cycles()
	}
}

// TestLosesRoomAgainAndAgain checks a preemptor whose room a pod of another scheduler takes each
// time.
func TestLosesRoomAgainAndAgain(t *testing.T) {
	t.Parallel()
	for kind, group := range map[string]string{"a pod": "", "a gang": "g"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := newRigArgs(t, longPause, nodes(1, "1")...)
			p := pod("p", group, "1", 10)
			if group != "" {
				r.gangOf(group, 1, 10)
			}
			r.create(on(pod("v", "", "1", 0), "node-0"), p)
			r.preemptsInVain(func() workload.Key { return r.sched.index.KeyOf(p) }, func(round int) {
				r.makeRoom(round)
				foreign := on(pod(fmt.Sprintf("foreign-%d", round), "", "1", 0), "node-0")
				foreign.Spec.SchedulerName = "another"
				r.create(foreign)
			})
			r.eventually("it says so", func() bool {
				r.cycles()
				return strings.Contains(r.scheduled("p"), "did not end in a binding, so it preempts nothing before")
			})
			r.annotate("p", map[string]string{"owner": "has changed it"})
			r.eventually("it preempts again", func() bool { r.cycles(); return len(r.evictor.orders) == 4 })
			r.makeRoom(3)
			r.waitBound("p")
			r.eventually("the record ends", func() bool { return r.sched.unbound.Len() == 0 })
		})
	}
}

// TestPreemptorsDeletedAgainAndAgain checks a controller whose pods preempt others and are deleted
// before they are bound.
func TestPreemptorsDeletedAgainAndAgain(t *testing.T) {
	t.Parallel()
	r := newRigArgs(t, longPause, nodes(1, "1")...)
	made := func(round int) *corev1.Pod {
		p := pod(fmt.Sprintf("p-%d", round), "", "1", 10)
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", UID: "uid-rs", Controller: ptr.To(true)}}
		return p
	}
	p := made(0)
	r.create(on(pod("v", "", "1", 0), "node-0"), p)
	r.preemptsInVain(func() workload.Key { return podKey(p) }, func(round int) {
		r.makeRoom(round)
		r.remove(p)
		r.replaceVictims(round, "1")
		p = made(round + 1)
		r.create(p)
	})
}

// TestYieldsAgainAndAgain checks a preemptor whose room is taken by preemptors of a higher priority
// several times. Its preemptions were not in vain, so it may preempt again.
func TestYieldsAgainAndAgain(t *testing.T) {
	t.Parallel()
	r := newRigArgs(t, longPause, nodes(1, "1")...)
	p := pod("p", "", "1", 10)
	r.create(on(pod("v", "", "1", 0), "node-0"), p)
	for i := range 4 {
		r.eventually(fmt.Sprintf("it preempts in round %d", i), func() bool { r.cycles(); return len(r.evictor.orders) == i+1 })
		r.makeRoom(i)
		high := pod(fmt.Sprintf("high-%d", i), "", "1", 20)
		r.create(high)
		r.waitBound(high.Name)
		r.remove(high)
		r.create(on(pod(fmt.Sprintf("v-%d", i), "", "1", 0), "node-0"))
	}
	if r.sched.ledger.BacksOff(podKey(p)) {
		t.Error("It backs off from preempting")
	}
}

// TestErrorsKeepNoRoom checks a preemptor whose cycles end with an error once its victim is gone.
// After some time, other pods can use its room.
func TestErrorsKeepNoRoom(t *testing.T) {
	t.Parallel()
	r := newRigArgs(t, "{retry: {initialBindingBackoff: 1s, maxBindingBackoff: 1h}}", nodes(1, "1")...)
	p := pod("p", "", "1", 10)
	p.Annotations = map[string]string{refusedBy: "with an error"}
	r.create(on(pod("v", "", "1", 0), "node-0"), p)
	r.cycles()
	r.create(pod("lesser", "", "1", 0))
	r.makeRoom(0)
	r.waitBound("lesser")
}
