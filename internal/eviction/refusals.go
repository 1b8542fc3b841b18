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
	// firstRefusal and longestRefusal bound the protection of a pod after its deletion was refused.
	// Each further refusal doubles its length.
	firstRefusal   = 10 * time.Second
	longestRefusal = 10 * time.Minute
	// patience is the time that deletions in a namespace must be refused before pods are protected
	// and other victims are chosen. A webhook that cannot be reached may soon answer again.
	patience = time.Minute
	// doubtful is the time after a refusal when deletions in the namespace are first tested by dry
	// run. As long as it lasts, the refusal counts towards the next one.
	doubtful = time.Hour
	// unbroken is the longest gap between two refusals that count as one continuous series.
	unbroken = 2 * time.Minute
)

// Refusals records the pods whose deletion the API server refuses: an admission policy or webhook
// denies it, or cannot be reached. Evicting other victims together with such a pod would be
// useless. So the next order first asks the API server by dry run.
//
// Once deletions in a namespace were refused for [patience], a refused pod and its unit are
// protected for a while. A refusal is recorded until the pod is gone. When one refused pod is
// deleted after all, the other pods of its namespace are no longer protected.
//
// A refusal may also have its cause in the object itself. The pod or its PodGroup may be too large
// or invalid, or other clients may write the PodGroup all the time. Such a pod is protected at
// once. The refusal does not affect other pods. Refusals is safe for concurrent use.
type Refusals struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	pods map[types.UID]*refusedPod
	// namespaces holds the namespaces with a refused deletion.
	namespaces map[string]refusing
	// changed is called with the node of each pod whose protection changes. lifted is called when
	// protections end early.
	changed func(node string)
	lifted  func()
}

// refusing is the time of the first and of the last refusal in a namespace.
type refusing struct{ since, last time.Time }

// refusedPod is the record of one pod.
type refusedPod struct {
	namespace, node string
	// since is the start of the current series of refusals, last the time of the last refusal.
	since, last time.Time
	// until is the end of the protection, length its duration.
	until  time.Time
	length time.Duration
	// ofObject is true if the last refusal was due to the pod or its PodGroup, and not to a rule
	// for the namespace.
	ofObject bool
}

// protect begins the next protection, which is twice as long as the last one.
func (f *refusedPod) protect(now time.Time) {
	f.length = min(max(2*f.length, firstRefusal), longestRefusal)
	f.until = now.Add(f.length)
}

// NewRefusals returns an empty Refusals.
func NewRefusals(clk clock.PassiveClock) *Refusals {
	return &Refusals{
		clock: clk, pods: make(map[types.UID]*refusedPod), namespaces: make(map[string]refusing), changed: func(string) {}, lifted: func() {},
	}
}

// Follow sets two callbacks. changed is called with the node of each pod whose Until changes,
// except by the passage of time. lifted is called when protections end early. Both are called by
// goroutines of executions and must not block. Call Follow before the first order.
func (r *Refusals) Follow(changed func(node string), lifted func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed, r.lifted = changed, lifted
}

// Until returns the end of a pod's protection, or the zero time if no protection is recorded.
func (r *Refusals) Until(uid types.UID) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.pods[uid]; ok {
		return known.until
	}
	return time.Time{}
}

// Forget removes the record of a pod that is gone.
func (r *Refusals) Forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, uid)
}

// Note records that the deletion of a pod on a node was refused. It reports whether the pod is
// protected now.
func (r *Refusals) Note(namespace, node string, uid types.UID) (protected bool) {
	r.mu.Lock()
	now := r.clock.Now()
	known := r.record(namespace, node, uid, now)
	known.ofObject = false
	maps.DeleteFunc(r.namespaces, func(_ string, there refusing) bool { return now.Sub(there.last) > doubtful })
	there, refuses := r.namespaces[namespace]
	if !refuses || there.since.IsZero() {
		there.since = now
	}
	there.last = now
	r.namespaces[namespace] = there
	if protected = now.Sub(there.since) >= patience; protected {
		known.protect(now)
	}
	changed := r.changed
	r.mu.Unlock()
	if protected {
		changed(node)
	}
	return protected
}

// NoteObject records that the eviction of a pod on a node was refused because of the pod or its
// PodGroup. The pod is protected from now on, because the next try would fail in the same way.
func (r *Refusals) NoteObject(namespace, node string, uid types.UID) {
	r.mu.Lock()
	now := r.clock.Now()
	known := r.record(namespace, node, uid, now)
	known.ofObject = true
	known.protect(now)
	changed := r.changed
	r.mu.Unlock()
	changed(node)
}

