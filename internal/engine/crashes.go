package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// SettledAfter is the time that a workload must be ready for its earlier crashes to stop counting.
const SettledAfter = 10 * time.Second

// CrashLimit configures the pauses of workloads that crash after preemptions.
type CrashLimit struct {
	// Starts is the number of crashed starts in a row that begins the first pause; 0 for no pauses.
	Starts int
	// Backing is the length of the pauses.
	Backing Backing
}

// Crashes records, by workload, the starts that crashed after a preemption for the workload. A
// start is the run of a pod from its binding, or from a restart of a container, to the next crash.
// From the limit on, each crash begins a pause without preemptions, because the work of the next
// victims would probably be lost for nothing. The workload may still be placed where it fits
// without victims.
//
// The crashes of a gang's members count as one, up to the next start of the member that crashed
// last. A record ends when the workload was ready for [SettledAfter], or a single pod succeeded.
// The record of a gang ends with its PodGroup, or if all members are gone before one crashed. The
// record of a pod that is gone passes to the next pod of the same controller, as in [Unbound].
//
// Crashes is a part of an [Engine]. It has no clock: callers pass the time.
type Crashes struct {
	*store
	// live has the records of workloads that exist. heirless has the records of deleted pods, by
	// their controller.
	live     map[workload.Key]*crashes
	heirless map[string][]*crashes
	// fresh has the pods whose start began after the last counted crash, with their records.
	fresh map[UID]*crashes
}

func newCrashes(s *store) *Crashes {
	return &Crashes{store: s, live: make(map[workload.Key]*crashes), heirless: make(map[string][]*crashes), fresh: make(map[UID]*crashes)}
}

// crashes is the record of one workload.
type crashes struct {
	gang  bool
	limit CrashLimit
	// count is the number of crashes in a row.
	count int
	// pause has the preemptions for the workload, and the last crash with its pause.
	pause unbound
	// readySince is the time since when the workload is ready; zero if it is not. left is the time
	// when the pod was deleted.
	readySince, left time.Time
}

// Preempts records that a preemption begins for a workload. From now on, its crashes count. If the
// workload was ready for [SettledAfter], its earlier crashes do not.
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

// Observes records whether a workload is ready: a single pod, or minCount members of a gang.
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
// the number of crashes in a row; 0 if the crash does not count. The text of identifies the state
// of the workload, see [Crashes.Changed].
func (c *Crashes) Restarts(key workload.Key, uid UID, f Failure, of string, now time.Time) (count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	count = c.crashes(uid, f, of, now)
	if r := c.live[key]; r != nil {
		c.fresh[uid] = r
	}
	return count
}

// Fails records that a pod failed for good. It returns the same as [Crashes.Restarts]. The pod may
// have been deleted already.
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

// Pause returns the pause of a workload; false if it may preempt. A workload that was ready for
// [SettledAfter] may preempt, for example for a member that it lost afterwards.
func (c *Crashes) Pause(key workload.Key, now time.Time) (PreemptionPause, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.live[key]
	if r == nil || !r.pause.until.After(now) || r.isSettled(now) {
		return PreemptionPause{}, false
	}
	return PreemptionPause{Until: r.pause.until, Preemptions: r.pause.made, Crashes: r.count, Last: r.pause.last}, true
}

// Changed records that the owner of a workload has changed it, so the cause of the crashes may be
// gone. It reports whether the pause becomes shorter, by the rules of [Unbound.Changed].
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

// IsEmpty reports whether no workload has a record, also none that a later pod may inherit.
func (c *Crashes) IsEmpty() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.live)+len(c.heirless) == 0
}

// Ends drops the record of a workload, for example because its PodGroup is gone.
func (c *Crashes) Ends(key workload.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.live[key]; r != nil {
		c.drop(r)
	}
}

// Inherits passes the record of a deleted pod to a pod of the same controller, unless the new pod
// has crashed itself. If the controller has several records, the pod inherits the one with the most
// crashes.
func (c *Crashes) Inherits(key workload.Key, controller string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.heirless) == 0 || controller == "" {
		return
	}
	c.expire(now)
	left, own, of := c.heirless[controller], c.live[key], c.records[key]
	if len(left) == 0 || of == nil || !of.present || own != nil && own.count > 0 {
		return
	}
	r := slices.MaxFunc(left, func(a, b *crashes) int { return cmp.Compare(a.count, b.count) })
	if own != nil {
		r.pause.made += own.pause.made
		c.drop(own)
	}
	c.heirless[controller] = slices.DeleteFunc(left, func(other *crashes) bool { return other == r })
	c.live[key] = r
	c.expire(now)
}

// leaves records that a pod was deleted, or all members of a gang. The record of a pod passes to
// the next pod of its controller; controller is "" for none. The record of a gang with crashes
// stays, for members that are created later. The caller holds the lock.
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
	c.heirless[controller] = append(c.heirless[controller], r)
}

// Len counts the records, for tests that look for leaks.
func (c *Crashes) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.live)
	for _, left := range c.heirless {
		n += len(left)
	}
	return n
}

// crashes counts the crash of a pod if its start is the first one to crash since the last counted
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

// isSettled reports whether the workload was ready for long enough.
func (r *crashes) isSettled(now time.Time) bool {
	return !r.readySince.IsZero() && now.Sub(r.readySince) >= SettledAfter
}

// expire drops the records of deleted pods after the longest pause. The caller holds the lock.
func (c *Crashes) expire(now time.Time) {
	for controller, left := range c.heirless {
		left = slices.DeleteFunc(left, func(r *crashes) bool {
			old := !r.left.Add(2 * r.limit.Backing.Max).After(now)
			if old {
				c.forget(r)
			}
			return old
		})
		if c.heirless[controller] = left; len(left) == 0 {
			delete(c.heirless, controller)
		}
	}
}

// drop drops a record. The caller holds the lock.
func (c *Crashes) drop(r *crashes) {
	c.forget(r)
	maps.DeleteFunc(c.live, func(_ workload.Key, other *crashes) bool { return other == r })
	for controller, left := range c.heirless {
		left = slices.DeleteFunc(left, func(other *crashes) bool { return other == r })
		if c.heirless[controller] = left; len(left) == 0 {
			delete(c.heirless, controller)
		}
	}
}

// forget drops the starts of a record. The caller holds the lock.
func (c *Crashes) forget(r *crashes) {
	maps.DeleteFunc(c.fresh, func(_ UID, of *crashes) bool { return of == r })
}

// Pause returns the pause of a workload that ends last; false if the workload may preempt.
func (e *Engine) Pause(key workload.Key, now time.Time) (PreemptionPause, bool) {
	unbound, notBound := e.Unbound.Pause(key, now)
	crashed, crashes := e.Crashes.Pause(key, now)
	if crashes && (!notBound || crashed.Until.After(unbound.Until)) {
		return crashed, true
	}
	return unbound, notBound
}

// OwnerChanged records that the owner of a workload has changed it; see [Unbound.Changed]. It
// reports whether a pause becomes shorter.
func (e *Engine) OwnerChanged(key workload.Key, of string, now time.Time) bool {
	unbound, crashed := e.Unbound.Changed(key, of, now), e.Crashes.Changed(key, of, now)
	return unbound || crashed
}
