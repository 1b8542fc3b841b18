package engine

import (
	"sync"
	"time"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Engine has one record for each workload, a pod or a group, and one for each pod in an attempt.
// Make one with [New].
//
// A workload is present from [PodArrives] or [GroupArrives] until [PodLeaves], [PodBinds] or
// [GroupLeaves]. The Engine keeps facts only about workloads that are present. A method that is
// called for another workload changes no record. So an extension point may report about a pod that
// was deleted a moment ago, and no later event has to delete the fact.
type Engine struct {
	// Pods has the attempts of pods.
	Pods *Pods
	// Gangs has the placements, runs and reports of groups.
	Gangs *Gangs
	// Waits has the reasons why workloads wait.
	Waits *Waits
	// Unbound has the preemptions that did not end in a binding.
	Unbound *Unbound
	// Crashes has the crashes after preemptions.
	Crashes *Crashes
	// Reservations has the room that is set aside for pods.
	Reservations *Reservations
	// Turns has the queued workloads, in the order of their turns.
	Turns *admission.List

	store  *store
	wanted chan struct{}
}

// New returns an Engine without records. The Engine calls verdictChanged with each group whose
// verdict changes, and holds no lock during the call. verdictChanged must not block, and may be
// nil.
func New(verdictChanged func(workload.Key)) *Engine {
	if verdictChanged == nil {
		verdictChanged = func(workload.Key) {}
	}
	s := &store{records: make(map[workload.Key]*record), pods: make(map[UID]arrival)}
	e := &Engine{store: s, wanted: make(chan struct{}, 1)}
	e.Pods = &Pods{store: s, records: make(map[UID]*pod)}
	e.Gangs = newGangs(s, verdictChanged)
	e.Waits = newWaits(s, e.Look)
	e.Unbound = &Unbound{store: s}
	e.Reservations = newReservations(s)
	e.Crashes = newCrashes(s)
	e.Turns = admission.NewList(e.Look, s.isPresent)
	return e
}

// Wanted returns a channel that has a token if the main loop may have work before the time that
// [Engine.NextLook] returned.
func (e *Engine) Wanted() <-chan struct{} { return e.wanted }

// Look puts a token into the channel of [Engine.Wanted]. The main loop then looks for work.
func (e *Engine) Look() {
	select {
	case e.wanted <- struct{}{}:
	default:
	}
}

// NextLook returns the next time when the main loop has work without a further event. That is a
// deadline, or the time when pods have stopped arriving for a while. NextLook returns false if
// there is no such time.
func (e *Engine) NextLook(now time.Time) (time.Time, bool) {
	next := e.Turns.GatheringEnds(now)
	if at, ok := e.Waits.nextDeadline(); ok && (next.IsZero() || at.Before(next)) {
		next = at
	}
	return next, !next.IsZero()
}

// IsPresent reports whether a workload is present.
func (e *Engine) IsPresent(key workload.Key) bool { return e.store.isPresent(key) }

// Len counts the workloads and pods with facts, for tests that look for leaks. Workloads that are
// only present do not count.
func (e *Engine) Len() int {
	return e.Pods.Len() + e.Gangs.Len() + e.Waits.Len() + e.Unbound.Len() + e.Crashes.Len() + e.Turns.Len() + e.Reservations.Len()
}

// store has the records of workloads, under one lock. The parts of the Engine share it.
type store struct {
	mu      sync.Mutex
	records map[workload.Key]*record
	// pods maps the pods that are present to their keys and groups.
	pods map[UID]arrival
}

// arrival is a pod that is present. group is the zero Key for a pod without a group.
type arrival struct{ key, group workload.Key }

type record struct {
	present bool
	// pending is the number of present members of a group.
	pending int
	// gang has the facts about a group; nil for none.
	gang *gang
	// waits has the reasons why the workload waits; nil for none.
	waits *entry
	// unbound has the preemptions without a binding; nil for none.
	unbound *unbound
}

// arrives records that a pod is present, with its group. The caller holds the lock.
func (s *store) arrives(pod UID, key, group workload.Key) {
	before, known := s.pods[pod]
	if known && before.group == group {
		return
	}
	if known {
		s.count(before.group, -1)
	}
	s.pods[pod] = arrival{key: key, group: group}
	s.of(key).present = true
	s.count(group, 1)
}

// regroups records the group of a pod. The pod may be present or not. The caller holds the lock.
func (s *store) regroups(pod UID, group workload.Key) {
	if arrived, ok := s.pods[pod]; ok && arrived.group != group {
		s.count(arrived.group, -1)
		s.count(group, 1)
		s.pods[pod] = arrival{key: arrived.key, group: group}
	}
	if group != (workload.Key{}) {
		s.of(group).present = true
	}
}

// of returns the record of a workload, and creates the record if there is none. The caller holds
// the lock.
func (s *store) of(key workload.Key) *record {
	r := s.records[key]
	if r == nil {
		r = &record{}
		s.records[key] = r
	}
	return r
}

// count adds to the number of a group's present members. For the zero Key, it does nothing. The
// caller holds the lock.
func (s *store) count(group workload.Key, members int) {
	if group == (workload.Key{}) {
		return
	}
	r := s.of(group)
	r.pending += members
	r.present = r.present || r.pending > 0
	s.tidy(group)
}

// isGone records that a workload is no longer present. The caller holds the lock.
func (s *store) isGone(key workload.Key) {
	if r := s.records[key]; r != nil {
		r.present = false
		s.tidy(key)
	}
}

// tidy deletes the record of a workload if the record has no facts. The caller holds the lock.
func (s *store) tidy(key workload.Key) {
	if r := s.records[key]; r != nil && *r == (record{}) {
		delete(s.records, key)
	}
}

// waitsForVictims reports whether a workload waits for any pod to terminate. The record may be nil.
func (r *record) waitsForVictims() bool { return r != nil && r.waits != nil && r.waits.victims != nil }

func (s *store) isPresent(key workload.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.records[key]
	return r != nil && r.present
}
