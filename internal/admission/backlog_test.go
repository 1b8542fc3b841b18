package admission

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// rush simulates queues that always have small work waiting. Small work finds room and runs for
// smallRuns. Large work never finds room and enters its queue again at once.
type rush struct {
	*scene
	queues []string
	size   int64
	// waiting counts the small workloads that wait in each queue. placed counts the small
	// workloads that found room in each queue. tries counts the turns of large work in each
	// queue.
	waiting, placed, tries map[string]int
	// ends maps a time to the small workloads that end at that time.
	ends map[time.Time][]workload.Key
	came int
}

const (
	smallOnes = 50
	smallRuns = 200 * time.Millisecond
)

// enterLarge adds a large workload, whose priority makes it the first of its queue.
func (r *rush) enterLarge(name string) { r.enterAgain(podNamed(name+"-large"), name) }

func (r *rush) enterAgain(key workload.Key, name string) {
	r.Enter(Waiter{Key: key, Queue: name, Priority: 9, Since: at(0), Request: Request{"gpu": r.size}}, r.now)
}

// step simulates one moment: it ends small workloads, refills the queues and begins the next
// turns.
func (r *rush) step() {
	for _, key := range r.ends[r.now] {
		r.ledger.Forget(types.UID(key.Name))
	}
	delete(r.ends, r.now)
	for _, name := range r.queues {
		for ; r.waiting[name] < smallOnes; r.waiting[name]++ {
			r.came++
			r.enter(fmt.Sprintf("%s-%d", name, r.came), name, 0, -r.came)
		}
	}
	for _, key := range r.Admit(r.shares(), r.now) {
		if r.TurnAway(key) {
			continue
		}
		name, is, _ := strings.Cut(key.Name, "-")
		if strings.HasPrefix(is, "large") {
			r.tries[name]++
			r.TurnFailed(key)
			r.enterAgain(key, name)
			continue
		}
		r.Placed(key)
		r.runs(key.Name, name)
		r.waiting[name]--
		r.placed[name]++
		r.ends[r.now.Add(smallRuns)] = append(r.ends[r.now.Add(smallRuns)], key)
	}
}

// TestRestingHead checks that a workload that fails and enters again at once does not block the
// workloads behind it in its queue.
func TestRestingHead(t *testing.T) {
	t.Parallel()
	const lasts, every = time.Minute, 20 * time.Millisecond
	cases := map[string]struct {
		// queues have small work. large are the queues that also have one large workload, ahead
		// of the small work.
		queues, large []string
		// size is the number of GPUs that large work requests; 0 means 8. Small work requests
		// 1.
		size int64
		// wantTries is the maximum number of turns of each queue's large work in a minute.
		wantTries int
	}{
		"beside a queue that always has work":    {queues: []string{"a", "b"}, large: []string{"a"}, wantTries: 10},
		"that is no larger than they are":        {queues: []string{"a", "b"}, large: []string{"a"}, size: 1, wantTries: 60},
		"beside one that is held up just so":     {queues: []string{"a", "b"}, large: []string{"a", "b"}, wantTries: 60},
		"in the only queue that has work":        {queues: []string{"a"}, large: []string{"a"}, wantTries: 60},
		"beside a queue that has such work only": {queues: []string{"a"}, large: []string{"a", "b"}, wantTries: 60},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &rush{
				scene: newScene(t), queues: tc.queues, ends: make(map[time.Time][]workload.Key),
				size: cmp.Or(tc.size, 8), waiting: make(map[string]int), placed: make(map[string]int), tries: make(map[string]int),
			}
			for _, name := range tc.large {
				r.enterLarge(name)
			}
			steps := 0
			for ; r.now.Before(at(0).Add(lasts)); r.now = r.now.Add(every) {
				r.step()
				steps++
				// A failed turn of large work may recall the rest of a batch. So the numbers of
				// placed workloads of the queues may differ by up to a batch.
				if apart := r.placed["a"] - r.placed["b"]; len(tc.queues) > 1 && max(apart, -apart) > longestBatch+r.placed["a"]/100 {
					t.Fatalf("after %v, %v of each queue have found their places, want as many of one as of the other", r.now.Sub(at(0)), r.placed)
				}
			}
			sum := 0
			for _, name := range tc.large {
				if sum += r.tries[name]; r.tries[name] == 0 || r.tries[name] > tc.wantTries {
					t.Errorf("%s-large was tried %d times, want at least once and at most %d times", name, r.tries[name], tc.wantTries)
				}
			}
			for _, name := range tc.queues {
				if least := (steps - sum) / len(tc.queues); r.placed[name] < least {
					t.Errorf("%d of %s have found their places, want at least %d", r.placed[name], name, least)
				}
			}
		})
	}
}

