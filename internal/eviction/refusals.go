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
	// firstRefusal and longestRefusal are the shortest and the longest protection of a pod whose
	// deletion was refused. Each further refusal doubles the protection.
	firstRefusal   = 10 * time.Second
	longestRefusal = 10 * time.Minute
	// patience is the time that deletions in a namespace must be refused before refused pods are
	// protected. The delay gives a webhook that cannot be reached the time to recover.
	patience = time.Minute
	// dryRunTime is the time after a refusal in a namespace during which deletions there are first
	// tested by dry run. During that time, a further refusal continues the series of refusals.
	dryRunTime = time.Hour
	// unbroken is the longest time between two refusals of a pod that still count as one series.
	unbroken = 2 * time.Minute
)

// Refusals records the pods whose deletion the API server refuses, because an admission policy or
// webhook denies it or cannot be reached. If such a pod cannot be evicted, evicting the other
// victims of the same order would be useless. So the next order tests the deletion by dry run
// before it changes anything.
//
// When deletions in a namespace have been refused for [patience], a pod that is refused again is
// protected for a while, together with its unit. A record lasts until the pod is gone. When a
// refused pod is deleted after all, the cause is probably gone. The other refused pods of its
// namespace then lose their protection.
//
// A refusal may also come from the object. The pod or its PodGroup is too large or invalid, or
// other clients change the PodGroup all the time. Such a pod is protected at once, and its refusal
// does not affect other pods. Refusals is safe for concurrent use.
type Refusals struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	pods map[types.UID]*refusedPod
	// namespaces maps each namespace with a refused deletion to the times of the refusals.
	namespaces map[string]refusing
	// changed is called with the node of a pod whose protection has changed.
	changed func(node string)
	// lifted is called when protections end early.
	lifted func()
}

// refusing has the times of the first and of the last refusal in a namespace.
type refusing struct{ since, last time.Time }

// refusedPod is the record of one pod whose deletion was refused.
type refusedPod struct {
	namespace, node string
	// since is the start of the current series of refusals. last is the time of the last refusal.
	since, last time.Time
	// until is the end of the protection, and length is its duration.
	until  time.Time
	length time.Duration
	// ofObject is true if the last refusal came from the pod or its PodGroup, and not from a policy
	// or webhook.
	ofObject bool
}

// protect starts a protection that is twice as long as the last one, between firstRefusal and
// longestRefusal.
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

// Follow sets two callbacks. changed is called with the node of a pod when Until returns another
// time for the pod. lifted is called when protections end early. Neither is called when a
// protection ends by time. Executions call them from their goroutines, so they must not block. Call
// Follow before the first order.
func (r *Refusals) Follow(changed func(node string), lifted func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed, r.lifted = changed, lifted
}

// Until returns the end of a pod's protection. It may be in the past, and is zero if there was no
// protection.
func (r *Refusals) Until(uid types.UID) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.pods[uid]; ok {
		return known.until
	}
	return time.Time{}
}

// Forget deletes the record of a pod that is gone.
func (r *Refusals) Forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, uid)
}

