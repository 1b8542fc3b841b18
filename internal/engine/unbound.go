package engine

import (
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Unbound records, by workload, the preemptions that did not end in a binding: victims were
// evicted, and then Reserve, Permit, PreBind or Bind failed. The scheduler backs off exponentially
// from preempting for such a workload, because the next preemption would probably end in the same
// way. It may still place the workload where the workload fits without victims.
//
// A record ends when the workload is bound. The record of a deleted pod passes to the next pod of
// the same controller. Otherwise that pod would preempt without a pause, because it has a new UID.
// The record of a gang ends with its PodGroup, regardless of its members.
//
// Unbound is a part of an [Engine]. It has no clock: callers pass the time.
type Unbound struct {
	*store
	// orphaned has the records of deleted pods.
	orphaned orphans[*unbound]
}

// unbound is the record of one workload.
type unbound struct {
	// made is the number of preemptions for the workload since its last failure.
	made int
	// preemptions is the number of preemptions that ended without a binding. failures is the number
	// of failed steps that came after at least one preemption.
	preemptions, failures int
	// lifts is the number of changes of the workload that shortened a pause.
	lifts   int
	backing Backing
	// failed is the time of the last failure, and until is the end of the pause that followed it.
	failed, until time.Time
	last          Failure
	// of identifies the state that the workload had at the failure; see [Unbound.Changed].
	of string
}

// Failure describes a step after the decision that failed, or a crash.
type Failure struct {
	// Stage names the step and its plugin, such as "PreBind plugin VolumeBinding".
	Stage string
	// Message is the error.
	Message string
}

// PreemptionPause is a time without preemptions for a workload. The scheduler may still place the
// workload.
type PreemptionPause struct {
	Until time.Time
	// Preemptions is the number of preemptions in a row that did not end in a binding, or were
	// followed by crashes.
	Preemptions int
	// Crashes is the number of crashes in a row after preemptions. It is 0 if the pause began
	// because the workload could not be bound.
	Crashes int
	// Last is the failure that began the pause.
	Last Failure
}

// Preempts records that a preemption begins for a workload. It has no effect if the workload is not
// present.
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

// Fails records that a step after the decision failed. If there was no preemption for the workload,
// Fails records nothing. Otherwise each failure starts a new pause. If a preemption came between
// the last failure and this one, the new pause is twice as long as the last pause. Fails returns
// the number of preemptions since the previous failure.
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

// Pause returns the pause of a workload; false if the scheduler may preempt for it.
func (u *Unbound) Pause(key workload.Key, now time.Time) (PreemptionPause, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	r := u.record(key)
	if r == nil || !r.until.After(now) {
		return PreemptionPause{}, false
	}
	return PreemptionPause{Until: r.until, Preemptions: r.preemptions, Last: r.last}, true
}

// Changed records that the owner of a workload changed it and may have removed the cause of the
// failure. It reports whether the pause becomes shorter. The first change ends the pause at once.
// Each later change, until the workload is bound, ends the pause after a delay that doubles each
// time. Otherwise a controller that keeps changing the workload would end every pause.
//
// The argument of identifies the new state of the workload. If the workload failed in the same
// state, the call has no effect. The argument is "" if the caller knows that there is a change.
func (u *Unbound) Changed(key workload.Key, of string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	r := u.record(key)
	return r != nil && r.changed(of, now)
}

// changed does the work of [Unbound.Changed] for one record.
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

// Ends deletes the record of a workload that was bound, or of a gang whose PodGroup is gone.
func (u *Unbound) Ends(key workload.Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ends(key)
}

// ends is [Unbound.Ends] for callers that hold the lock.
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
	u.orphaned.leave(controller, r)
}

// Inherits passes a record of a deleted pod to a new pod of the same controller, unless the new pod
// has failed already. If several deleted pods have records, the new pod inherits the record whose
// pause ends last.
func (u *Unbound) Inherits(key workload.Key, controller string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.expire(now)
	own, of := u.record(key), u.records[key]
	if !u.orphaned.has(controller) || of == nil || !of.present || own != nil && own.failures > 0 {
		return
	}
	r := u.orphaned.inherit(controller, func(a, b *unbound) int { return a.until.Compare(b.until) })
	if own != nil {
		r.made = own.made
	}
	of.unbound = r
}

// expire deletes the records of deleted pods whose last failure was more than twice the longest
// pause ago. A pod that the controller creates later starts without a pause. The caller holds the
// lock.
func (u *Unbound) expire(now time.Time) {
	u.orphaned.remove(func(r *unbound) bool { return !r.failed.Add(2 * r.backing.Max).After(now) })
}

// tidy deletes a record without preemptions and failures. The caller holds the lock.
func (u *Unbound) tidy(key workload.Key, r *unbound) {
	if r.made == 0 && r.failures == 0 {
		u.ends(key)
	}
}

// Len counts the records, for tests that look for leaks.
func (u *Unbound) Len() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := u.orphaned.len()
	for _, r := range u.records {
		if r.unbound != nil {
			n++
		}
	}
	return n
}