// TestDeepBacklog checks a queue with so much large work that its first workload ends its
// back-off before its last workload has had a turn. Other queues still get turns, and so does
// small work of the queue.
func TestDeepBacklog(t *testing.T) {
	t.Parallel()
	const lasts, every = time.Minute, 20 * time.Millisecond
	for name, tc := range map[string]struct {
		queues []string
		large  int
		// small is the queue whose small work must get some turns.
		small string
		// roused is the number of large workloads whose back-off a change ends in every step.
		roused int
		// first is a queue that gets all that it requests before other queues have a share.
		first string
	}{
		"beside another queue":             {queues: []string{"a", "b"}, large: 600, small: "b"},
		"beside a queue without any share": {queues: []string{"a", "b"}, large: 600, small: "b", first: "a"},
		"alone":                            {queues: []string{"a"}, large: 100, small: "a"},
		"that hears of changes":            {queues: []string{"a"}, large: 100, small: "a", roused: 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &rush{
				scene: newScene(t), queues: tc.queues, ends: make(map[time.Time][]workload.Key),
				size: 8, waiting: make(map[string]int), placed: make(map[string]int), tries: make(map[string]int),
			}
			if tc.first != "" {
				r.ledger.SetQueue(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: tc.first}, Spec: v1alpha1.QueueSpec{Priority: ptr.To[int32](1)}})
			}
			for i := range tc.large {
				r.enterAgain(podNamed(fmt.Sprint("a-large", i)), "a")
			}
			steps := 0
			for ; r.now.Before(at(0).Add(lasts)); r.now = r.now.Add(every) {
				r.step()
				steps++
				for i := range tc.roused {
					r.EndBackoff(podNamed(fmt.Sprint("a-large", i)))
				}
			}
			if got := r.placed[tc.small]; got < steps/100 {
				t.Errorf("in %d steps, %d of %s have found their places", steps, got, tc.small)
			}
			if r.tries["a"] < steps*3/4 {
				t.Errorf("in %d steps, what comes first was tried %d times", steps, r.tries["a"])
			}
		})
	}
}

// TestBacklogKeepsItsOrder checks a full cluster in which much work has failed repeatedly. Free
// room must go to the oldest work of the queue with less usage, although newer work backs off for a
// shorter time.
func TestBacklogKeepsItsOrder(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	type work struct {
		name, queue string
		age         int
	}
	var waiting []work
	for i := range 10 {
		for _, name := range []string{"a", "b"} {
			waiting = append(waiting, work{fmt.Sprintf("%s-%d", name, i), name, 100 - i})
		}
	}
	var placed []string
	for round := range 8 {
		waiting = append(waiting, work{fmt.Sprintf("b-new-%d", round), "b", -round})
		// A pod ends and frees room for one workload, and all work is retried.
		s.now = s.now.Add(2 * firstRest)
		for _, w := range waiting {
			s.enter(w.name, w.queue, 0, w.age)
		}
		for full := false; s.AnyQueued(); {
			for _, key := range s.Admit(s.shares(), s.now) {
				switch {
				case s.TurnAway(key):
				case full:
					s.TurnFailed(key)
				default:
					s.Placed(key)
					s.runs(key.Name, key.Name[:1])
					placed, full = append(placed, key.Name), true
					waiting = slices.DeleteFunc(waiting, func(w work) bool { return w.name == key.Name })
				}
			}
		}
	}
	s.want("in eight rounds", placed, "a-0", "b-0", "a-1", "b-1", "a-2", "b-2", "a-3", "b-3")
}

// TestOthersWait checks that OthersWait considers a workload that is behind a workload that
// backs off.
func TestOthersWait(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	fails := func() {
		key := s.enter("large", "a", 9, 0)
		s.want("next", s.turn(), "large")
		s.TurnFailed(key)
		s.enter("large", "a", 9, 0)
	}
	steps := []struct {
		when string
		do   func()
		want bool
	}{
		{when: "nothing does"},
		{when: "work has just failed", do: fails},
		{when: "more has come behind it", do: func() { s.enter("small", "a", 0, 0) }, want: true},
		{when: "that has gone", do: func() { s.Forget(podNamed("small")) }},
		{when: "the rest is over", do: func() { s.now = s.now.Add(firstRest) }, want: true},
		{when: "it has failed again", do: fails},
		{when: "something has changed for it", do: func() { s.EndBackoff(podNamed("large")) }, want: true},
	}
	for _, step := range steps {
		if step.do != nil {
			step.do()
		}
		if got := s.OthersWait("b", s.now); got != step.want {
			t.Errorf("%s: %v, want %v", step.when, got, step.want)
		}
		if s.OthersWait("a", s.now) {
			t.Errorf("%s: the queue's own work is that of others", step.when)
		}
	}
}