// Note records that an admission policy or webhook refused the deletion of a pod on a node. It
// reports whether the pod is protected now.
func (r *Refusals) Note(namespace, node string, uid types.UID) (protected bool) {
	r.mu.Lock()
	now := r.clock.Now()
	known := r.record(namespace, node, uid, now)
	known.ofObject = false
	maps.DeleteFunc(r.namespaces, func(_ string, there refusing) bool { return now.Sub(there.last) > dryRunTime })
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

// NoteObject records that a pod on a node cannot be evicted because of the pod or its PodGroup. The
// pod is protected at once, because the next try would fail in the same way.
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

// record returns the record of a pod whose deletion was refused now, and creates it if there is
// none. The caller holds the lock.
func (r *Refusals) record(namespace, node string, uid types.UID, now time.Time) *refusedPod {
	known, ok := r.pods[uid]
	if !ok || now.Sub(known.last) > dryRunTime+longestRefusal {
		known = &refusedPod{namespace: namespace, node: node}
		r.pods[uid] = known
	}
	if now.Sub(known.last) > unbroken {
		known.since = now
	}
	known.last = now
	return known
}

// deleted records that a pod was deleted. If its deletion had been refused, the cause is probably
// gone, so the other pods of its namespace lose their protection.
func (r *Refusals) deleted(uid types.UID) {
	r.mu.Lock()
	known, ok := r.pods[uid]
	delete(r.pods, uid)
	var nodes []string
	if ok {
		if there, refuses := r.namespaces[known.namespace]; refuses {
			// The time of patience begins again with the next refusal.
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

// lasting returns the time since the deletion of a pod was first refused, without a break; 0 if the
// last refusal is too long ago.
func (r *Refusals) lasting(uid types.UID) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.pods[uid]; ok && !known.ofObject && r.clock.Since(known.last) <= unbroken {
		return r.clock.Since(known.since)
	}
	return 0
}

// mayRefuse reports whether the deletion of a pod may be refused. That is so if its deletion was
// refused before, or if another deletion in its namespace was refused within dryRunTime.
// Refusals that come from an object do not count, because a dry run does not show them.
func (r *Refusals) mayRefuse(namespace string, uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.pods[uid]; ok && !known.ofObject {
		return true
	}
	there, ok := r.namespaces[namespace]
	if ok && r.clock.Since(there.last) > dryRunTime {
		delete(r.namespaces, namespace)
		ok = false
	}
	return ok
}

// refusedError is the error of a call that was refused and that [Refusals] has recorded.
type refusedError struct {
	error
	// protected is true if the pod is protected because of the refusal.
	protected bool
}

func (e refusedError) Unwrap() error { return e.error }

// vetoes collects refusals, so that the calls for other pods continue. It keeps the first one. It
// is safe for concurrent use.
type vetoes struct {
	mu    sync.Mutex
	first error
}

// besides stores a refusedError and returns nil. It returns any other error unchanged.
func (v *vetoes) besides(err error) error {
	if !errors.As(err, new(refusedError)) {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.first = cmp.Or(v.first, err)
	return nil
}

// isVeto reports whether the API server refused a call, changed nothing, and would refuse the call
// again. The reason is a webhook or policy that denied the call, a webhook that cannot be reached,
// or an object that is too large.
func isVeto(err error) bool {
	if isDenied(err) || isTooLarge(err) {
		return true
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err) || apierrors.IsUnauthorized(err) {
		return false
	}
	return podstatus.IsRefused(err) || isUnasked(err)
}

// isOfObject reports whether the API server refused a call because the object would be too large or
// invalid.
func isOfObject(err error) bool {
	return !isDenied(err) && (isTooLarge(err) || apierrors.IsInvalid(err))
}

// isTooLarge reports whether an object would be too large for the API server or for its store. It
// looks for texts, because the errors of the store have no reason.
func isTooLarge(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	s := status.Status()
	return s.Code == http.StatusRequestEntityTooLarge ||
		strings.Contains(s.Message, "request is too large") || strings.Contains(s.Message, "message larger than max")
}

// isUnasked reports whether a webhook could not be reached, or denied the call because of an
// internal error. Errors of the API server's store have the same status code, but no reason in the
// status. These errors do not count, because the write may still succeed afterwards.
func isUnasked(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	s := status.Status()
	return s.Code >= http.StatusInternalServerError && (s.Reason == metav1.StatusReasonInternalError || isDenied(err))
}

// isDenied reports whether a webhook or a policy denied the call. It looks at the message, because
// a webhook or policy may use any status code, such as 404 or 429. The API server uses these codes
// with other messages.
func isDenied(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	message := status.Status().Message
	return strings.Contains(message, "denied the request") || strings.Contains(message, "denied request:")
}
