package engine

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// roomFor returns a reservation on a node.
func roomFor(uid UID, node string, priority int32) *Reservation {
	return &Reservation{UID: uid, Node: node, Standing: workload.Standing{Priority: priority}}
}

// isWithdrawn reports whether any effect clears nominations.
func isWithdrawn(effects []Effect) bool {
	return slices.ContainsFunc(effects, func(effect Effect) bool { _, ok := effect.(Withdraw); return ok })
}

// modeled is a reservation in the model that TestReservations compares with.
type modeled struct {
	key  workload.Key
	node string
}

// reservationModel is an Engine and a simple model of its reservations.
type reservationModel struct {
	engine  *Engine
	present map[UID]bool
	rooms   map[UID]modeled
}

var (
	modelKeys  = []workload.Key{gangNamed("x"), podNamed("x"), gangNamed("y")}
	modelPods  = []UID{"a", "b", "c", "d"}
	modelNodes = []string{"n0", "n1", "n2"}
)

// TestReservations compares the reservations of an Engine with a simple model over random events.
// Only pods that are present have reservations. The nominations of all reservations that end unused
// are cleared.
func TestReservations(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &reservationModel{engine: New(nil), present: make(map[UID]bool), rooms: make(map[UID]modeled)}
		t.Repeat(map[string]func(*rapid.T){
			"arrive": func(t *rapid.T) {
				uid := rapid.SampledFrom(modelPods).Draw(t, "pod")
				m.present[uid] = true
				m.engine.Step(at(0), PodArrives{Pod: uid, Key: podNamed(uid)})
			},
			"reserve": m.reserve,
			"use": func(t *rapid.T) {
				uid := rapid.SampledFrom(modelPods).Draw(t, "pod")
				delete(m.rooms, uid)
				if isWithdrawn(m.engine.Step(at(0), PodAssumes{Pod: uid, Key: podNamed(uid), Node: rapid.SampledFrom(modelNodes).Draw(t, "node")})) {
					t.Fatal("The nomination of a pod with a node is cleared")
				}
			},
			"leave": func(t *rapid.T) {
				uid := rapid.SampledFrom(modelPods).Draw(t, "pod")
				m.ends(t, PodLeaves{Pod: uid, Key: podNamed(uid)}, func(of UID, _ modeled) bool { return of == uid })
				delete(m.present, uid)
			},
			"release": func(t *rapid.T) {
				key := rapid.SampledFrom(modelKeys).Draw(t, "key")
				m.ends(t, Releases{Key: key}, func(_ UID, room modeled) bool { return room.key == key })
			},
			"": m.check,
		})
	})
}

// reserve replaces the reservations of a random workload.
func (m *reservationModel) reserve(t *rapid.T) {
	key := rapid.SampledFrom(modelKeys).Draw(t, "key")
	before := len(m.rooms)
	maps.DeleteFunc(m.rooms, func(_ UID, room modeled) bool { return room.key == key })
	ended := before - len(m.rooms)
	var reserved []*Reservation
	for _, uid := range rapid.SliceOfDistinct(rapid.SampledFrom(modelPods), rapid.ID).Draw(t, "pods") {
		node := rapid.SampledFrom(modelNodes).Draw(t, "node")
		reserved = append(reserved, roomFor(uid, node, 0))
		if had, ok := m.engine.Reservations.KeyOf(uid); ok && had == key {
			ended--
		}
		if m.present[uid] {
			m.rooms[uid] = modeled{key, node}
		} else {
			ended++
		}
	}
	if got := isWithdrawn(m.engine.Step(at(0), Reserves{Key: key, Rooms: reserved})); got != (ended > 0) {
		t.Fatalf("nominations are cleared: %v, and %d reservations end unused", got, ended)
	}
}

// ends applies an event. The event must end a reservation if and only if the function selected
// returns true for it.
func (m *reservationModel) ends(t *rapid.T, ev Event, selected func(UID, modeled) bool) {
	before := len(m.rooms)
	maps.DeleteFunc(m.rooms, selected)
	if got := isWithdrawn(m.engine.Step(at(0), ev)); got != (len(m.rooms) < before) {
		t.Fatalf("nominations are cleared: %v, and %d reservations end unused", got, before-len(m.rooms))
	}
}

// check compares all reservations of the Engine with the model.
func (m *reservationModel) check(t *rapid.T) {
	rs := m.engine.Reservations
	if rs.Empty() != (len(m.rooms) == 0) {
		t.Fatalf("empty %v, want %v", rs.Empty(), m.rooms)
	}
	count := 0
	for node, reserved := range rs.Nodes() {
		for _, r := range reserved {
			count++
			if m.rooms[r.UID].node != node || r.Node != node {
				t.Fatalf("%s is reserved on %s, want %v", r.UID, node, m.rooms)
			}
		}
	}
	if count != len(m.rooms) || count != rs.Len() {
		t.Fatalf("%d reservations, want %v", count, m.rooms)
	}
	for _, uid := range modelPods {
		want, reserved := m.rooms[uid]
		if key, ok := rs.KeyOf(uid); ok != reserved || key != want.key || rs.Has(uid) != reserved || rs.NodeOf(uid) != want.node {
			t.Fatalf("%s has a reservation: %v, on %q for %v; want %v", uid, ok, rs.NodeOf(uid), key, want)
		}
	}
}

