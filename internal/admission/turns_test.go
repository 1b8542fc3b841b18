package admission

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
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// ledgerShares implements Shares with a real quota ledger, like the scheduler's implementation.
type ledgerShares struct {
	*queue.Snapshot
	plenty map[string]bool
	// hopeless is a workload that is not servable.
	hopeless workload.Key
}

func (b ledgerShares) Next(waiting []Waiter, underway map[string]Request) (string, bool) {
	askers := make([]queue.Asker, len(waiting))
	for i, w := range waiting {
		askers[i] = askerOf(w)
	}
	sums := make(map[string]queue.Amounts)
	for name, r := range underway {
		sums[name] = amountsOf(r)
	}
	return b.Snapshot.Next(askers, sums)
}

func (b ledgerShares) Plenty(leaf string) bool { return b.plenty[leaf] }

func (b ledgerShares) Servable(key workload.Key) bool { return key != b.hopeless }

func (b ledgerShares) Entitled(w Waiter) bool { return b.Snapshot.Entitled(askerOf(w)) }
func (b ledgerShares) HasShare(w Waiter) bool { return b.Snapshot.HasShare(askerOf(w)) }

func askerOf(w Waiter) queue.Asker { return queue.Asker{Queue: w.Queue, Request: amountsOf(w.Request)} }

func amountsOf(r Request) queue.Amounts {
	out := make(queue.Amounts)
	for name, v := range r {
		out[corev1.ResourceName(name)] = v
	}
	return out
}

// scene is a List with a quota ledger of two queues, a and b. Each of the queues requests all 8
// GPUs of the cluster.
type scene struct {
	*List
	t      testing.TB
	ledger *queue.Ledger
	now    time.Time
	// plenty is the set of queues that have plenty of room.
	plenty map[string]bool
	// hopeless is a workload that is not servable.
	hopeless workload.Key
}

func newScene(t testing.TB) *scene {
	t.Helper()
	s := &scene{List: NewList(func() {}, func(workload.Key) bool { return true }), t: t, ledger: queue.NewLedger(), now: at(0)}
	s.ledger.SetNode(gpuNode("n", 8))
	for _, name := range []string{"a", "b"} {
		s.ledger.SetQueue(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}})
		s.ledger.Charge(podOf(name, 8), name)
	}
	return s
}

// podOf returns a pod with the UID and a request for the number of GPUs.
func podOf(uid string, gpus int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"gpu": *resource.NewQuantity(gpus, resource.DecimalSI)},
		}}}},
	}
}

// runs adds a running pod with one GPU to a queue.
func (s *scene) runs(uid, queueName string) {
	pod := podOf(uid, 1)
	pod.Spec.NodeName = "n"
	s.ledger.Charge(pod, queueName)
}

func (s *scene) shares() Shares {
	return ledgerShares{s.ledger.Snapshot([]string{"gpu"}), s.plenty, s.hopeless}
}

// enter adds a waiting pod to a queue. The pod was created age seconds before the start of the
// test.
func (s *scene) enter(name, queueName string, priority int32, age int) workload.Key {
	key := podNamed(name)
	s.Enter(Waiter{
		Key: key, Queue: queueName, Priority: priority, Since: at(-age), Request: Request{"gpu": 1},
	}, s.now)
	return key
}

// turn begins the next turns and returns the names of the admitted workloads.
func (s *scene) turn() []string {
	s.Recall(func(queue string) bool { return s.plenty[queue] })
	return namesOf(s.Admit(s.shares(), s.now))
}

func namesOf(keys []workload.Key) []string {
	var out []string
	for _, k := range keys {
		out = append(out, k.Name)
	}
	return out
}

func (s *scene) want(when string, got []string, want ...string) {
	s.t.Helper()
	if !slices.Equal(got, want) {
		s.t.Errorf("%s: %v go, want %v", when, got, want)
	}
}