// TestRoomOfTheFirst checks a ready workload behind a workload that has failed lately. If the
// failed workload requests no more than the ready one, it must take the turn of the ready one. If
// it fails again, ready workloads behind it must keep their turns for a while.
func TestRoomOfTheFirst(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		size int64
		want []string
	}{
		"that asks for as much": {1, []string{"first", "new", "other", "second"}},
		"that asks for more":    {2, []string{"new", "other", "first", "second"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.runs("b-runs", "b")
			enter := func(name string, priority int32) {
				s.Enter(Waiter{Key: podNamed(name), Queue: "a", Priority: priority, Since: at(0), Request: Request{"gpu": tc.size}}, s.now)
			}
			for range 2 {
				enter("first", 9)
				s.want("of two", s.turn(), "first")
				s.TurnFailed(podNamed("first"))
				enter("second", 8)
				s.want("of the rest", s.turn(), "second")
				s.TurnFailed(podNamed("second"))
				s.now = s.now.Add(firstRest)
			}
			enter("first", 9)
			enter("second", 8)
			s.enter("new", "a", 0, 0)
			s.enter("other", "b", 0, 0)
			for _, name := range tc.want {
				s.want("then", s.turn(), name)
				s.TurnFailed(podNamed(name))
			}
		})
	}
}

// plainNext returns the next workload by a search over all waiting work. TestLines compares the
// heaps with it.
func (s *scene) plainNext() workload.Key {
	all := slices.SortedFunc(maps.Values(s.turns.held), order)
	comesLast := func(w *waiter) bool { return w.lastUntil.After(s.now) }
	rests := func(w *waiter) bool { return w.rested.After(s.now) }
	seen, led := make(map[string]bool), false
	for _, w := range all {
		if !comesLast(w) && !seen[w.Queue] {
			seen[w.Queue] = true
			led = led || !rests(w)
		}
	}
	switch {
	case led:
		all = slices.DeleteFunc(all, rests)
	case len(seen) > 0:
		all = slices.DeleteFunc(all, comesLast)
	}
	var waiting []Waiter
	for _, w := range all {
		waiting = append(waiting, w.Waiter)
	}
	leaf, _ := s.shares().Next(waiting, nil)
	next := all[slices.IndexFunc(all, func(w *waiter) bool { return w.Queue == leaf })]
	for _, w := range slices.SortedFunc(maps.Values(s.turns.held), order) {
		// All workloads of the test request the same amount.
		if led && w.Queue == leaf && rests(w) && !comesLast(w) && order(w, next) < 0 && !s.turns.inVain[leaf].After(s.now) {
			return w.Key
		}
	}
	return next.Key
}

// TestLines compares the next workload with plainNext over random operations. At the end, the
// List must hold no state.
func TestLines(t *testing.T) {
	t.Parallel()
	turns := 0
	rapid.Check(t, func(rt *rapid.T) {
		s := newScene(t)
		names, queues := rapid.SampledFrom([]string{"0", "1", "2", "3", "4", "5", "6", "7"}), rapid.SampledFrom([]string{"a", "b"})
		enter := func(name string) {
			s.enter(name, queues.Draw(rt, "queue"), int32(name[0])%3, int(name[0]))
		}
		for range rapid.IntRange(1, 80).Draw(rt, "steps") {
			name := names.Draw(rt, "name")
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0, 1, 2:
				enter(name)
			case 3:
				s.now = s.now.Add(time.Duration(rapid.IntRange(1, 40).Draw(rt, "passes")) * 250 * time.Millisecond)
			case 4:
				[]func(workload.Key){s.EndBackoff, s.Forget}[rapid.IntRange(0, 1).Draw(rt, "changes")](podNamed(name))
			default:
				if !s.AnyQueued() {
					continue
				}
				turns++
				s.turns.batch.most = 1
				want := s.plainNext()
				got := s.Admit(s.shares(), s.now)
				if len(got) != 1 || got[0] != want {
					rt.Fatalf("%v go, want %v", got, want)
				}
				if rapid.IntRange(0, 3).Draw(rt, "finds a place") == 0 {
					s.Placed(want)
					continue
				}
				s.TurnFailed(want)
				if rapid.Bool().Draw(rt, "comes again at once") {
					enter(want.Name)
				}
			}
		}
		for i := range 8 {
			s.Forget(podNamed(fmt.Sprint(i)))
		}
		s.turns.settle(s.now.Add(firstRest))
		if left := cmp.Or(s.Len(), len(s.turns.lines), len(s.turns.rests.Items), len(s.turns.inVain)); left != 0 {
			rt.Errorf("%d known, %d lines and %d that rest are left", s.Len(), len(s.turns.lines), len(s.turns.rests.Items))
		}
	})
	if turns < 500 {
		t.Errorf("there were %d turns: the cases say little", turns)
	}
}