// TestDecisionBeforeTheRoomIsFree checks a decision that saw a nomination, which was cleared during
// the decision. The workload must not wait for reserved room after this decision.
func TestDecisionBeforeTheRoomIsFree(t *testing.T) {
	t.Parallel()
	e := New(nil)
	e.Step(at(0), PodArrives{Pod: "a", Key: podNamed("a")})
	e.Step(at(0), PodArrives{Pod: "b", Key: podNamed("b")})
	e.Step(at(0), Reserves{Key: podNamed("a"), Rooms: []*Reservation{roomFor("a", "n", 0)}})
	effects := e.Step(at(0), Releases{Key: podNamed("a")})
	seen := e.Waits.Mark()
	for _, effect := range effects {
		if w, ok := effect.(Withdraw); ok {
			e.Step(at(0), RoomFreed(w))
		}
	}
	if e.Waits.Wait(podNamed("b"), Reserved, seen) {
		t.Error("The workload waits for room that is free")
	}
}

// TestYielding checks that only reservations of a lower standing must yield to a preemptor.
func TestYielding(t *testing.T) {
	t.Parallel()
	e := newWorld()
	low, high := podNamed("low"), podNamed("high")
	e.Step(at(0), PodArrives{Pod: "l", Key: low})
	e.Step(at(0), PodArrives{Pod: "h", Key: high})
	e.Step(at(0), Reserves{Key: low, Rooms: []*Reservation{roomFor("l", "n", 1)}})
	e.Step(at(0), Reserves{Key: high, Rooms: []*Reservation{roomFor("h", "n", 9)}})
	for priority, want := range map[int32][]workload.Key{1: nil, 5: {low}, 10: {high, low}} {
		got := e.Reservations.Yielding(slices.Values([]string{"n", "other"}), workload.Standing{Priority: priority})
		if !slices.Equal(got, want) {
			t.Errorf("%v yield to priority %d, want %v", got, priority, want)
		}
	}
}

// TestBelow checks that Below returns only workloads in queues, and only workloads whose
// reservations must yield to the preemptor.
func TestBelow(t *testing.T) {
	t.Parallel()
	e := newWorld()
	reserve := func(queue, name string, priority int32) workload.Key {
		key, r := podNamed(name), roomFor(name, "n", priority)
		r.Queue = queue
		e.Step(at(0), PodArrives{Pod: name, Key: key})
		e.Step(at(0), Reserves{Key: key, Rooms: []*Reservation{r}})
		return key
	}
	low, high := reserve("a", "low", 1), reserve("a", "high", 9)
	reserve("b", "other", 1)
	reserve("", "unqueued", 1)
	for priority, want := range map[int32][]workload.Key{1: nil, 5: {low}, 10: {high, low}} {
		if got := e.Reservations.Below(workload.Standing{Priority: priority, Queue: "a"}); !slices.Equal(got, want) {
			t.Errorf("%v are below priority %d, want %v", got, priority, want)
		}
	}
}

// TestOldest checks that a reservation ages until it ends, even if it moves to another node. The
// age starts at zero again after a release, and after the workload has waited for victims.
func TestOldest(t *testing.T) {
	t.Parallel()
	x, y := podNamed("a"), podNamed("b")
	reserve := func(e *Engine, key workload.Key, uid UID, node string) {
		e.Step(at(0), PodArrives{Pod: uid, Key: key})
		e.Step(at(0), Reserves{Key: key, Rooms: []*Reservation{roomFor(uid, node, 0)}})
	}
	start := time.Unix(1e9, 0)
	for name, c := range map[string]struct {
		then func(e *Engine)
		// waits is true if the workload waits for victims during the first hour.
		waits bool
		// want is the age of the oldest reservation after one hour, and later is the age after two
		// hours.
		want, later time.Duration
	}{
		"nothing happens":          {want: time.Hour, later: 2 * time.Hour},
		"it moves to another node": {then: func(e *Engine) { reserve(e, x, "a", "other") }, want: time.Hour, later: 2 * time.Hour},
		"it waits for victims":     {waits: true, later: time.Hour},
		"it is used":               {then: func(e *Engine) { e.Step(at(0), PodAssumes{Pod: "a", Key: x, Node: "n"}) }},
		"it is released":           {then: func(e *Engine) { e.Step(at(0), Releases{Key: x}) }},
		"there is a younger one":   {then: func(e *Engine) { reserve(e, y, "b", "n") }, want: time.Hour, later: 2 * time.Hour},
		"a younger one is left": {
			then: func(e *Engine) {
				reserve(e, y, "b", "n")
				e.Step(at(0), PodAssumes{Pod: "a", Key: x, Node: "n"})
			},
			later: time.Hour,
		},
		"it is reserved again": {
			then: func(e *Engine) {
				e.Step(at(0), Releases{Key: x})
				e.Reservations.Oldest(start)
				reserve(e, x, "a", "n")
			},
			later: time.Hour,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := New(nil)
			reserve(e, x, "a", "n")
			if got := e.Reservations.Oldest(start); got != 0 {
				t.Errorf("the age begins at %v", got)
			}
			if c.then != nil {
				c.then(e)
			}
			if c.waits {
				e.Waits.WaitForVictims(x, []string{"v"}, nil)
			}
			if got := e.Reservations.Oldest(start.Add(time.Hour)); got != c.want {
				t.Errorf("after an hour, the oldest is %v old, want %v", got, c.want)
			}
			e.Waits.ResolveVictims(x)
			if got := e.Reservations.Oldest(start.Add(2 * time.Hour)); got != c.later {
				t.Errorf("after two hours, the oldest is %v old, want %v", got, c.later)
			}
		})
	}
}