func TestTurns(t *testing.T) {
	t.Parallel()
	cases := map[string]func(s *scene){
		"by priority, then age, inside a queue": func(s *scene) {
			s.enter("young", "a", 0, 1)
			s.enter("old", "a", 0, 9)
			s.enter("important", "a", 5, 0)
			for _, want := range []string{"important", "old", "young"} {
				s.want("next", s.turn(), want)
				s.Decided(podNamed(want))
			}
		},
		"none before the last one has been decided on": func(s *scene) {
			s.enter("first", "a", 0, 2)
			s.enter("second", "a", 0, 1)
			s.want("at first", s.turn(), "first")
			s.want("while that is under way", s.turn())
			s.Decided(podNamed("first"))
			s.want("then", s.turn(), "second")
		},
		"the queue that is furthest below its share": func(s *scene) {
			s.runs("a-runs", "a")
			s.enter("a-old", "a", 0, 9)
			s.enter("b-young", "b", 0, 1)
			s.want("at first", s.turn(), "b-young")
			s.Decided(podNamed("b-young"))
			s.runs("b-runs", "b")
			s.runs("b-runs-too", "b")
			s.enter("b-next", "b", 0, 8)
			s.want("when b has more", s.turn(), "a-old")
		},
		"what takes its time counts for its queue still": func(s *scene) {
			s.enter("slow", "a", 0, 9)
			s.enter("a-next", "a", 0, 8)
			s.enter("b-next", "b", 0, 7)
			s.want("at first", s.turn(), "slow")
			s.now = s.now.Add(patience + time.Millisecond)
			s.want("when the window's time is up", s.turn(), "b-next")
		},
		"work of a queue that is not there, at once": func(s *scene) {
			s.enter("first", "a", 0, 2)
			s.enter("lost", "nowhere", 0, 1)
			s.want("at first", s.turn(), "lost", "first")
		},
		"all, without queues": func(s *scene) {
			s.enter("x", "a", 0, 1)
			s.enter("y", "b", 0, 1)
			s.want("at once", namesOf(s.Admit(nil, s.now)), "x", "y")
			if s.AnyQueued() {
				s.t.Error("some are held back still")
			}
		},
		"again, after a turn that came to nothing": func(s *scene) {
			key := s.enter("x", "a", 0, 1)
			s.turn()
			if got := s.TurnOf(key, "a"); got != Admitted {
				s.t.Errorf("one that has had its turn is %v", got)
			}
			s.TurnFailed(key)
			if s.enter("x", "a", 0, 1); s.TurnOf(key, "a") != Held {
				s.t.Error("one that has failed does not wait again")
			}
		},
		"again, in another queue": func(s *scene) {
			key := s.enter("x", "a", 0, 1)
			s.enter("x", "b", 0, 1)
			if len(s.turns.lines) != 1 || s.turns.lines["b"] == nil {
				s.t.Errorf("it stands in %v", s.turns.lines)
			}
			s.want("at first", s.turn(), "x")
			if s.TurnOf(key, "a") != NotEntered {
				s.t.Error("the turn in one queue is one in another")
			}
			s.enter("x", "a", 0, 1)
			s.want("in the other queue", s.turn(), "x")
			s.TurnEnds(key)
			if s.TurnOf(key, "a") != NotEntered || len(s.turns.underway) > 0 {
				s.t.Error("more of it comes without another turn")
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

// crowd returns a scene with count waiting gangs in queue a, and one gang (lone) in queue b.
func crowd(t testing.TB, count int) (s *scene, lone workload.Key) {
	t.Helper()
	s = newScene(t)
	for i := range count {
		s.Enter(Waiter{
			Key: gangNamed(fmt.Sprintf("a%05d", i)), Queue: "a", Priority: int32(i % 7), Since: time.Unix(int64(i%101), 0),
			Request: Request{"gpu": 1},
		}, s.now)
	}
	lone = gangNamed("b")
	s.Enter(Waiter{Key: lone, Queue: "b", Since: s.now, Request: Request{"gpu": 1}}, s.now)
	return s, lone
}

// TestTurnsWithoutAShare checks that a queue without a share of the requested resources does not go
// first, although it has the least usage of them. With a share, it has turns like any other queue.
func TestTurnsWithoutAShare(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		asks Request
		want []string
	}{
		"of what it has no share of": {asks: Request{"gpu": 1, "pods": 1}, want: []string{"entitled", "other"}},
		"of what it has a share of":  {asks: Request{"pods": 1}, want: []string{"other", "entitled"}},
		"of what there is none of":   {asks: Request{"fpga": 1, "pods": 1}, want: []string{"other", "entitled"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			node := gpuNode("n", 8)
			node.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
			s.ledger.SetNode(node)
			s.ledger.SetQueue(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.QueueSpec{OverQuotaWeight: new(int32)}})
			for i := range 7 {
				s.runs(fmt.Sprintf("running-%d", i), "a")
			}
			s.Enter(Waiter{Key: podNamed("entitled"), Queue: "a", Since: at(-1), Request: Request{"gpu": 1, "pods": 1}}, s.now)
			s.Enter(Waiter{Key: podNamed("other"), Queue: "b", Since: at(-9), Request: tt.asks}, s.now)
			var got []string
			for range 2 {
				s.now = s.now.Add(2 * time.Second)
				got = append(got, namesOf(s.Admit(ledgerShares{s.ledger.Snapshot([]string{"fpga", "gpu", "pods"}), nil, s.hopeless}, s.now))...)
			}
			s.want("in turns", got, tt.want...)
		})
	}
}

// TestTurnsOfACrowd checks the turns of 10,000 gangs of one queue. The only gang of the other queue
// goes first, although it is the youngest. Then the gangs must follow in order.
func TestTurnsOfACrowd(t *testing.T) {
	t.Parallel()
	const count = 10_000
	s, lone := crowd(t, count)
	s.runs("a-runs", "a")
	if got := s.Admit(s.shares(), s.now); len(got) != 1 || got[0] != lone {
		t.Fatalf("%v go first, want %v", got, lone)
	}
	s.Decided(lone)
	// Drop every third gang before its turn. The other gangs keep their order.
	for i := 0; i < count; i += 3 {
		s.Forget(gangNamed(fmt.Sprintf("a%05d", i)))
	}
	var last *waiter
	seen := 0
	for s.AnyQueued() {
		got := s.Admit(s.shares(), s.now)
		w := s.turns.admitted[got[0]]
		if len(got) != 1 || last != nil && order(last, w) >= 0 {
			t.Fatalf("%v go after %v", got, last.Key)
		}
		last = w
		seen++
		s.TurnFailed(w.Key)
	}
	if want := count - (count+2)/3; seen != want || len(s.turns.lines) != 0 || len(s.turns.backingOff) != want {
		t.Errorf("%d have had their turn, want %d; %d lines and %d that back off are left", seen, want, len(s.turns.lines), len(s.turns.backingOff))
	}
}

// BenchmarkTurn measures the admission of one workload while up to 10,000 gangs wait.
func BenchmarkTurn(b *testing.B) {
	for _, count := range []int{10, 10_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			s, _ := crowd(b, count)
			shares := s.shares()
			for b.Loop() {
				key := s.Admit(shares, s.now)[0]
				w := s.turns.admitted[key].Waiter
				s.TurnFailed(key)
				s.Enter(w, s.now)
			}
		})
	}
}

