package reservation

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// world is a Scheduler that records the calls.
type world struct {
	mu sync.Mutex
	// left holds the pods that no longer wait for a place.
	left sets.Set[types.UID]
	// shown holds the pods that are nominated.
	shown sets.Set[types.UID]
	freed int
}

func newWorld() *world { return &world{left: sets.New[types.UID](), shown: sets.New[types.UID]()} }

func (w *world) Awaits(pod *corev1.Pod) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.left.Has(pod.UID)
}

func (w *world) Withdraw(pods []*corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, pod := range pods {
		w.shown.Delete(pod.UID)
	}
}

func (w *world) Freed([]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.freed++
}

// show nominates the pods of reservations, as a plan does.
func (w *world) show(reserved []*Reservation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range reserved {
		w.shown.Insert(r.UID)
	}
}

func reservationOf(t interface{ Fatal(...any) }, uid types.UID, node string, priority int32) *Reservation {
	pi, err := framework.NewPodInfo(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: string(uid), UID: uid}})
	if err != nil {
		t.Fatal(err)
	}
	return &Reservation{Pod: pi, UID: uid, Node: node, Standing: workload.Standing{Priority: priority}}
}

// TestBook compares a Book with a simple model over random operations. Only pods with a reservation
// or an assumed node are nominated, and every release of room is reported.
func TestBook(t *testing.T) {
	t.Parallel()
	keys := []workload.Key{{Gang: true, Name: "x"}, {Name: "x"}, {Gang: true, Name: "y"}}
	uids := []types.UID{"a", "b", "c", "d"}
	nodes := []string{"n0", "n1", "n2"}
	type kept struct {
		key  workload.Key
		node string
	}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		b := New(w)
		model, used := map[types.UID]kept{}, sets.New[types.UID]()
		freed := func(t *rapid.T, before int, want bool) {
			t.Helper()
			if got := w.freed > before; got != want {
				t.Fatalf("told of room: %v, want %v", got, want)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"keep": func(t *rapid.T) {
				key := rapid.SampledFrom(keys).Draw(t, "key")
				next := map[types.UID]string{}
				var reserved []*Reservation
				for _, uid := range rapid.SliceOfDistinct(rapid.SampledFrom(uids), rapid.ID).Draw(t, "pods") {
					next[uid] = rapid.SampledFrom(nodes).Draw(t, "node")
					reserved = append(reserved, reservationOf(t, uid, next[uid], 0))
				}
				want, before := false, w.freed
				for uid, k := range model {
					if k.key == key {
						want = want || next[uid] != k.node
						delete(model, uid)
					}
				}
				w.show(reserved)
				for uid, n := range next {
					used.Delete(uid)
					was, other := model[uid]
					want = want || other && was.node != n
					if w.left.Has(uid) {
						want = true
						delete(model, uid)
						continue
					}
					model[uid] = kept{key, n}
				}
				b.Keep(key, reserved)
				freed(t, before, want)
			},
			"use": func(t *rapid.T) {
				uid, before := rapid.SampledFrom(uids).Draw(t, "pod"), w.freed
				node, was := rapid.SampledFrom(nodes).Draw(t, "node"), model[uid]
				if was.node != "" {
					used.Insert(uid)
				}
				b.Use(uid, node)
				delete(model, uid)
				freed(t, before, was.node != "" && was.node != node)
			},
			"leave": func(t *rapid.T) {
				uid, before := rapid.SampledFrom(uids).Draw(t, "pod"), w.freed
				w.left.Insert(uid)
				_, want := model[uid]
				b.ReleasePod(uid)
				delete(model, uid)
				freed(t, before, want)
			},
			"release": func(t *rapid.T) {
				key, before := rapid.SampledFrom(keys).Draw(t, "key"), w.freed
				count := len(model)
				maps.DeleteFunc(model, func(_ types.UID, k kept) bool { return k.key == key })
				b.Release(key)
				freed(t, before, len(model) < count)
			},
			"": func(t *rapid.T) {
				if b.Empty() != (len(model) == 0) {
					t.Fatalf("empty %v, want %v", b.Empty(), model)
				}
				count := 0
				for node, reserved := range b.Nodes() {
					for _, r := range reserved {
						count++
						if model[r.UID].node != node || r.Node != node {
							t.Fatalf("%s is reserved on %s, want %v", r.UID, node, model)
						}
					}
				}
				if count != len(model) || count != b.Len() {
					t.Fatalf("%d reservations, want %v", count, model)
				}
				for _, uid := range uids {
					if _, want := model[uid]; b.Has(uid) != want {
						t.Fatalf("%s has a reservation: %v, want %v", uid, b.Has(uid), want)
					}
				}
				if want := sets.KeySet(model).Union(used); !want.IsSuperset(w.shown) {
					t.Fatalf("nominated are %v, and room is kept for %v", w.shown.UnsortedList(), want.UnsortedList())
				}
			},
		})
	})
}

func TestYielding(t *testing.T) {
	t.Parallel()
	b := New(newWorld())
	low, high := workload.Key{Name: "low"}, workload.Key{Name: "high"}
	b.Keep(low, []*Reservation{reservationOf(t, "l", "n", 1)})
	b.Keep(high, []*Reservation{reservationOf(t, "h", "n", 9)})
	for priority, want := range map[int32][]workload.Key{1: nil, 5: {low}, 10: {high, low}} {
		if got := b.Yielding(sets.New("n", "other"), workload.Standing{Priority: priority}); !slices.Equal(got, want) {
			t.Errorf("%v yield to priority %d, want %v", got, priority, want)
		}
	}
}

