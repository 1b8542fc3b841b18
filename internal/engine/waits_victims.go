package engine

import (
	"maps"
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// pendingVictims has the UIDs of the pods that a workload waits for. left has the pods that still
// exist, and gone has the pods that do not. needed and each are subsets of left:
//
//   - The workload certainly has no room while any pod of needed exists.
//   - The end of any single pod in each is a reason to retry.
type pendingVictims struct{ left, needed, each, gone map[string]bool }

// WaitForVictims records the terminating pods that a workload waits for. They replace the pods of
// an earlier call. The workload certainly has no room until all needed pods are gone, but may have
// room before the other pods are gone.
func (w *Waits) WaitForVictims(key workload.Key, pods []string, needed map[string]bool) {
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
	v := &pendingVictims{left: make(map[string]bool, len(pods)), needed: make(map[string]bool), gone: make(map[string]bool)}
	e.victims = v
	for _, uid := range pods {
		if needed[uid] {
			v.needed[uid] = true
		}
		w.awaitVictim(e, uid)
	}
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
		e.victims = &pendingVictims{left: make(map[string]bool, len(pods)), needed: make(map[string]bool), gone: make(map[string]bool)}
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

// goingTime is the time that a workload waits for its victims without a report. After that, the
// scheduler retries the workload and reports the names of the victims.
const goingTime = time.Second

// LeaveToVictims records a Going cause for a workload if a needed pod still exists. Until that pod
// is gone, a retry would fail. The cause ends after goingTime at the latest. LeaveToVictims returns
// false if no needed pod is left.
func (w *Waits) LeaveToVictims(key workload.Key, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.needsVictims(key) {
		return false
	}
	w.await(key, Going, now.Add(goingTime))
	w.signal()
	return true
}

// NeedsVictims reports whether a needed pod still exists; see [Waits.WaitForVictims].
func (w *Waits) NeedsVictims(key workload.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.needsVictims(key)
}

// NeededVictims returns the UIDs of the needed pods that still exist, in any order.
func (w *Waits) NeededVictims(key workload.Key) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.needsVictims(key) {
		return nil
	}
	return slices.Collect(maps.Keys(w.entry(key).victims.needed))
}

func (w *Waits) needsVictims(key workload.Key) bool {
	e := w.entry(key)
	return e != nil && e.victims != nil && len(e.victims.needed) > 0
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
// is retried if the pod was its last pod, its last needed pod, or a pod of RetryAtEach. The caller
// holds the lock.
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
// succeed: no needed pod is left, or RetryAtEach added the pod.
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
	return true, len(v.needed) == 0 || v.each[uid]
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
// must be retried: the pod was the last pod, the last needed pod, or a pod of RetryAtEach.
func (w *Waits) depart(e *entry, uid string) (last bool) {
	v := e.victims
	needed := v.needed[uid]
	delete(v.left, uid)
	delete(v.needed, uid)
	v.gone[uid] = true
	w.release(e, uid)
	if len(v.left) == 0 {
		w.dropVictims(e)
		w.tidy(e)
		return true
	}
	if last = needed && len(v.needed) == 0; last {
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