// gpuNode returns a node with GPUs only.
func gpuNode(name string, gpus int64) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{"gpu": *resource.NewQuantity(gpus, resource.DecimalSI)},
	}}
}

// TestEased checks that a workload whose turn failed is retried when the fair share of its
// queue has grown.
func TestEased(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for i := range 3 {
		s.ledger.Charge(podOf(fmt.Sprintf("a-more-%d", i), 8), "a")
	}
	wait := func(name, queueName string, gpus int64) {
		s.Enter(Waiter{Key: podNamed(name), Queue: queueName, Request: Request{"gpu": gpus}}, s.now)
	}
	// Each queue has a fair share of 4 of the 8 GPUs.
	wait("fits", "a", 6)
	wait("wide", "a", 9)
	wait("other", "b", 6)
	for range 3 {
		s.TurnFailed(s.Admit(s.shares(), s.now)[0])
	}
	steps := []struct {
		when string
		do   func()
		want []string
	}{
		{when: "nothing has changed"},
		{when: "the other queue wants nothing any more", do: func() { s.ledger.Forget("b") }, want: []string{"fits"}},
		{when: "nothing has changed since"},
		{
			when: "the cluster has grown, and one waits already",
			do: func() {
				wait("fits", "a", 6)
				s.ledger.SetNode(gpuNode("m", 8))
			},
			want: []string{"wide"},
		},
	}
	for _, step := range steps {
		if step.do != nil {
			step.do()
		}
		s.want(step.when, namesOf(s.RetryForShares(s.shares())), step.want...)
	}
}

