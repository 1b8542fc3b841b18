package admission

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// TestBatch checks the size and the order of batches.
func TestBatch(t *testing.T) {
	t.Parallel()
	cases := map[string]func(s *scene){
		"more, as long as all find their places": func(s *scene) {
			for i := range 8 {
				s.enter(fmt.Sprint(i), "a", 0, 100-i)
			}
			s.want("at first", s.turn(), "0")
			s.Placed(podNamed("0"))
			s.want("after one", s.turn(), "1", "2")
			s.Placed(podNamed("1"))
			s.want("while one is under way", s.turn())
			s.Placed(podNamed("2"))
			s.want("after both", s.turn(), "3", "4", "5", "6")
		},
		"those after one that finds no place wait again": func(s *scene) {
			s.batchOf(4)
			s.Placed(podNamed("3"))
			s.TurnFailed(podNamed("4"))
			for _, name := range []string{"5", "6"} {
				if s.TurnOf(podNamed(name), "a") != Held || !s.TurnAway(podNamed(name)) || s.TurnAway(podNamed(name)) {
					s.t.Errorf("%s is not turned away, once", name)
				}
			}
			s.want("then", s.turn(), "5")
		},
		"so do those after one that room is made for": func(s *scene) {
			s.batchOf(4)
			s.Decided(podNamed("3"))
			s.enter("urgent", "a", 9, 0)
			s.want("then", s.turn(), "urgent")
			s.Placed(podNamed("urgent"))
			s.want("turned away", s.away("4", "5", "6"), "4", "5", "6")
			s.want("after that", s.turn(), "4", "5")
		},
		"one whose turn comes again is not turned away": func(s *scene) {
			s.batchOf(4)
			s.TurnFailed(podNamed("3"))
			s.want("then", s.turn(), "4")
			if s.TurnAway(podNamed("4")) || !s.TurnAway(podNamed("5")) {
				s.t.Error("turned away: want 5, not 4")
			}
		},
		"one that goes without a turn is not turned away": func(s *scene) {
			s.batchOf(4)
			s.TurnFailed(podNamed("3"))
			w := Waiter{Key: podNamed("4"), Queue: "a"}
			if !s.AdmitDirectly(w, s.now) || s.AdmitDirectly(w, s.now) {
				s.t.Error("4 stood in no line, or does still")
			}
			if s.TurnAway(podNamed("4")) || !s.TurnAway(podNamed("5")) {
				s.t.Error("turned away: want 5, not 4")
			}
		},
		"one whose queue is deleted is not turned away": func(s *scene) {
			s.batchOf(4)
			s.TurnFailed(podNamed("3"))
			s.ledger.DeleteQueue("a")
			if got := s.turn(); !slices.Contains(got, "4") {
				s.t.Fatalf("%v go, want 4 among them, which is to hear of it", got)
			}
			if _, ok := s.Position(podNamed("4")); ok || s.TurnAway(podNamed("4")) {
				s.t.Error("4 is turned away, and nothing would have it come again")
			}
		},
		"one at a time while one takes long": func(s *scene) {
			s.batchOf(4)
			for _, name := range []string{"3", "4", "5"} {
				s.Placed(podNamed(name))
			}
			s.now = s.now.Add(patience + 1)
			s.want("then", s.turn(), "7")
		},
		"nothing is left of those that have gone": func(s *scene) {
			s.batchOf(4)
			s.TurnFailed(podNamed("3"))
			for i := range 20 {
				s.Forget(podNamed(fmt.Sprint(i)))
			}
			if n := s.Len(); n != 0 {
				s.t.Errorf("%d are known still", n)
			}
		},
		"work of other queues that goes next waits too": func(s *scene) {
			s.batchOf(2)
			s.enter("b", "b", 0, 1)
			s.Placed(podNamed("1"))
			s.Placed(podNamed("2"))
			if got := s.turn(); !slices.Contains(got, "b") {
				s.t.Fatalf("%v go, want b among them", got)
			}
			if !s.OthersWait("a", s.now) {
				s.t.Error("none of the others waits")
			}
		},
	}
	for name, run := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(newScene(t))
		})
	}
}

