package engine

import (
	"cmp"
	"maps"
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// SettledAfter is the minimum time of readiness that clears the earlier crashes of a workload.
const SettledAfter = 10 * time.Second

// CrashLimit configures the pauses of workloads that crash after preemptions.
type CrashLimit struct {
	// Starts is the number of crashes in a row that begins the first pause; 0 for no pauses.
	Starts int
	// Backing is the length of the pauses.
	Backing Backing
}

// Crashes records, by workload, how often pods crashed after a preemption for the workload. A pod
// starts when it is bound or when a container restarts. Each start counts for at most one crash.
// The first pause begins when CrashLimit.Starts crashes in a row have happened. Each further crash
// begins another pause. The scheduler does not preempt for the workload during a pause, because the
// next victims would probably lose their work for nothing. It may still place the workload if the
// workload fits without victims.
//
// A crash of a gang's member counts only if the member started after the gang's last counted crash.
// So members that crash together count once. A record ends when the workload was ready for
// [SettledAfter], or when a single pod succeeded. The record of a gang ends with its PodGroup, or
// when all members are gone and none has crashed. The record of a deleted pod passes to the next
// pod of the same controller, as in [Unbound].
//
// Crashes is a part of an [Engine]. It has no clock: callers pass the time.
type Crashes struct {
	*store
	// live maps workloads that exist to their records.
	live map[workload.Key]*crashes
	// orphaned has the records of deleted pods.
	orphaned orphans[*crashes]
	// fresh maps each pod that started after the last counted crash to the record of its workload.
	fresh map[UID]*crashes
}

func newCrashes(s *store) *Crashes {
	return &Crashes{store: s, live: make(map[workload.Key]*crashes), fresh: make(map[UID]*crashes)}
}

// crashes is the record of one workload.
type crashes struct {
	gang  bool
	limit CrashLimit
	// count is the number of crashes in a row.
	count int
	// pause has the number of preemptions for the workload, the last crash, and the end of the
	// pause after it.
	pause unbound
	// readySince is the time since when the workload is ready; zero if it is not ready. left is the
	// time when the pod was deleted.
	readySince, left time.Time
}

// Preempts records that a preemption begins for a workload. Later crashes of the workload count.
// Its earlier crashes count too, unless the workload was ready for [SettledAfter] since.
func (c *Crashes) Preempts(key workload.Key, limit CrashLimit, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of := c.records[key]; of == nil || !of.present || limit.Starts == 0 {
		return
	}
	r := c.live[key]
	if r != nil && r.isSettled(now) {
		c.drop(r)
		r = nil
	}
	if r == nil {
		r = &crashes{gang: key.Gang}
		c.live[key] = r
	}
	r.limit = limit
	r.pause.made++
}

// Cancels records that a preemption ended before any victim was evicted.
func (c *Crashes) Cancels(key workload.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.live[key]
	if r == nil {
		return
	}
	r.pause.made = max(r.pause.made-1, 0)
	if r.pause.made == 0 && r.count == 0 {
		c.drop(r)
	}
}

// Starts records that a pod of a workload was bound.
func (c *Crashes) Starts(key workload.Key, uid UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.live[key]; r != nil {
		c.fresh[uid] = r
	}
}

// Observes records whether a workload is ready. A gang is ready if minCount members are.
func (c *Crashes) Observes(key workload.Key, ready bool, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.live[key]
	switch {
	case r == nil || ready && !r.readySince.IsZero():
	case ready:
		r.readySince = now
	case r.isSettled(now):
		c.drop(r)
	default:
		r.readySince = time.Time{}
	}
}

// Restarts records that a container of a workload's pod crashed and was started again. It returns
// the number of crashes in a row; 0 if the crash does not count. The parameter of identifies the
// state of the workload; see [Crashes.Changed].
func (c *Crashes) Restarts(key workload.Key, uid UID, f Failure, of string, now time.Time) (count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	count = c.crashes(uid, f, of, now)
	if r := c.live[key]; r != nil {
		c.fresh[uid] = r
	}
	return count
}

// Fails records that a pod failed for good. Its result and its parameters are described at
// [Crashes.Restarts]. The pod may have been deleted already.
func (c *Crashes) Fails(uid UID, f Failure, of string, now time.Time) (count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.crashes(uid, f, of, now)
}

// Succeeds records that a pod succeeded. The pod may have been deleted already.
func (c *Crashes) Succeeds(uid UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.fresh[uid]
	delete(c.fresh, uid)
	if r != nil && !r.gang {
		c.drop(r)
	}
}

// Stops records that a pod ends for a reason other than a crash: it was deleted or disrupted.
func (c *Crashes) Stops(uid UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.fresh, uid)
}

// Pause returns the pause of a workload; false if the scheduler may preempt for it. A workload that
// was ready for [SettledAfter] has no pause. So if the workload loses a member later, the scheduler
// may preempt for the replacement.
func (c *Crashes) Pause(key workload.Key, now time.Time) (PreemptionPause, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.live[key]
	if r == nil || !r.pause.until.After(now) || r.isSettled(now) {
		return PreemptionPause{}, false
	}
	return PreemptionPause{Until: r.pause.until, Preemptions: r.pause.made, Crashes: r.count, Last: r.pause.last}, true
}