// TestEasedWithoutATurn checks a workload that was admitted without a turn and then found no room.
// The workload must be retried when shares change, and only then.
func TestEasedWithoutATurn(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.ledger.Charge(podOf("a-more", 8), "a")
	w := Waiter{Key: podNamed("short"), Queue: "a", Request: Request{"gpu": 6}}
	eased := func() []string { return namesOf(s.RetryForShares(s.shares())) }
	try := func() {
		s.AdmitDirectly(w, s.now)
		if s.TurnOf(w.Key, "a") != Admitted {
			t.Error("it waits for a turn")
		}
		s.TurnFailed(w.Key)
	}
	try()
	eased()
	try()
	s.want("nothing has changed", eased())
	s.ledger.Forget("b")
	s.want("the other queue wants nothing any more", eased(), "short")
	try()
	s.want("nothing has changed since", eased())
	s.AdmitDirectly(w, s.now)
	s.TurnEnds(w.Key)
	if n := s.Len(); n > 0 {
		t.Errorf("%d are remembered once it is whole", n)
	}
}

// TestManyAreEased checks that RetryForShares returns at most mostEased workloads of each queue
// at a time.
func TestManyAreEased(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for i := range mostEased + 10 {
		s.enter(fmt.Sprintf("a%02d", i), "a", 0, 0)
		s.TurnFailed(s.Admit(s.shares(), s.now)[0])
	}
	last := s.enter("last", "b", 0, 0)
	s.TurnFailed(s.Admit(s.shares(), s.now)[0])
	s.ledger.SetNode(gpuNode("m", 64))
	s.ledger.Charge(podOf("b-more", 60), "b")
	s.ledger.Charge(podOf("a-more", 60), "a")
	got := s.RetryForShares(s.shares())
	if len(got) != mostEased+1 || !slices.Contains(got, last) {
		t.Errorf("%d are woken first, %v, want %d with %v", len(got), got, mostEased+1, last)
	}
	for _, want := range []int{10, 0} {
		if got := s.RetryForShares(s.shares()); len(got) != want {
			t.Errorf("%d are woken at a time, want %d", len(got), want)
		}
	}
}

