package admission

import (
	"maps"
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// pendingVictims are the pods that a workload waits for, by UID. Those that are needed are among
// those that are left, and so are those each of which is a reason to try when it goes.
type pendingVictims struct{ left, needed, each, gone map[string]bool }

// WaitForVictims has a workload wait for pods that are on their way out from where it is to go, in place of those that
// it waited for before. Without those that are needed gone it has no room for certain; it may have some before the others
// have gone. What was needed before still is, unless others go that were not known to.
func (l *List) WaitForVictims(key workload.Key, pods []string, needed map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entryOf(key)
	before := e.victims
	l.dropVictims(e)
	if len(pods) == 0 {
		l.tidy(e)
		return
	}
	v := &pendingVictims{left: make(map[string]bool, len(pods)), needed: make(map[string]bool), gone: make(map[string]bool)}
	onlyThose := before != nil && !slices.ContainsFunc(pods, func(uid string) bool { return !before.left[uid] && !before.gone[uid] })
	e.victims = v
	for _, uid := range pods {
		if needed[uid] || onlyThose && before.needed[uid] {
			v.needed[uid] = true
		}
		l.awaitVictim(e, uid)
	}
}

// RetryAtEach has a workload tried as soon as any of these pods has gone, beside those that it
// waits for already.
func (l *List) RetryAtEach(key workload.Key, pods []string) {
	if len(pods) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entryOf(key)
	if e.victims == nil {
		e.victims = &pendingVictims{left: make(map[string]bool, len(pods)), needed: make(map[string]bool), gone: make(map[string]bool)}
	}
	if e.victims.each == nil {
		e.victims.each = make(map[string]bool, len(pods))
	}
	for _, uid := range pods {
		e.victims.each[uid] = true
		l.awaitVictim(e, uid)
	}
}

// awaitVictim has a workload wait for a pod.
func (l *List) awaitVictim(e *entry, uid string) {
	e.victims.left[uid] = true
	if l.byVictim[uid] == nil {
		l.byVictim[uid] = make(map[workload.Key]*entry)
	}
	l.byVictim[uid][e.key] = e
}

// WaitsForVictims reports whether a pod is left that has to go before a workload has its room.
func (l *List) WaitsForVictims(key workload.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.entries[key]
	return ok && e.victims != nil
}

// goingTime is how long victims may take to go, once they have been told, before the workload that waits for them is tried and names
// them.
const goingTime = time.Second

// LeaveToVictims leaves a workload whose victims have all been told to go to their departure, for so long at most: a try before that
// would come to nothing. It is false where no pod is left that is needed to go.
func (l *List) LeaveToVictims(key workload.Key, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.needsVictims(key) {
		return false
	}
	l.await(key, Going, now.Add(goingTime))
	l.signal()
	return true
}

// NeedsVictims reports whether a pod is left without which gone a workload has no room for certain.
func (l *List) NeedsVictims(key workload.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.needsVictims(key)
}

func (l *List) needsVictims(key workload.Key) bool {
	e, ok := l.entries[key]
	return ok && e.victims != nil && len(e.victims.needed) > 0
}

// WaitsForVictim reports whether a workload waits for a pod to go.
func (l *List) WaitsForVictim(key workload.Key, uid string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.byVictim[uid][key]
	return ok
}

// ShareVictims reports whether two workloads wait for one pod to go.
func (l *List) ShareVictims(a, b workload.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	x, y := l.entries[a], l.entries[b]
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

// ResolveVictims has a workload wait for no pods any more.
func (l *List) ResolveVictims(key workload.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.entries[key]; ok {
		l.dropVictims(e)
		l.tidy(e)
	}
}

// Gone records that a pod has gone. It returns the workloads for which it was the last one, of all that they wait for or
// of those that are needed, and those for which it is a reason to try by itself.
func (l *List) Gone(uid string) []workload.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	var free []workload.Key
	for _, key := range slices.SortedFunc(maps.Keys(l.byVictim[uid]), workload.Key.Compare) {
		if l.depart(l.entries[key], uid) {
			free = append(free, key)
		}
	}
	return free
}

// GoneFor is Gone on behalf of one workload. It reports whether the workload has waited for that pod, and whether there
// may be room now: no pod is left that is needed to go.
func (l *List) GoneFor(key workload.Key, uid string) (awaited, worthIt bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.entries[key]
	if !ok || e.victims == nil {
		return false, false
	}
	v := e.victims
	if !v.left[uid] && !v.gone[uid] {
		return false, false
	}
	if v.left[uid] {
		l.depart(e, uid)
	}
	return true, len(v.needed) == 0 || v.each[uid]
}

// Stays records that a pod does not go after all, and returns the workloads that wait for it. They wait for no pod any
// more.
func (l *List) Stays(uid string) []workload.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(l.byVictim[uid]), workload.Key.Compare)
	for _, key := range keys {
		e := l.entries[key]
		l.dropVictims(e)
		l.tidy(e)
	}
	return keys
}

// depart reports whether the pod was the last one that a workload waits for, of all or of those
// that are needed, or is a reason to try by itself.
func (l *List) depart(e *entry, uid string) (last bool) {
	v := e.victims
	needed := v.needed[uid]
	delete(v.left, uid)
	delete(v.needed, uid)
	v.gone[uid] = true
	l.release(e, uid)
	if len(v.left) == 0 {
		l.dropVictims(e)
		l.tidy(e)
		return true
	}
	if last = needed && len(v.needed) == 0; last {
		l.resolve(e, Going)
	}
	return last || v.each[uid]
}

func (l *List) dropVictims(e *entry) {
	if e.victims == nil {
		return
	}
	for uid := range e.victims.left {
		l.release(e, uid)
	}
	e.victims = nil
	l.resolve(e, Going)
}

func (l *List) release(e *entry, uid string) {
	delete(l.byVictim[uid], e.key)
	if len(l.byVictim[uid]) == 0 {
		delete(l.byVictim, uid)
	}
}
