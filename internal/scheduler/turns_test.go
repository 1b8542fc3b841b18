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

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

// turnsBoard has two queues that have asked for all of a cluster.
func turnsBoard() *queue.Board {
	b := queue.NewBoard()
	b.SetNode("n", queue.Amounts{"gpu": 8})
	for _, name := range []string{"a", "b"} {
		b.SetQueue(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}})
		b.Charge(turnsPod(name), name)
	}
	return b
}

// turnsPod asks for all of a cluster.
func turnsPod(uid string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"gpu": resource.MustParse("8")},
		}}}},
	}
}

func TestTurns(t *testing.T) {
	start := time.Unix(1000, 0)
	board := turnsBoard()
	standing := board.Standing([]string{"gpu"})
	turns := newTurns()
	wait := func(name, queueName string, priority int32, age int) owner {
		o := owner{NamespacedName: types.NamespacedName{Namespace: "ns", Name: name}}
		turns.admit(o, queueName, func() *waiter {
			return &waiter{owner: o, queue: queueName, priority: priority, since: start.Add(-time.Duration(age) * time.Second), request: queue.Amounts{"gpu": 1}}
		})
		return o
	}
	names := func(owners []owner) []string {
		var out []string
		for _, o := range owners {
			out = append(out, o.Name)
		}
		return out
	}
	for i := range 100 {
		wait(fmt.Sprintf("a%02d", i), "a", 0, 100-i)
	}
	wait("b-old", "b", 0, 50)
	wait("b-important", "b", 5, 1)
	wait("lost", "nowhere", 0, 1)
	got := names(turns.next(standing, nil, start))
	for range 7 {
		// Nobody goes before the last one has been decided on.
		if more := turns.next(standing, nil, start); len(more) != 0 {
			t.Errorf("%v go beyond the window", names(more))
		}
		turns.decided(owner{NamespacedName: types.NamespacedName{Namespace: "ns", Name: got[len(got)-1]}})
		got = append(got, names(turns.next(standing, nil, start))...)
	}
	// Where nothing is under way, both are as far below their share, and the first by name goes.
	want := []string{"lost", "a00", "a01", "a02", "a03", "a04", "a05", "a06", "a07"}
	if !slices.Equal(got, want) {
		t.Errorf("let through are\n%v, want\n%v", got, want)
	}
	if !turns.admit(owner{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "a00"}}, "a", nil) {
		t.Error("one that has had its turn is held back")
	}
	// The one that takes its time counts still, so it is b's turn: by priority, then age.
	late := turns.next(standing, nil, start.Add(turnPatience+time.Second))
	if got := names(late); !slices.Equal(got, []string{"b-important"}) {
		t.Errorf("when the window's time is up, %v go, want b-important", got)
	}
	turns.decided(owner{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "a07"}})
	board.Charge(placed("a-runs"), "a")
	standing = board.Standing([]string{"gpu"})
	var order []string
	for range 2 {
		turns.decided(late[0])
		late = turns.next(standing, nil, start)
		order = append(order, names(late)...)
	}
	if want := []string{"b-old", "a08"}; !slices.Equal(order, want) {
		t.Errorf("the next turns are %v, want %v", order, want)
	}
	turns.failed(late[0])
	if o := wait("a08", "a", 0, 92); !turns.holds(o) {
		t.Error("one that has failed does not wait again")
	}
	// Without queues nobody waits.
	if got := turns.next(nil, nil, start); len(got) != 100-9+1 || len(turns.held) != 0 {
		t.Errorf("%d go without queues, %d are left", len(got), len(turns.held))
	}
}

// placed is a pod on a node.
func placed(uid string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"gpu": resource.MustParse("1")},
		}}}},
	}
}

// crowdOfGangs has many gangs wait in one queue, and one in another.
func crowdOfGangs(count int) (t *turns, lone owner) {
	t = newTurns()
	for i := range count {
		o := owner{gang: true, NamespacedName: types.NamespacedName{Namespace: "ns", Name: fmt.Sprintf("a%05d", i)}}
		t.admit(o, "a", func() *waiter {
			return &waiter{owner: o, queue: "a", priority: int32(i % 7), since: time.Unix(int64(i%101), 0), request: queue.Amounts{"gpu": 1}}
		})
	}
	lone = owner{gang: true, NamespacedName: types.NamespacedName{Namespace: "ns", Name: "b"}}
	t.admit(lone, "b", func() *waiter { return &waiter{owner: lone, queue: "b", request: queue.Amounts{"gpu": 1}} })
	return t, lone
}