// TestTurnsThatFail checks that a workload that failed does not become the first of its queue
// at every retry. A change of the workload itself ends its back-off.
func TestTurnsThatFail(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	fails := func(want string) {
		t.Helper()
		s.want("next", s.turn(), want)
		s.TurnFailed(podNamed(want))
	}
	enter := func(names ...string) {
		for _, name := range names {
			s.enter(name, name[:1], 0, 0)
		}
	}
	enter("a-1", "a-2", "b-1")
	fails("a-1")
	fails("a-2")
	fails("b-1")
	// A pod ends, and all work is retried. The queue with the least usage is first.
	s.now = s.now.Add(firstRest)
	enter("a-1", "a-2", "b-1")
	fails("a-1")
	// Another pod ends. The first workload is the only one whose turn has just failed, so all other
	// workloads of both queues precede it.
	enter("a-1")
	fails("a-2")
	fails("b-1")
	// Without other work, a workload is admitted during its back-off.
	fails("a-1")
	enter("a-1", "b-1")
	s.now = s.now.Add(firstRest)
	fails("a-1")
	enter("a-1")
	s.now = s.now.Add(2 * longestRest)
	fails("a-1")
	enter("a-1")
	fails("b-1")
	enter("b-1")
	s.EndBackoff(podNamed("a-1"))
	fails("a-1")
}

// arrival is the arrival of a workload.
type arrival struct {
	millis int
	// wantLull is true if it is too early for turns right after the arrival. wantEnds is the
	// end of that wait in milliseconds since the start.
	wantLull bool
	wantEnds int
}

// manyArrivals returns an arrival every 9 ms, for 200 ms.
func manyArrivals() (all []arrival) {
	for at := 0; at < 200; at += 9 {
		all = append(all, arrival{at, true, min(at+10, 200)})
	}
	return all
}

// TestLull checks that workloads retried by one event are ordered together, and that no
// workload waits longer than longestLull for it.
func TestLull(t *testing.T) {
	t.Parallel()
	cases := map[string][]arrival{
		"one":                     {{0, true, 10}},
		"some in a row":           {{0, true, 10}, {5, true, 15}, {12, true, 22}},
		"after the lull":          {{0, true, 10}, {30, false, 0}},
		"many, for not too long":  append(manyArrivals(), arrival{201, false, 0}),
		"one after an idle while": {{0, true, 10}, {400, false, 0}},
	}
	for name, arrivals := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, start := newScene(t), at(0)
			for i, a := range arrivals {
				s.now = start.Add(time.Duration(a.millis) * time.Millisecond)
				lulls := s.IsGathering(s.now)
				if i == 0 || lulls {
					s.enter(fmt.Sprint("a", i), "a", 0, 0)
					lulls = s.IsGathering(s.now)
				}
				ends := s.GatheringEnds(s.now)
				ok := !ends.IsZero()
				if lulls != a.wantLull || ok != a.wantLull || ok && !ends.Equal(start.Add(time.Duration(a.wantEnds)*time.Millisecond)) {
					t.Errorf("at %d ms: lull %v until %v, want %v until %d ms", a.millis, lulls, ends.Sub(start), a.wantLull, a.wantEnds)
				}
			}
			s.turn()
			if s.enter("late", "a", 0, 0); s.IsGathering(s.now) {
				t.Error("one that comes while there are turns waits for others")
			}
		})
	}
}

// TestUntold checks that workloads that wait for their first turn are returned once each, at
// most mostTold per call.
func TestUntold(t *testing.T) {
	t.Parallel()
	s, lone := crowd(t, 2*mostTold+5)
	s.turns.held[lone].failures = 1
	if early, _ := s.Unreported(s.now.Add(untoldTime - 1)); len(early) > 0 {
		t.Errorf("%d are told early", len(early))
	}
	seen := make(map[workload.Key]int)
	var waiting map[string]int
	for _, want := range []int{mostTold, mostTold, 5, 0} {
		var picked []Waiter
		if picked, waiting = s.Unreported(s.now.Add(untoldTime)); len(picked) != want {
			t.Errorf("%d are told, want %d", len(picked), want)
		}
		for _, w := range picked {
			seen[w.Key]++
		}
	}
	if seen[lone] > 0 || len(seen) != 2*mostTold+5 {
		t.Errorf("%d have been told, the one that had its turn %d times", len(seen), seen[lone])
	}
	if waiting["a"] != 2*mostTold+5 || waiting["b"] != 1 {
		t.Errorf("waiting are %v", waiting)
	}
}