// TestRoomLost checks that RoomLost releases nothing if the reservation was replaced after the
// caller checked it.
func TestRoomLost(t *testing.T) {
	t.Parallel()
	e, key := New(nil), gangNamed("g")
	for _, uid := range []UID{"a", "b"} {
		e.Step(at(0), PodArrives{Pod: uid, Key: podNamed(uid), Group: key})
	}
	checked, moved, other := roomFor("a", "n0", 0), roomFor("a", "n2", 0), roomFor("b", "n1", 0)
	e.Step(at(0), Reserves{Key: key, Rooms: []*Reservation{checked, other}})
	e.Step(at(0), Reserves{Key: key, Rooms: []*Reservation{moved, other}})
	if effects := e.Step(at(0), RoomLost{Room: checked}); len(effects) > 0 || e.Reservations.Len() != 2 {
		t.Errorf("%d reservations are left after %v, want 2", e.Reservations.Len(), effects)
	}
	if effects := e.Step(at(0), RoomLost{Room: moved}); len(effects) == 0 || e.Reservations.Len() != 0 {
		t.Errorf("%d reservations are left after %v, want none", e.Reservations.Len(), effects)
	}
	if effects := e.Step(at(0), RoomLost{Room: moved}); len(effects) > 0 {
		t.Errorf("The end of a reservation that has ended has the effects %v", effects)
	}
}

// TestReservedAgain checks the workloads that wait for reserved room. These workloads must be
// retried if another workload replaces its reservation and frees the room of the earlier one.
func TestReservedAgain(t *testing.T) {
	t.Parallel()
	inQueue := roomFor("a", "n", 5)
	inQueue.Queue = "q"
	for name, c := range map[string]struct {
		again *Reservation
		want  bool
	}{
		"the same":                {again: roomFor("a", "n", 5)},
		"on another node":         {again: roomFor("a", "m", 5), want: true},
		"with a lower priority":   {again: roomFor("a", "n", 3), want: true},
		"in another queue":        {again: inQueue, want: true},
		"as part of another gang": {again: roomFor("a", "n", 5)},
	} {
		e, waiting, holder := New(nil), podNamed("b"), gangNamed("g")
		for _, uid := range []UID{"a", "b"} {
			e.Step(at(0), PodArrives{Pod: uid, Key: podNamed(uid)})
		}
		e.Step(at(0), Reserves{Key: holder, Rooms: []*Reservation{roomFor("a", "n", 5)}})
		e.Waits.Wait(waiting, Reserved, e.Waits.Mark())
		if name == "as part of another gang" {
			holder = gangNamed("h")
		}
		effects := e.Step(at(0), Reserves{Key: holder, Rooms: []*Reservation{c.again}})
		if retried := slices.Contains(effects, Effect(Retry{waiting})); retried != c.want || len(effects) > 1 {
			t.Errorf("%s: the effects are %v, want a retry: %v", name, effects, c.want)
		}
	}
}

// TestReservationsOfManyGoroutines reads the reservations of a node in some goroutines while other
// goroutines change them.
func TestReservationsOfManyGoroutines(t *testing.T) {
	t.Parallel()
	e := New(nil)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 50 {
				uid := fmt.Sprint(i, "-", j)
				e.Step(at(0), PodArrives{Pod: uid, Key: podNamed(uid)})
				e.Step(at(0), Reserves{Key: gangNamed(fmt.Sprint(i)), Rooms: []*Reservation{roomFor(uid, "n", 0)}})
				for _, r := range e.Reservations.On("n") {
					_ = r.Priority
				}
				e.Step(at(0), PodAssumes{Pod: uid, Key: podNamed(uid), Node: "n"})
			}
		})
	}
	all.Wait()
	if left := e.Reservations.On("n"); !e.Reservations.Empty() || len(left) != 0 {
		t.Errorf("%d reservations are left", len(left))
	}
}