// TestTurnsOfACrowd has 10,000 gangs of one queue wait, all older than the one of another queue.
func TestTurnsOfACrowd(t *testing.T) {
	const count = 10_000
	board := turnsBoard()
	board.Charge(placed("a-runs"), "a")
	standing := board.Standing([]string{"gpu"})
	turns, lone := crowdOfGangs(count)
	start := time.Unix(1000, 0)
	if got := turns.next(standing, nil, start); len(got) != 1 || got[0] != lone {
		t.Fatalf("%v go first, want %v", got, lone)
	}
	turns.decided(lone)
	// Some go before it is their turn; the others keep their order.
	for i := 0; i < count; i += 3 {
		turns.forget(owner{gang: true, NamespacedName: types.NamespacedName{Namespace: "ns", Name: fmt.Sprintf("a%05d", i)}})
	}
	var last *waiter
	seen := 0
	for {
		got := turns.next(standing, nil, start)
		if len(got) == 0 {
			break
		}
		w := turns.through[got[0]]
		if len(got) != 1 || last != nil && !before(last, w) {
			t.Fatalf("%v go after %v", got, last.owner)
		}
		last = w
		seen++
		turns.failed(w.owner)
	}
	if want := count - (count+2)/3; seen != want || len(turns.lines) != 0 || len(turns.held) != 0 || len(turns.resting) != want {
		t.Errorf("%d have had their turn, want %d; %d lines, %d held and %d resting are left", seen, want, len(turns.lines), len(turns.held), len(turns.resting))
	}
}

// BenchmarkTurn is one turn, with 10,000 gangs waiting.
func BenchmarkTurn(b *testing.B) {
	for _, count := range []int{10, 10_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			standing := turnsBoard().Standing([]string{"gpu"})
			turns, _ := crowdOfGangs(count)
			start := time.Unix(1000, 0)
			for b.Loop() {
				o := turns.next(standing, nil, start)[0]
				w := turns.through[o]
				turns.failed(o)
				turns.admit(o, w.queue, func() *waiter { return w })
			}
		})
	}
}

// TestEasedTurns has those tried again whose share has grown since their turn came to nothing.
func TestEasedTurns(t *testing.T) {
	board := turnsBoard()
	more := placed("a-more")
	more.Spec.NodeName = ""
	more.Spec.Containers[0].Resources.Requests["gpu"] = resource.MustParse("20")
	board.Charge(more, "a")
	standing := func() *queue.Standing { return board.Standing([]string{"gpu"}) }
	turns := newTurns()
	start := time.Unix(1000, 0)
	var all []owner
	wait := func(name, queueName string, gpus int64) owner {
		o := owner{NamespacedName: types.NamespacedName{Namespace: "ns", Name: name}}
		turns.admit(o, queueName, func() *waiter { return &waiter{owner: o, queue: queueName, request: queue.Amounts{"gpu": gpus}} })
		return o
	}
	// Of 8, each queue has a share of 4.
	fits, wide, other := wait("fits", "a", 6), wait("wide", "a", 9), wait("other", "b", 6)
	for range 3 {
		for _, o := range turns.next(standing(), nil, start) {
			all = append(all, o)
			turns.failed(o)
		}
	}
	if len(all) != 3 || len(turns.resting) != 3 {
		t.Fatalf("%v have had a turn, %d rest", all, len(turns.resting))
	}
	check := func(when string, want ...owner) {
		t.Helper()
		if got := turns.eased(standing()); !slices.Equal(got, want) {
			t.Errorf("%s: %v are woken, want %v", when, got, want)
		}
	}
	check("nothing has changed")
	board.Forget("b")
	check("the other queue wants nothing any more", fits)
	check("nothing has changed since")
	if wait("fits", "a", 6); !turns.holds(fits) {
		t.Error("one that has been woken does not wait for its turn")
	}
	board.SetNode("m", queue.Amounts{"gpu": 8})
	check("the cluster has grown, and one waits already", wide)
	turns.forget(fits)
	turns.forget(wide)
	turns.forget(other)
	if len(turns.resting)+len(turns.held)+len(turns.lines)+len(turns.through) != 0 {
		t.Errorf("something is left of those that have gone: %+v", turns)
	}
	for i := range mostEased + 10 {
		wait(fmt.Sprint(i), "a", 1)
		turns.failed(turns.next(standing(), nil, start)[0])
	}
	last := wait("last", "b", 1)
	turns.failed(turns.next(standing(), nil, start)[0])
	board.Charge(turnsPod("b"), "b")
	board.SetNode("l", queue.Amounts{"gpu": 16})
	// However many of one queue there are, another queue's are among the first.
	got := turns.eased(standing())
	if len(got) != mostEased+1 || !slices.Contains(got, last) {
		t.Errorf("%d are woken first, %v, want %d with %v", len(got), got, mostEased+1, last)
	}
	for _, want := range []int{10, 0} {
		if got := turns.eased(standing()); len(got) != want {
			t.Errorf("%d are woken at a time, want %d", len(got), want)
		}
	}
}