// record returns the record of a pod with a refusal at this time. The caller holds the lock.
func (r *Refusals) record(namespace, node string, uid types.UID, now time.Time) *refusedPod {
	known, ok := r.pods[uid]
	if !ok || now.Sub(known.last) > doubtful+longestRefusal {
		known = &refusedPod{namespace: namespace, node: node}
		r.pods[uid] = known
	}
	if now.Sub(known.last) > unbroken {
		known.since = now
	}
	known.last = now
	return known
}

// deleted records that a pod was deleted. If its deletion was refused before, the cause of the
// refusals may be gone, so the other pods of its namespace are no longer protected.
func (r *Refusals) deleted(uid types.UID) {
	r.mu.Lock()
	known, ok := r.pods[uid]
	delete(r.pods, uid)
	var nodes []string
	if ok {
		if there, refuses := r.namespaces[known.namespace]; refuses {
			// The patience begins again with the next refusal.
			there.since = time.Time{}
			r.namespaces[known.namespace] = there
		}
		for _, other := range r.pods {
			if other.namespace == known.namespace && !other.ofObject && !other.until.IsZero() {
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

// lasting returns how long the deletion of a pod has been refused without a break, or 0 if there is
// no current series of refusals.
func (r *Refusals) lasting(uid types.UID) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.pods[uid]; ok && !known.ofObject && r.clock.Since(known.last) <= unbroken {
		return r.clock.Since(known.since)
	}
	return 0
}

// doubts reports whether the deletion of a pod may be refused: its own deletion was refused, or
// another one in its namespace within the time doubtful. Refusals because of an object do not
// count, since a dry run does not show them.
func (r *Refusals) doubts(namespace string, uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.pods[uid]; ok && !known.ofObject {
		return true
	}
	there, ok := r.namespaces[namespace]
	if ok && r.clock.Since(there.last) > doubtful {
		delete(r.namespaces, namespace)
		ok = false
	}
	return ok
}

// refusedError is the error of a call whose refusal [Refusals] has recorded.
type refusedError struct {
	error
	// protected is true if the pod is protected now.
	protected bool
}

func (e refusedError) Unwrap() error { return e.error }

// vetoes keeps the first refusal and hides it from the caller, so that calls for other pods go on.
// It is safe for concurrent use.
type vetoes struct {
	mu    sync.Mutex
	first error
}

// besides stores a refusedError and returns nil instead. It returns any other error unchanged.
func (v *vetoes) besides(err error) error {
	if !errors.As(err, new(refusedError)) {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.first = cmp.Or(v.first, err)
	return nil
}

// isVeto reports whether the API server refused a call and changed nothing, rather than failed for
// the moment. A webhook or policy denied the call, a webhook could not be reached, or the object is
// too large.
func isVeto(err error) bool {
	if isDenied(err) || isTooLarge(err) {
		return true
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err) || apierrors.IsUnauthorized(err) {
		return false
	}
	return podstatus.IsRefused(err) || isUnasked(err)
}

// isOfObject reports whether the API server refused a call because of the object: it would be too
// large, or invalid.
func isOfObject(err error) bool {
	return !isDenied(err) && (isTooLarge(err) || apierrors.IsInvalid(err))
}

// isTooLarge reports whether an object would be too large for the API server or its store. The
// store has two limits, and its errors have no reason.
func isTooLarge(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	s := status.Status()
	return s.Code == http.StatusRequestEntityTooLarge ||
		strings.Contains(s.Message, "request is too large") || strings.Contains(s.Message, "message larger than max")
}

// isUnasked reports whether a webhook could not be reached, or denied the call because of an error
// of its own. Errors of the API server's store have the same status code, but no reason in the
// status. They do not count, because the write may still succeed after them.
func isUnasked(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	s := status.Status()
	return s.Code >= http.StatusInternalServerError && (s.Reason == metav1.StatusReasonInternalError || isDenied(err))
}

// isDenied reports whether a webhook or a policy denied the call, with any status code. The API
// server uses some of these codes itself, such as 404 and 429, but with other messages.
func isDenied(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	message := status.Status().Message
	return strings.Contains(message, "denied the request") || strings.Contains(message, "denied request:")
}
