package admission

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// pass adds a new pod, requests a free pass for it, and reports whether the pod gets one.
func (s *scene) pass(name, queueName string) bool {
	return s.Pass(Waiter{Key: podNamed(name), Queue: queueName, Since: at(-1), Request: Request{"gpu": 1}}, s.now)
}

// abound replaces the set of queues that have plenty of room.
func (s *scene) abound(queues ...string) {
	s.plenty = make(map[string]bool)
	for _, name := range queues {
		s.plenty[name] = true
	}
}

// away returns the names of the pods for which TurnAway returns true.
func (s *scene) away(names ...string) (out []string) {
	for _, name := range names {
		if s.TurnAway(podNamed(name)) {
			out = append(out, name)
		}
	}
	return out
}

// TestFreely checks that workloads get free passes while there is plenty of room, and how free
// passes end.
func TestFreely(t *testing.T) {
	t.Parallel()
	cases := map[string]func(s *scene){
		"all at once, by priority, then age": func(s *scene) {
			s.abound("a", "b")
			s.enter("young", "a", 0, 1)
			s.enter("old", "b", 0, 5)
			s.enter("urgent", "a", 9, 0)
			s.want("at once", s.turn(), "urgent", "old", "young")
			s.want("once", s.turn())
		},
		"but what nothing could serve, which has a turn": func(s *scene) {
			s.abound("a")
			s.hopeless = s.enter("old", "a", 0, 5)
			s.enter("young", "a", 0, 1)
			s.want("at once", s.turn(), "young", "old")
			s.TurnFailed(s.hopeless)
			if !s.pass("a1", "a") {
				s.t.Error("others have to wait for what nothing can serve")
			}
		},
		"those of other queues have their turns": func(s *scene) {
			s.abound("b")
			s.enter("a1", "a", 0, 1)
			s.enter("a2", "a", 0, 0)
			s.enter("b1", "b", 0, 0)
			s.enter("b2", "b", 0, 0)
			s.want("at once", s.turn(), "b1", "b2", "a1")
		},
		"what goes freely counts for whose turn it is": func(s *scene) {
			for name, parent := range map[string]*string{"p": nil, "z": nil, "a": ptr.To("p"), "b": ptr.To("p")} {
				s.ledger.SetQueue(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.QueueSpec{Parent: parent}})
			}
			s.ledger.Charge(podOf("z", 8), "z")
			s.abound("b")
			s.pass("b1", "b")
			s.enter("a1", "a", 0, 1)
			s.enter("z1", "z", 0, 0)
			s.want("in turn", s.turn(), "z1")
			s.Placed(podNamed("z1"))
			s.want("then", s.turn(), "a1")
		},
		"it has no seat of its own": func(s *scene) {
			s.abound("a")
			s.enter("a1", "a", 0, 1)
			s.turn()
			if _, ok := s.Position(podNamed("a1")); ok {
				s.t.Error("it has a seat")
			}
			s.abound()
			s.turn()
			if _, ok := s.Position(podNamed("a1")); ok && s.TurnOf(podNamed("a1"), "a") == Held {
				s.t.Error("it has another place in the queue than it came to")
			}
		},
		"called back when there is not plenty any more": func(s *scene) {
			s.abound("a", "b")
			if !s.pass("a1", "a") || !s.pass("a2", "a") || !s.pass("b1", "b") {
				s.t.Fatal("they have to wait")
			}
			s.Placed(podNamed("a1"))
			s.abound("b")
			s.enter("a3", "a", 9, 0)
			s.want("in turn", s.turn(), "a3")
			s.want("turned away", s.away("a1", "a2", "a3", "b1"), "a2")
			s.Placed(podNamed("a3"))
			s.want("then", s.turn(), "a2")
		},
		"one at a time after that": func(s *scene) {
			s.turns.batch.most = longestBatch
			s.pass("a1", "a")
			s.pass("a2", "a")
			s.Recall(func(string) bool { return false })
			s.want("turned away", s.away("a1", "a2"), "a1", "a2")
			s.want("in turn", s.turn(), "a1")
			s.Placed(podNamed("a1"))
		},
		"one at a time as long as some are in the scheduler's queue": func(s *scene) {
			s.pass("a1", "a")
			s.pass("a2", "a")
			s.pass("a3", "a")
			s.want("in turn", s.turn(), "a1")
			s.Placed(podNamed("a1"))
			s.enter("old", "a", 0, 5)
			s.want("then", s.turn(), "old")
			s.Placed(podNamed("old"))
			s.want("turned away", s.away("a2", "a3"), "a2", "a3")
			s.want("after that", s.turn(), "a2", "a3")
		},
		"not for ever": func(s *scene) {
			for _, name := range []string{"a1", "a2", "a3", "b1"} {
				s.pass(name, "a")
			}
			s.want("in turn", s.turn(), "a1")
			s.Placed(podNamed("a1"))
			s.now = s.now.Add(longestTurn + 1)
			s.want("then", s.turn(), "a2", "a3")
			for _, name := range []string{"a2", "a3", "b1"} {
				s.Placed(podNamed(name))
			}
			s.want("none is left", s.turn())
			for _, name := range []string{"a1", "a2", "a3"} {
				s.Forget(podNamed(name))
				s.pass(name, "a")
			}
			s.want("again", s.turn(), "a1")
			s.Placed(podNamed("a1"))
			s.want("and again", s.turn(), "a2")
		},
		"called back when one finds no room": func(s *scene) {
			for _, name := range []string{"a1", "a2", "b1"} {
				s.pass(name, name[:1])
			}
			s.abound("a", "b")
			s.TurnFailed(podNamed("a1"))
			s.want("turned away", s.away("a1", "a2", "b1"), "a2", "b1")
			if s.pass("b2", "b") {
				s.t.Error("others pass while one has found no room")
			}
			s.enter("b2", "b", 0, 0)
			s.want("in turn", s.turn(), "a2")
		},
		"called back when room has to be made for one": func(s *scene) {
			s.pass("a1", "a")
			s.pass("b1", "b")
			s.Decided(podNamed("a1"))
			s.want("turned away", s.away("a1", "b1"), "b1")
		},
		"freely again once the one that found no room has its place": func(s *scene) {
			s.abound("a", "b")
			s.pass("a1", "a")
			s.TurnFailed(podNamed("a1"))
			s.Placed(podNamed("a1"))
			if !s.pass("b1", "b") {
				s.t.Error("it has to wait")
			}
		},
		"freely again once the books know why": func(s *scene) {
			s.abound("a", "b")
			s.pass("a1", "a")
			s.TurnFailed(podNamed("a1"))
			s.abound("b")
			s.enter("b1", "b", 0, 0)
			s.enter("b2", "b", 0, 0)
			s.want("at once", s.turn(), "b1", "b2")
			if !s.pass("b3", "b") {
				s.t.Error("it has to wait")
			}
			s.Forget(podNamed("b3"))
		},
		"freely again once it is gone": func(s *scene) {
			s.pass("a1", "a")
			s.TurnFailed(podNamed("a1"))
			s.Forget(podNamed("a1"))
			if !s.pass("b1", "b") {
				s.t.Error("it has to wait")
			}
		},
		"one that finds its place when called back waits for no turn": func(s *scene) {
			s.pass("a1", "a")
			s.pass("a2", "a")
			s.TurnFailed(podNamed("a2"))
			s.Placed(podNamed("a1"))
			s.want("none is left", s.turn())
			if s.TurnOf(podNamed("a1"), "a") != Admitted {
				s.t.Error("it waits for a turn again")
			}
		},
		"in another queue it is doubted no more": func(s *scene) {
			s.abound("a", "b")
			s.pass("a1", "a")
			s.TurnFailed(podNamed("a1"))
			s.enter("a1", "b", 0, 0)
			if !s.pass("b1", "b") {
				s.t.Error("others have to wait for one that is in another queue now")
			}
		},
		"its turn in another queue is over": func(s *scene) {
			s.enter("a1", "a", 0, 0)
			s.want("in turn", s.turn(), "a1")
			s.pass("a1", "b")
			s.turns.callBack()
			s.abound("b")
			s.want("none waits", s.turn())
		},
		"in another queue it enters there": func(s *scene) {
			s.abound("a")
			s.pass("a1", "a")
			s.enter("a1", "b", 0, 0)
			s.abound()
			s.want("in turn", s.turn(), "a1")
			s.want("turned away", s.away("a1"))
		},
	}
	for name, run := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			run(s)
			for _, name := range []string{"a1", "a2", "a3", "b1", "b2", "z1", "young", "old", "urgent"} {
				s.Forget(podNamed(name))
			}
			if n := s.Len(); n != 0 || len(s.turns.freely.underway) > 0 {
				t.Errorf("something is kept of %d workloads that are gone", n)
			}
		})
	}
}
