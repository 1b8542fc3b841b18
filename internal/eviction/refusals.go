package eviction

import (
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/podstatus"
)

const (
	// firstRefusal and longestRefusal bound for how long a pod is left alone whose deletion was refused: each time twice as long.
	firstRefusal   = 10 * time.Second
	longestRefusal = time.Minute
	// doubtful is how long a namespace is in doubt in which a deletion was refused.
	doubtful = time.Hour
)

// Refusals remembers the pods that the API server refuses to have deleted: an admission policy or webhook has a say against it, or
// could not be asked. Such a pod is no victim for a while, and neither is the group that goes with it; what else was to go with it would go for
// no preemptor. After that, the API server is asked by a dry run before anything is touched. A refusal is remembered until the pod has
// gone, or can be deleted. It is safe for concurrent use.
type Refusals struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	pods map[types.UID]*refusal
	// namespaces are when a deletion was refused last in each.
	namespaces map[string]time.Time
	// changed is called with each pod that is left alone from now on.
	changed func(namespace, name string, uid types.UID)
}

// refusal is what is known of one pod.
type refusal struct {
	// since is when its deletion was refused first, and until the last moment at which it is left alone.
	since, until time.Time
	length       time.Duration
}

// NewRefusals makes an empty memory.
func NewRefusals(clk clock.PassiveClock) *Refusals {
	return &Refusals{
		clock: clk, pods: make(map[types.UID]*refusal), namespaces: make(map[string]time.Time), changed: func(string, string, types.UID) {},
	}
}

// OnRefusal has f called with each pod whose deletion is refused, from goroutines of executions, each time. It must not block. Call it before
// the first order.
func (r *Refusals) OnRefusal(f func(namespace, name string, uid types.UID)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = f
}

// Until is the last moment at which a pod is left alone; zero for one that may be a victim as far as is known.
func (r *Refusals) Until(uid types.UID) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.pods[uid]; ok {
		return known.until
	}
	return time.Time{}
}

// Forget ends what is remembered of a pod, which has gone.
func (r *Refusals) Forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, uid)
}

// Note records that the deletion of a pod was refused.
func (r *Refusals) Note(namespace, name string, uid types.UID) {
	r.mu.Lock()
	now := r.clock.Now()
	known, ok := r.pods[uid]
	if !ok || now.Sub(known.until) > longestRefusal {
		// What was a while ago says nothing of what has been since.
		known = &refusal{since: now}
		r.pods[uid] = known
	}
	known.length = min(max(2*known.length, firstRefusal), longestRefusal)
	known.until = now.Add(known.length)
	r.namespaces[namespace] = now
	changed := r.changed
	r.mu.Unlock()
	changed(namespace, name, uid)
}

// lasting is for how long the deletion of a pod has been refused, each time it was tried; 0 for one of which that is not known.
func (r *Refusals) lasting(uid types.UID) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.pods[uid]; ok {
		return r.clock.Since(known.since)
	}
	return 0
}

// doubts reports whether the deletion of a pod has to be expected to be refused: its own has been, or another one's in its namespace a
// short while ago.
func (r *Refusals) doubts(namespace string, uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.pods[uid]; ok {
		return true
	}
	at, ok := r.namespaces[namespace]
	if ok && r.clock.Since(at) > doubtful {
		delete(r.namespaces, namespace)
		ok = false
	}
	return ok
}

// isVeto tells that the API server will not do it, and has not, rather than that it cannot do it just now: something that it asks first
// says no, or could not be asked.
func isVeto(err error) bool {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err) || apierrors.IsUnauthorized(err) {
		return false
	}
	return podstatus.IsRefused(err) || apierrors.IsInternalError(err)
}