// TestTurnsThatFail: a queue whose work fails does not go first each time that something changes, and has its rest end
// when something has changed for it.
func TestTurnsThatFail(t *testing.T) {
	now := time.Unix(1000, 0)
	standing := turnsBoard().Standing([]string{"gpu"})
	turns := newTurns()
	wait := func(name, queueName string) owner {
		o := owner{NamespacedName: types.NamespacedName{Namespace: "ns", Name: name}}
		turns.admit(o, queueName, func() *waiter { return &waiter{owner: o, queue: queueName, request: queue.Amounts{"gpu": 1}} })
		return o
	}
	turn := func(want owner) {
		t.Helper()
		if got := turns.next(standing, nil, now); len(got) != 1 || got[0] != want {
			t.Fatalf("%v has a turn, want %v", got, want)
		}
		turns.failed(want)
	}
	first, second, other := wait("a-1", "a"), wait("a-2", "a"), wait("b-1", "b")
	turn(first)
	turn(second)
	turn(other)
	// A pod goes, and all are tried again, the first queue first.
	now = now.Add(firstRest)
	wait("a-1", "a")
	wait("a-2", "a")
	wait("b-1", "b")
	turn(first)
	// Another one goes: the first has just failed, and the other has not.
	wait("a-1", "a")
	turn(other)
	// With nobody else about, nobody waits for the end of a rest.
	turn(first)
	turn(second)
	wait("a-1", "a")
	wait("b-1", "b")
	now = now.Add(firstRest)
	turn(first)
	wait("a-1", "a")
	now = now.Add(2 * longestRest)
	turn(first)
	wait("a-1", "a")
	turn(other)
	wait("b-1", "b")
	turns.rouse(first)
	turn(first)
}

// TestTurnInAnotherQueue moves work to another queue, before its turn and after it.
func TestTurnInAnotherQueue(t *testing.T) {
	start := time.Unix(1000, 0)
	standing := turnsBoard().Standing([]string{"gpu"})
	turns := newTurns()
	o := owner{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "o"}}
	admit := func(queueName string) bool {
		return turns.admit(o, queueName, func() *waiter {
			return &waiter{owner: o, queue: queueName, request: queue.Amounts{"gpu": 1}}
		})
	}
	for _, name := range []string{"a", "b"} {
		if admit(name) {
			t.Fatalf("it goes at once in queue %s", name)
		}
		if len(turns.lines) != 1 || turns.lines[name] == nil {
			t.Errorf("it stands in the lines %v, want that of %s only", turns.lines, name)
		}
	}
	if got := turns.next(standing, nil, start); len(got) != 1 || !admit("b") {
		t.Errorf("%v go, want the only one", got)
	}
	if admit("a") {
		t.Error("the turn in one queue is one in another")
	}
	turns.next(standing, nil, start)
	turns.over(o)
	if admit("a") || len(turns.underway) > 0 {
		t.Error("more of it comes without another turn")
	}
}

// TestUntold has many wait for their first turn: all are told of it, once each, and some at a time.
func TestUntold(t *testing.T) {
	crowd, lone := crowdOfGangs(2*mostTold + 5)
	start := time.Unix(1000, 0)
	for _, w := range crowd.held {
		w.came = start
	}
	crowd.held[lone].failures = 1
	if early, _ := crowd.untold(start.Add(untoldTime - 1)); len(early) > 0 {
		t.Errorf("%d are told early", len(early))
	}
	seen := make(map[owner]int)
	var waiting map[string]int
	for _, want := range []int{mostTold, mostTold, 5, 0} {
		var picked []*waiter
		if picked, waiting = crowd.untold(start.Add(untoldTime)); len(picked) != want {
			t.Errorf("%d are told, want %d", len(picked), want)
		}
		for _, w := range picked {
			seen[w.owner]++
		}
	}
	if seen[lone] > 0 || len(seen) != 2*mostTold+5 {
		t.Errorf("%d have been told, the one that had its turn %d times", len(seen), seen[lone])
	}
	if waiting["a"] != 2*mostTold+5 || waiting["b"] != 1 {
		t.Errorf("waiting are %v", waiting)
	}
}