func TestBelow(t *testing.T) {
	t.Parallel()
	b := New(newWorld())
	of := func(queue string, uid types.UID, priority int32) []*Reservation {
		r := reservationOf(t, uid, "n", priority)
		r.Queue = queue
		return []*Reservation{r}
	}
	low, high, other := workload.Key{Name: "low"}, workload.Key{Name: "high"}, workload.Key{Name: "other"}
	b.Keep(low, of("a", "l", 1))
	b.Keep(high, of("a", "h", 9))
	b.Keep(other, of("b", "o", 1))
	for priority, want := range map[int32][]workload.Key{1: nil, 5: {low}, 10: {high, low}} {
		if got := b.Below(workload.Standing{Priority: priority, Queue: "a"}); !slices.Equal(got, want) {
			t.Errorf("%v stand below priority %d, want %v", got, priority, want)
		}
	}
}

// TestOldest checks that a reservation ages until it is used, even if it moves to another node. The
// age restarts after a release and while the workload waits for victims.
func TestOldest(t *testing.T) {
	t.Parallel()
	x, y := workload.Key{Name: "x"}, workload.Key{Name: "y"}
	none, waits := sets.New[workload.Key](), sets.New(x)
	start := time.Unix(1e9, 0)
	for name, c := range map[string]struct {
		then    func(b *Book)
		waiting sets.Set[workload.Key]
		// want is the age after an hour, and later the age after two.
		want, later time.Duration
	}{
		"nothing happens":          {want: time.Hour, later: 2 * time.Hour},
		"it moves to another node": {then: func(b *Book) { b.Keep(x, []*Reservation{reservationOf(t, "a", "other", 0)}) }, want: time.Hour, later: 2 * time.Hour},
		"it waits for victims":     {waiting: waits, later: time.Hour},
		"it is taken up":           {then: func(b *Book) { b.Use("a", "n") }},
		"it is given up":           {then: func(b *Book) { b.Release(x) }},
		"there is a younger one": {
			then: func(b *Book) { b.Keep(y, []*Reservation{reservationOf(t, "b", "n", 0)}) }, want: time.Hour, later: 2 * time.Hour,
		},
		"a younger one is left": {
			then: func(b *Book) {
				b.Keep(y, []*Reservation{reservationOf(t, "b", "n", 0)})
				b.Use("a", "n")
			},
			later: time.Hour,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := New(newWorld())
			b.Keep(x, []*Reservation{reservationOf(t, "a", "n", 0)})
			if got := b.Oldest(start, none); got != 0 {
				t.Errorf("it begins at %v", got)
			}
			if c.then != nil {
				c.then(b)
			}
			if got := b.Oldest(start.Add(time.Hour), c.waiting); got != c.want {
				t.Errorf("after an hour, the oldest is %v old, want %v", got, c.want)
			}
			if got := b.Oldest(start.Add(2*time.Hour), none); got != c.later {
				t.Errorf("after two, it is %v old, want %v", got, c.later)
			}
		})
	}
	b := New(newWorld())
	b.Keep(x, []*Reservation{reservationOf(t, "a", "n", 0)})
	b.Oldest(start, none)
	b.Release(x)
	b.Oldest(start, none)
	b.Keep(x, []*Reservation{reservationOf(t, "a", "n", 0)})
	if got := b.Oldest(start.Add(time.Hour), none); got != 0 {
		t.Errorf("a promise that has just been made anew is %v old", got)
	}
}

func TestBookIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	b := New(newWorld())
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			key := workload.Key{Gang: true, Name: fmt.Sprint(i)}
			for j := range 50 {
				uid := types.UID(fmt.Sprint(i, "-", j))
				b.Keep(key, []*Reservation{reservationOf(t, uid, "n", 0)})
				for _, r := range b.On("n") {
					_ = r.Priority
				}
				b.Use(uid, "n")
			}
		})
	}
	all.Wait()
	if !b.Empty() || len(b.On("n")) != 0 {
		t.Errorf("%d reservations are left", len(b.On("n")))
	}
}

// TestReleaseFor checks that a judgement about a reservation that has moved since releases nothing.
func TestReleaseFor(t *testing.T) {
	t.Parallel()
	b, key := New(newWorld()), workload.Key{Gang: true, Name: "x"}
	judged, other := reservationOf(t, "a", "n0", 0), reservationOf(t, "b", "n1", 0)
	b.Keep(key, []*Reservation{judged, other})
	moved := reservationOf(t, "a", "n2", 0)
	b.Keep(key, []*Reservation{moved, other})
	if b.ReleaseFor(judged) || b.Len() != 2 {
		t.Errorf("%d reservations are left of a workload that was planned again, want 2", b.Len())
	}
	if !b.ReleaseFor(moved) || b.Len() != 0 {
		t.Errorf("%d reservations are left, want none", b.Len())
	}
	if b.ReleaseFor(moved) {
		t.Error("A reservation that has ended is released again")
	}
}
