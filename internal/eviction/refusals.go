package eviction

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/podstatus"
)

const (
	// firstRefusal and longestRefusal bound for how long a pod is left alone whose deletion was refused: each time twice as long.
	firstRefusal   = 10 * time.Second
	longestRefusal = 10 * time.Minute
	// patience is for how long deletions are refused in a namespace before others go instead: what cannot be asked may answer again soon, and
	// then no other pod has to go.
	patience = time.Minute
	// doubtful is how long a namespace is in doubt in which a deletion was refused, and a refusal counts with the next one.
	doubtful = time.Hour
	// unbroken is how far apart refusals are at most between which nothing else is taken to have been.
	unbroken = 2 * time.Minute
)

// Refusals remembers the pods that the API server refuses to have deleted: an admission policy or webhook has a say against it, or
// could not be asked. What else was to go with such a pod would go for no preemptor, so the API server is asked by a dry run the next time, before
// anything is touched. Where deletions have been refused in its namespace for [patience], it is no victim for a while, and neither is the group that
// goes with it. A refusal is remembered until the pod has gone; once one is deleted after all, those of its namespace are victims like
// others. It is safe for concurrent use.
type Refusals struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	pods map[types.UID]*refusal
	// namespaces are those in which a deletion was refused.
	namespaces map[string]refusing
	// changed is called with the node of each pod of which something else holds from now on, and lifted when pods are victims again before
	// their time.
	changed func(node string)
	lifted  func()
}

// refusing is since when deletions have been refused in a namespace, and when one was last.
type refusing struct{ since, last time.Time }

// refusal is what is known of one pod.
type refusal struct {
	namespace, node string
	// since is from when on its deletion has been refused each time, and last when it was last.
	since, last time.Time
	// until is the last moment at which it is left alone, and length for how long that was then.
	until  time.Time
	length time.Duration
}

// NewRefusals makes an empty memory.
func NewRefusals(clk clock.PassiveClock) *Refusals {
	return &Refusals{
		clock: clk, pods: make(map[types.UID]*refusal), namespaces: make(map[string]refusing), changed: func(string) {}, lifted: func() {},
	}
}

// Follow has changed called with the node of each pod of which Until says something else, but for time that passes, and lifted when some are
// victims again before their time; both from goroutines of executions. They must not block. Call it before the first order.
func (r *Refusals) Follow(changed func(node string), lifted func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed, r.lifted = changed, lifted
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

// Note records that the deletion of a pod on a node was refused. It reports whether the pod is left alone from now on.
func (r *Refusals) Note(namespace, node string, uid types.UID) (protected bool) {
	r.mu.Lock()
	now := r.clock.Now()
	known, ok := r.pods[uid]
	if !ok || now.Sub(known.last) > doubtful+longestRefusal {
		known = &refusal{namespace: namespace, node: node}
		r.pods[uid] = known
	}
	if now.Sub(known.last) > unbroken {
		known.since = now
	}
	known.last = now
	maps.DeleteFunc(r.namespaces, func(_ string, there refusing) bool { return now.Sub(there.last) > doubtful })
	there, refuses := r.namespaces[namespace]
	if !refuses {
		there.since = now
	}
	there.last = now
	r.namespaces[namespace] = there
	if protected = now.Sub(there.since) >= patience; protected {
		known.length = min(max(2*known.length, firstRefusal), longestRefusal)
		known.until = now.Add(known.length)
	}
	changed := r.changed
	r.mu.Unlock()
	if protected {
		changed(node)
	}
	return protected
}

// deleted records that a pod is on its way out. Where that was refused before, whatever refused it may refuse no more.
func (r *Refusals) deleted(uid types.UID) {
	r.mu.Lock()
	known, ok := r.pods[uid]
	delete(r.pods, uid)
	var nodes []string
	if ok {
		if there, refuses := r.namespaces[known.namespace]; refuses {
			there.since = r.clock.Now()
			r.namespaces[known.namespace] = there
		}
		for _, other := range r.pods {
			if other.namespace == known.namespace && !other.until.IsZero() {
				other.until, other.length = time.Time{}, 0
				nodes = append(nodes, other.node)
			}
		}
	}
	changed, lifted := r.changed, r.lifted
	r.mu.Unlock()
	for _, node := range nodes {
		changed(node)
	}
	if len(nodes) > 0 {
		lifted()
	}
}

// lasting is for how long the deletion of a pod has been refused, each time it was tried; 0 for one of which that is not known.
func (r *Refusals) lasting(uid types.UID) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.pods[uid]; ok && r.clock.Since(known.last) <= unbroken {
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
	there, ok := r.namespaces[namespace]
	if ok && r.clock.Since(there.last) > doubtful {
		delete(r.namespaces, namespace)
		ok = false
	}
	return ok
}

// refusedError is the error of a call about a pod that [Refusals] has taken note of.
type refusedError struct {
	error
	// protected is true where the pod is left alone from now on.
	protected bool
}

func (e refusedError) Unwrap() error { return e.error }

// vetoes keep the first of the errors by which pods cannot be deleted that are in no other's way. It is safe for concurrent use.
type vetoes struct {
	mu    sync.Mutex
	first error
}

// besides takes note of an error that is a veto, and returns any other.
func (v *vetoes) besides(err error) error {
	if !errors.As(err, new(refusedError)) {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.first = cmp.Or(v.first, err)
	return nil
}

// isVeto tells that the API server will not do it, and has not, rather than that it cannot do it just now: something that it asks first
// says no, or could not be asked.
func isVeto(err error) bool {
	if isDenied(err) {
		return true
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err) || apierrors.IsUnauthorized(err) {
		return false
	}
	return podstatus.IsRefused(err) || isUnasked(err)
}

// isUnasked tells that a webhook could not be asked, or has said no for an error of its own. An error of the API server's store has
// such a code as well, and no reason; what was to be stored may be yet.
func isUnasked(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	s := status.Status()
	return s.Code >= http.StatusInternalServerError && (s.Reason == metav1.StatusReasonInternalError || isDenied(err))
}

// isDenied tells that a webhook or a policy has said no, with whatever code: those of the API server's own, that there is no such pod or that
// it has too much to do, say something else then.
func isDenied(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	message := status.Status().Message
	return strings.Contains(message, "denied the request") || strings.Contains(message, "denied request:")
}
