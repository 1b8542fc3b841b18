package engine

import (
	"maps"
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// pendingVictims has the UIDs of the pods that a workload waits for. left has the pods that still
// exist, and gone has the pods that do not. each is a subset of left: the end of any single one of
// these pods is a reason to retry. The workload certainly has no room while there are shortages.
type pendingVictims struct {
	left, each, gone map[string]bool
	shortages        []*shortage
}

// WaitForVictims records the terminating pods that a workload waits for. They replace the pods of
// an earlier call. The workload certainly has no room while any of the shortages lasts. It may have
// room before all pods are gone. Pods of a shortage that are not among the given pods count as
// gone.
func (w *Waits) WaitForVictims(key workload.Key, pods []string, shortages []workload.Shortage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, ok := w.entryOf(key)
	if !ok {
		return
	}
	w.dropVictims(e)
	if len(pods) == 0 {
		w.tidy(e)
		return
	}
	e.victims = newPendingVictims(len(pods))
	for _, uid := range pods {
		w.awaitVictim(e, uid)
	}
	e.victims.shortages = newShortages(shortages, e.victims.left)
}

func newPendingVictims(count int) *pendingVictims {
	return &pendingVictims{left: make(map[string]bool, count), gone: make(map[string]bool)}
}

// RetryAtEach adds pods to the pods that a workload waits for. The end of any single one of them is
// a reason to retry the workload.
func (w *Waits) RetryAtEach(key workload.Key, pods []string) {
	if len(pods) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e, ok := w.entryOf(key)
	if !ok {
		return
	}
	if e.victims == nil {
		e.victims = newPendingVictims(len(pods))
	}
	if e.victims.each == nil {
		e.victims.each = make(map[string]bool, len(pods))
	}
	for _, uid := range pods {
		e.victims.each[uid] = true
		w.awaitVictim(e, uid)
	}
}

// awaitVictim records that a workload waits for a pod.
func (w *Waits) awaitVictim(e *entry, uid string) {
	e.victims.left[uid] = true
	if w.byVictim[uid] == nil {
		w.byVictim[uid] = make(map[workload.Key]*entry)
	}
	w.byVictim[uid][e.key] = e
}

// WaitsForVictims reports whether a workload waits for any pod to terminate.
func (w *Waits) WaitsForVictims(key workload.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entry(key)
	return e != nil && e.victims != nil
}

// goingTime is the time that a workload waits for its victims before the scheduler reports it. The
// scheduler then retries the workload, so that its status names the victims that still exist.
const goingTime = time.Second

// LeaveToVictims records a Going cause for a workload if a shortage lasts. Until it ends, a retry
// would fail. The cause ends after goingTime at the latest. LeaveToVictims returns false if no
// shortage lasts.
func (w *Waits) LeaveToVictims(key workload.Key, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isShort(key) {
		return false
	}
	w.await(key, Going, now.Add(goingTime))
	w.signal()
	return true
}

// IsShort reports whether a shortage of a workload lasts; see [Waits.WaitForVictims].
func (w *Waits) IsShort(key workload.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.isShort(key)
}

// NeededVictims returns the UIDs of the pods that must terminate before a workload has room, in any
// order.
func (w *Waits) NeededVictims(key workload.Key) (needed []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isShort(key) {
		return nil
	}
	for _, s := range w.entry(key).victims.shortages {
		needed = s.appendNeeded(needed)
	}
	slices.Sort(needed)
	return slices.Compact(needed)
}

func (w *Waits) isShort(key workload.Key) bool {
	e := w.entry(key)
	return e != nil && e.victims != nil && len(e.victims.shortages) > 0
}

// WaitsForVictim reports whether a workload waits for a pod to terminate.
func (w *Waits) WaitsForVictim(key workload.Key, uid string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.byVictim[uid][key]
	return ok
}

// ShareVictims reports whether two workloads wait for the same pod to terminate.
func (w *Waits) ShareVictims(a, b workload.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	x, y := w.entry(a), w.entry(b)
	if x == nil || y == nil || x.victims == nil || y.victims == nil {
		return false
	}
	for uid := range x.victims.left {
		if y.victims.left[uid] {
			return true
		}
	}
	return false
}

// ResolveVictims ends the wait of a workload for pods to terminate.
func (w *Waits) ResolveVictims(key workload.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resolveVictims(key)
}

// resolveVictims is [Waits.ResolveVictims] for callers that hold the lock.
func (w *Waits) resolveVictims(key workload.Key) {
	if e := w.entry(key); e != nil {
		w.dropVictims(e)
		w.tidy(e)
	}
}

// gone records that a pod no longer exists, and returns the workloads to retry, sorted. A workload
// is retried if the pod was its last pod or a pod of RetryAtEach, or if its last shortage ends. The
// caller holds the lock.
func (w *Waits) gone(uid string) []workload.Key {
	var free []workload.Key
	for _, key := range slices.SortedFunc(maps.Keys(w.byVictim[uid]), workload.Key.Compare) {
		if w.depart(w.entry(key), uid) {
			free = append(free, key)
		}
	}
	return free
}

// GoneFor records for one workload that a pod no longer exists, as [VictimGone] does for all.
// awaited is true if the workload waits or waited for the pod. worthIt is true if a retry may
// succeed: no shortage lasts, or RetryAtEach added the pod.
func (w *Waits) GoneFor(key workload.Key, uid string) (awaited, worthIt bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entry(key)
	if e == nil || e.victims == nil {
		return false, false
	}
	v := e.victims
	if !v.left[uid] && !v.gone[uid] {
		return false, false
	}
	if v.left[uid] {
		w.depart(e, uid)
	}
	return true, len(v.shortages) == 0 || v.each[uid]
}

// stays records that a pod will not terminate. If a workload waits for the pod, stays ends the
// workload's waits for all pods. It returns these workloads, sorted. The caller holds the lock.
func (w *Waits) stays(uid string) []workload.Key {
	keys := slices.SortedFunc(maps.Keys(w.byVictim[uid]), workload.Key.Compare)
	for _, key := range keys {
		e := w.entry(key)
		w.dropVictims(e)
		w.tidy(e)
	}
	return keys
}

// depart records, for one workload, that a pod no longer exists. It reports whether the workload
// must be retried: the pod was the last pod or a pod of RetryAtEach, or the last shortage ends.
func (w *Waits) depart(e *entry, uid string) (last bool) {
	v := e.victims
	short := len(v.shortages) > 0
	delete(v.left, uid)
	v.shortages = slices.DeleteFunc(v.shortages, func(s *shortage) bool {
		s.remove(uid)
		return !s.lasts()
	})
	v.gone[uid] = true
	w.release(e, uid)
	if len(v.left) == 0 {
		w.dropVictims(e)
		w.tidy(e)
		return true
	}
	if last = short && len(v.shortages) == 0; last {
		w.resolve(e, Going)
	}
	return last || v.each[uid]
}

func (w *Waits) dropVictims(e *entry) {
	if e.victims == nil {
		return
	}
	for uid := range e.victims.left {
		w.release(e, uid)
	}
	e.victims = nil
	w.resolve(e, Going)
}

func (w *Waits) release(e *entry, uid string) {
	delete(w.byVictim[uid], e.key)
	if len(w.byVictim[uid]) == 0 {
		delete(w.byVictim, uid)
	}
}