// Changed records that the owner of a workload changed it and may have removed the cause of the
// crashes. It reports whether the pause becomes shorter. [Unbound.Changed] describes the rules for
// shorter pauses.
func (c *Crashes) Changed(key workload.Key, of string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.live[key]
	return r != nil && r.pause.changed(of, now)
}

// Has reports whether a workload has a record.
func (c *Crashes) Has(key workload.Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live[key] != nil
}

// IsEmpty reports whether there are no records, including records of deleted pods.
func (c *Crashes) IsEmpty() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.live)+c.orphaned.len() == 0
}

// Ends deletes the record of a workload, for example because its PodGroup is gone.
func (c *Crashes) Ends(key workload.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.live[key]; r != nil {
		c.drop(r)
	}
}

// Inherits passes a record of a deleted pod to a new pod of the same controller, unless the new pod
// has crashed already. If several deleted pods have records, the new pod inherits the record with
// the most crashes.
func (c *Crashes) Inherits(key workload.Key, controller string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire(now)
	own, of := c.live[key], c.records[key]
	if !c.orphaned.has(controller) || of == nil || !of.present || own != nil && own.count > 0 {
		return
	}
	r := c.orphaned.inherit(controller, func(a, b *crashes) int { return cmp.Compare(a.count, b.count) })
	if own != nil {
		r.pause.made += own.pause.made
		c.drop(own)
	}
	c.live[key] = r
}

// leaves records that a pod, or every member of a gang, was deleted. The record of a pod passes to
// the next pod of its controller. The argument controller is "" for a pod without a controller. The
// record of a gang with crashes stays, for members that are created later. The caller holds the
// lock.
func (c *Crashes) leaves(key workload.Key, controller string, now time.Time) {
	r := c.live[key]
	switch {
	case r == nil:
		return
	case r.isSettled(now), key.Gang && r.count == 0, !key.Gang && controller == "":
		c.drop(r)
		return
	case key.Gang:
		r.readySince = time.Time{}
		return
	}
	delete(c.live, key)
	c.expire(now)
	r.left, r.readySince = now, time.Time{}
	c.orphaned.leave(controller, r)
}

// Len counts the records, for tests that look for leaks.
func (c *Crashes) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.live) + c.orphaned.len()
}

// crashes counts the crash of a pod if the pod is in fresh: it started after the last counted
// crash. The caller holds the lock.
func (c *Crashes) crashes(uid UID, f Failure, of string, now time.Time) int {
	r := c.fresh[uid]
	if r == nil {
		return 0
	}
	if r.isSettled(now) {
		c.drop(r)
		return 0
	}
	delete(c.fresh, uid)
	if r.gang {
		c.forget(r)
	}
	r.readySince = time.Time{}
	r.count++
	r.pause.backing, r.pause.failed, r.pause.last, r.pause.of = r.limit.Backing, now, f, of
	if r.pause.failures = max(r.count-r.limit.Starts+1, 0); r.pause.failures > 0 {
		r.pause.until = now.Add(r.limit.Backing.after(r.pause.failures))
	}
	return r.count
}

// isSettled reports whether the workload has been ready for [SettledAfter].
func (r *crashes) isSettled(now time.Time) bool {
	return !r.readySince.IsZero() && now.Sub(r.readySince) >= SettledAfter
}

// expire deletes the records of pods that were deleted more than twice the longest pause ago. The
// caller holds the lock.
func (c *Crashes) expire(now time.Time) {
	c.orphaned.remove(func(r *crashes) bool {
		old := !r.left.Add(2 * r.limit.Backing.Max).After(now)
		if old {
			c.forget(r)
		}
		return old
	})
}

// drop deletes a record and its entries in fresh. The caller holds the lock.
func (c *Crashes) drop(r *crashes) {
	c.forget(r)
	maps.DeleteFunc(c.live, func(_ workload.Key, other *crashes) bool { return other == r })
	c.orphaned.remove(func(other *crashes) bool { return other == r })
}

// forget removes the pods of a record from fresh. The caller holds the lock.
func (c *Crashes) forget(r *crashes) {
	maps.DeleteFunc(c.fresh, func(_ UID, of *crashes) bool { return of == r })
}

// Pause returns the pause of a workload from [Unbound] or [Crashes]: the pause that ends later. It
// returns false if the scheduler may preempt for the workload.
func (e *Engine) Pause(key workload.Key, now time.Time) (PreemptionPause, bool) {
	unbound, notBound := e.Unbound.Pause(key, now)
	crashed, crashes := e.Crashes.Pause(key, now)
	if crashes && (!notBound || crashed.Until.After(unbound.Until)) {
		return crashed, true
	}
	return unbound, notBound
}

// OwnerChanged records in [Unbound] and [Crashes] that the owner of a workload changed it. It
// reports whether a pause becomes shorter.
func (e *Engine) OwnerChanged(key workload.Key, of string, now time.Time) bool {
	unbound, crashed := e.Unbound.Changed(key, of, now), e.Crashes.Changed(key, of, now)
	return unbound || crashed
}
