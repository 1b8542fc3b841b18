package engine

import (
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Unbound records, by workload, the preemptions that did not end in a binding. Victims were
// evicted, and a step after the decision (Reserve, Permit, PreBind, Bind) failed. Such a workload
// backs off from preempting, exponentially, because the next preemption would probably end the same
// way. It may still be placed where it fits without victims.
//
// A record ends when the workload is bound, or is gone. The record of a pod that is gone passes to
// the next pod of the same controller, which would otherwise preempt again under a new UID. The
// record of a gang lasts as long as its PodGroup, regardless of its members.
//
// Unbound is a part of an [Engine]. It has no clock: callers pass the time.
type Unbound struct {
	*store
	// heirless has the records of deleted pods, by their controller.
	heirless map[string][]*unbound
}

// unbound is the record of one workload.
type unbound struct {
	// made is the number of preemptions for the workload since its last failure.
	made int
	// preemptions is the number of preemptions that ended without a binding. failures is the number
	// of failed steps that followed at least one preemption.
	preemptions, failures int
	// lifts is the number of pauses that a change of the workload ended early.
	lifts   int
	backing Backing
	// failed is the time of the last failure. until is the end of the pause that this failure
	// began.
	failed, until time.Time
	last          Failure
	// of identifies the state of the workload at the failure; see [Unbound.Changed].
	of string
}

// Failure is a step after the decision that failed.
type Failure struct {
	// Stage names the step and its plugin, as in "PreBind plugin VolumeBinding".
	Stage string
	// Message is the error.
	Message string
}

// PreemptionPause is a time without preemptions for a workload.
type PreemptionPause struct {
	Until time.Time
	// Preemptions counts the preemptions in a row that did not end in a binding, or before crashes.
	Preemptions int
	// Crashes counts the crashes in a row after preemptions; 0 if the workload could not be bound.
	Crashes int
	// Last is the failure that began the pause.
	Last Failure
}

// Preempts records that a preemption begins for a workload.
func (u *Unbound) Preempts(key workload.Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	of := u.records[key]
	if of == nil || !of.present {
		return
	}
	if of.unbound == nil {
		of.unbound = &unbound{}
	}
	of.unbound.made++
}

// Cancels records that a preemption ended before any victim was evicted.
func (u *Unbound) Cancels(key workload.Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if r := u.record(key); r != nil && r.made > 0 {
		r.made--
		u.tidy(key, r)
	}
}

// Fails records that a step after the decision failed. It returns the number of preemptions that
// have not led to a binding so far. Each failure starts a new pause. The pause doubles only if a
// preemption came before the failure. For a workload without preemptions, Fails records nothing.
func (u *Unbound) Fails(key workload.Key, f Failure, of string, b Backing, now time.Time) (unbound int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	r := u.record(key)
	if r == nil {
		return 0
	}
	if unbound = r.made; unbound > 0 {
		r.made, r.preemptions, r.failures = 0, r.preemptions+unbound, r.failures+1
	}
	r.backing, r.failed, r.last, r.of = b, now, f, of
	r.until = now.Add(b.after(r.failures))
	return unbound
}

// Pause returns the pause of a workload; false if it may preempt.
func (u *Unbound) Pause(key workload.Key, now time.Time) (PreemptionPause, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	r := u.record(key)
	if r == nil || !r.until.After(now) {
		return PreemptionPause{}, false
	}
	return PreemptionPause{Until: r.until, Preemptions: r.preemptions, Last: r.last}, true
}

// Changed records that the owner of a workload has changed it, so the cause of the failure may be
// gone. It reports whether the pause becomes shorter. The first change ends the pause at once. Each
// later change, until the workload is bound, ends the pause after a delay that doubles. Otherwise a
// controller that changes the workload all the time would end every pause.
//
// of identifies the state of the workload. A state that has failed already does not count as a
// change. of is "" if the caller knows that there is a change.
func (u *Unbound) Changed(key workload.Key, of string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	r := u.record(key)
	return r != nil && r.changed(of, now)
}

// changed is [Unbound.Changed] for one record.
func (r *unbound) changed(of string, now time.Time) bool {
	if r.failures == 0 || of != "" && of == r.of || !r.until.After(now) {
		return false
	}
	if of != "" {
		r.of = of
	}
	end := r.failed.Add(r.backing.after(r.lifts))
	r.lifts++
	if !end.Before(r.until) {
		return false
	}
	r.until = end
	return true
}

// Has reports whether a workload has a record.
func (u *Unbound) Has(key workload.Key) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.record(key) != nil
}

// Ends drops the record of a workload: it is bound, or the PodGroup of a gang is gone.
func (u *Unbound) Ends(key workload.Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ends(key)
}

// ends is Ends for callers that hold the lock.
func (u *Unbound) ends(key workload.Key) {
	if of := u.records[key]; of != nil {
		of.unbound = nil
		u.store.tidy(key)
	}
}

// record returns the record of a workload's preemptions; nil for none. The caller holds the lock.
func (u *Unbound) record(key workload.Key) *unbound {
	if of := u.records[key]; of != nil {
		return of.unbound
	}
	return nil
}

// leaves records that the pods of a workload were deleted before they were bound. The record of a
// gang stays, for members that are created later. The record of a pod passes to the next pod of its
// controller; controller is "" for none. The caller holds the lock.
func (u *Unbound) leaves(key workload.Key, controller string, now time.Time) {
	r := u.record(key)
	if r == nil {
		return
	}
	r.made = 0
	u.tidy(key, r)
	if key.Gang {
		return
	}
	u.ends(key)
	u.expire(now)
	if r.failures == 0 || controller == "" {
		return
	}
	if u.heirless == nil {
		u.heirless = make(map[string][]*unbound)
	}
	u.heirless[controller] = append(u.heirless[controller], r)
}

// Inherits passes the record of a deleted pod to a pod of the same controller, unless the new pod
// has a failure itself. If the controller has several records, the pod inherits the one with the
// latest end of its pause.
func (u *Unbound) Inherits(key workload.Key, controller string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.heirless) == 0 || controller == "" {
		return
	}
	u.expire(now)
	left, own := u.heirless[controller], u.record(key)
	if of := u.records[key]; len(left) == 0 || of == nil || !of.present || own != nil && own.failures > 0 {
		return
	}
	latest := 0
	for i, r := range left {
		if r.until.After(left[latest].until) {
			latest = i
		}
	}
	r := left[latest]
	if own != nil {
		r.made = own.made
	}
	u.records[key].unbound = r
	u.heirless[controller] = slices.Delete(left, latest, latest+1)
	u.expire(now)
}

// expire drops the records of deleted pods that failed more than twice the longest pause ago. A
// replacement that comes later starts without a pause. The caller holds the lock.
func (u *Unbound) expire(now time.Time) {
	for controller, left := range u.heirless {
		left = slices.DeleteFunc(left, func(r *unbound) bool { return !r.failed.Add(2 * r.backing.Max).After(now) })
		if u.heirless[controller] = left; len(left) == 0 {
			delete(u.heirless, controller)
		}
	}
}

// tidy drops an empty record. The caller holds the lock.
func (u *Unbound) tidy(key workload.Key, r *unbound) {
	if r.made == 0 && r.failures == 0 {
		u.ends(key)
	}
}

// Len counts the records, for tests that look for leaks.
func (u *Unbound) Len() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := 0
	for _, r := range u.records {
		if r.unbound != nil {
			n++
		}
	}
	for _, left := range u.heirless {
		n += len(left)
	}
	return n
}