// batchOf adds 20 waiting workloads, ordered by name. It then admits batches until one has the
// given size.
func (s *scene) batchOf(size int) {
	s.t.Helper()
	for i := range 20 {
		s.enter(fmt.Sprint(i), "a", 0, 100-i)
	}
	for {
		gone := s.turn()
		if len(gone) == size {
			return
		}
		for _, name := range gone {
			s.Placed(podNamed(name))
		}
	}
}

// TestSeats checks that the workloads of a batch keep their order in the scheduler's queue,
// regardless of their priorities.
func TestSeats(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.enter("first", "b", 0, 1)
	s.turn()
	s.Placed(podNamed("first"))
	s.enter("low", "b", 1, 500)
	s.enter("high", "b", 9, 1)
	s.enter("lowest", "b", 0, 900)
	s.want("those that go", s.turn(), "high", "low")
	a, _ := s.Position(podNamed("high"))
	b, ok := s.Position(podNamed("low"))
	if !ok || a.Priority != 9 || b.Priority != 1 {
		t.Errorf("seats are %v and %v", a, b)
	}
	if c := (Position{Priority: 20, Time: at(-900)}).after(b); c.Priority != 1 || !c.Time.After(b.Time) {
		t.Errorf("a more important and older one behind %v has the seat %v", b, c)
	}
	if _, ok := s.Position(podNamed("lowest")); ok {
		t.Error("one that waits for its turn has a seat")
	}
}

// TestBatchesKeepTheOrder checks that batches admit workloads in the same order as single turns
// on the current quota ledger.
func TestBatchesKeepTheOrder(t *testing.T) {
	t.Parallel()
	longest := 0
	rapid.Check(t, func(rt *rapid.T) {
		type work struct {
			queue    string
			priority int32
			age      int
			fails    bool
		}
		all := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) work {
			return work{
				queue: rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "queue"), priority: rapid.Int32Range(0, 2).Draw(rt, "priority"),
				age: rapid.IntRange(0, 20).Draw(rt, "age"), fails: rapid.IntRange(0, 5).Draw(rt, "fails") == 0,
			}
		}), 1, 40).Draw(rt, "work")
		order := func(most int) (out []string) {
			s := newScene(t)
			left := make(map[workload.Key]work)
			for i, w := range all {
				left[s.enter(fmt.Sprint(i), w.queue, w.priority, w.age)] = w
			}
			for len(left) > 0 {
				s.turns.batch.most = min(s.turns.batch.most, most)
				keys := s.Admit(s.shares(), s.now)
				longest = max(longest, len(keys))
				for _, key := range keys {
					if s.TurnAway(key) {
						continue
					}
					w := left[key]
					out = append(out, key.Name)
					if w.fails {
						// The workload enters again, behind the others.
						s.TurnFailed(key)
						w.fails = false
						left[s.enter(key.Name, w.queue, w.priority, w.age)] = w
						continue
					}
					delete(left, key)
					s.runs(key.Name, w.queue)
					s.Placed(key)
				}
			}
			return out
		}
		if one, more := order(1), order(longestBatch); !slices.Equal(one, more) {
			rt.Errorf("one at a time %v, in batches %v", one, more)
		}
	})
	if longest < 4 {
		t.Errorf("at most %d went at a time: the cases say little", longest)
	}
}

// TestStandbyRemembersNoLines checks that a List whose Admit is never called drops the state of
// queues without work.
func TestStandbyRemembersNoLines(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for range 10 {
		s.Forget(s.enter("p", "a", 0, 0))
	}
	if n := len(s.turns.fresh); n > 0 {
		t.Errorf("%d queues without work are remembered", n)
	}
}
