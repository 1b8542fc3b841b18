package engine

import (
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// transition collects the consequences of one event.
type transition struct {
	effects []Effect
	// retried has the workloads whose back-off ends: they may have a turn again at once. left has
	// the workloads that no longer need a turn. placed has the workloads that now have their place.
	retried, left, placed []workload.Key
}

// Step applies an event to the records, and returns the effects. This function is the table of
// transitions: each case names everything that begins or ends with its event. now is the time of
// the event. Any goroutine may call Step, even under a lock of the framework, because Step calls no
// function of the caller.
//
//nolint:cyclop,funlen // The table is read as a whole.
func (e *Engine) Step(now time.Time, ev Event) []Effect {
	var t transition
	e.store.mu.Lock()
	switch ev := ev.(type) {
	case PodArrives:
		e.store.arrives(ev.Pod, ev.Key, ev.Group)
	case PodRegroups:
		e.store.regroups(ev.Pod, ev.Group)
	case PodRejoins:
		e.end(&t, e.Reservations.release([]UID{ev.Pod}, ofAny))
		e.Waits.dropEntry(ev.Key)
		t.left = append(t.left, ev.Key)
	case PodAssumes:
		e.Pods.assumes(ev.Pod, ev.Key, ev.Node)
		e.use(&t, ev.Pod, ev.Node)
	case PodBinds:
		e.leaves(&t, ev.Pod, ev.Key)
		e.Unbound.ends(ev.Key)
		e.use(&t, ev.Pod, ev.Node)
	case PodLeaves:
		e.leaves(&t, ev.Pod, ev.Key)
		e.Unbound.leaves(ev.Key, ev.Controller, now)
		e.Crashes.leaves(ev.Key, ev.Controller, now)
		e.end(&t, e.Reservations.release([]UID{ev.Pod}, ofAny))
	case GroupArrives:
		e.store.of(ev.Group).present = true
	case GroupLeaves:
		e.groupLeaves(&t, ev.Group, now)
	case WorkloadPlaced:
		e.Waits.dropEntry(ev.Key)
		t.placed = append(t.placed, ev.Key)
	case Reserves:
		e.reserve(&t, ev.Key, ev.Rooms)
	case Releases:
		e.reserve(&t, ev.Key, nil)
		e.Waits.resolveVictims(ev.Key)
	case PlanReleased:
		e.end(&t, e.Reservations.release(e.Gangs.release(ev.Group, ev.Failed), ofAny))
	case PodsRelease:
		e.end(&t, e.Reservations.release(ev.Pods, func(of workload.Key) bool { return of == ev.Key }))
	case RoomLost:
		if e.Reservations.of(ev.Room.UID) == ev.Room {
			e.reserve(&t, e.Reservations.keyOf[ev.Room.UID], nil)
		}
	case RoomFreed:
		e.freed(&t, ev.Rooms)
	case CauseEnds:
		t.retryNow(e.Waits.end(ev.Cause))
	case VictimGone:
		t.retryNow(e.Waits.gone(ev.Pod))
	case VictimStays:
		t.retryNow(e.Waits.stays(ev.Pod))
	case TimePasses:
		e.timePasses(&t, now)
	}
	e.store.mu.Unlock()
	e.passTurns(&t)
	return t.effects
}

// passTurns applies the consequences of an event to the order of turns. The order has its own lock.
func (e *Engine) passTurns(t *transition) {
	for _, key := range t.placed {
		e.Turns.Placed(key)
	}
	for _, key := range t.left {
		e.Turns.Forget(key)
	}
	for _, key := range t.retried {
		e.Turns.EndBackoff(key)
	}
}

func ofAny(workload.Key) bool { return true }

// retryNow retries workloads, and ends their back-off, because a change concerns them.
func (t *transition) retryNow(keys []workload.Key) {
	t.retried = append(t.retried, keys...)
	t.requeue(keys)
}

// requeue retries workloads. It does not end the back-off of a workload whose turn failed.
func (t *transition) requeue(keys []workload.Key) {
	for _, key := range keys {
		t.effects = append(t.effects, Retry{key})
	}
}

// leaves drops the record of a pod, with its attempt and its waits.
func (e *Engine) leaves(t *transition, pod UID, key workload.Key) {
	if arrived, ok := e.store.pods[pod]; ok {
		delete(e.store.pods, pod)
		e.store.count(arrived.group, -1)
	}
	e.Pods.leaves(pod)
	e.Waits.dropEntry(key)
	e.store.isGone(key)
	t.left = append(t.left, key)
}

// groupLeaves drops all facts about the members of a group.
func (e *Engine) groupLeaves(t *transition, group workload.Key, now time.Time) {
	if r := e.store.records[group]; r == nil || r.pending > 0 {
		return
	}
	e.Gangs.leaves(group)
	e.Waits.dropEntry(group)
	e.Unbound.leaves(group, "", now)
	e.Crashes.leaves(group, "", now)
	e.store.isGone(group)
	e.reserve(t, group, nil)
	t.left = append(t.left, group)
}

// reserve replaces the reservations of a workload.
func (e *Engine) reserve(t *transition, key workload.Key, rooms []*Reservation) {
	ended, changed := e.Reservations.replace(key, rooms)
	e.end(t, ended)
	if changed && len(ended) == 0 {
		t.requeue(e.Waits.end(Reserved))
	}
}

// use ends the reservation of a pod that has its place. If the reservation was on another node, use
// retries the workloads that wait for reserved room.
func (e *Engine) use(t *transition, pod UID, node string) {
	if e.Reservations.use(pod, node) {
		t.requeue(e.Waits.end(Reserved))
	}
}

// end requests that the caller clears the nominations of reservations that ended unused.
// [RoomFreed] follows.
func (e *Engine) end(t *transition, rooms []*Reservation) {
	if len(rooms) > 0 {
		t.effects = append(t.effects, Withdraw{rooms})
	}
}

// freed retries the workloads that found no room because of reservations that have ended. The
// back-off of workloads whose last turn failed continues. Reservations end often, and each time
// these workloads would delay other work.
func (e *Engine) freed(t *transition, rooms []*Reservation) {
	t.requeue(e.Waits.end(Reserved))
	if queues := queuesOf(rooms); len(queues) > 0 {
		t.effects = append(t.effects, UsageDrops{queues})
	}
}

// timePasses ends the waits whose deadline has passed. For the causes Pause and Going, it retries
// the workload without ending its back-off.
func (e *Engine) timePasses(t *transition, now time.Time) {
	for _, due := range e.Waits.due(now) {
		switch due.cause {
		case Pause, Going:
			t.requeue([]workload.Key{due.key})
		case Departure:
			t.effects = append(t.effects, Overdue{due.key})
		default:
			t.effects = append(t.effects, Review{due.key})
		}
	}
}

// queuesOf returns the queues of some reservations, each once.
func queuesOf(rooms []*Reservation) (queues []string) {
	for _, r := range rooms {
		if r.Queue != "" && !slices.Contains(queues, r.Queue) {
			queues = append(queues, r.Queue)
		}
	}
	return queues
}
