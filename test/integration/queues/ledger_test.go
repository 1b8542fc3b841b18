package queues

import (
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// ledger records the state of all pods. It receives each change through a watch, so it sees every
// intermediate state. The name of a pod begins with the name of its queue.
type ledger struct {
	mu   sync.Mutex
	pods map[types.UID]*corev1.Pod
	// last is the time of the last change that affects the status of queues.
	last time.Time
	// seen is called after every change, with mu held. It may be nil.
	seen func(*ledger)
}

// follow returns a ledger that is updated until the test ends.
func (c *cluster) follow(seen func(*ledger)) *ledger {
	c.Helper()
	b := &ledger{pods: make(map[types.UID]*corev1.Pod), seen: seen}
	c.FollowPods("", b.take)
	return b
}

func (b *ledger) take(change watch.EventType, pod *corev1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.pods[pod.UID]
	if change == watch.Deleted || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		delete(b.pods, pod.UID)
	} else {
		b.pods[pod.UID] = pod
	}
	after := b.pods[pod.UID]
	if before == nil || after == nil || isPlaced(before) != isPlaced(after) || isGoing(before) != isGoing(after) {
		b.last = time.Now()
	}
	if b.seen != nil {
		b.seen(b)
	}
}

func isPlaced(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" }
func isGoing(pod *corev1.Pod) bool  { return pod.DeletionTimestamp != nil }

// account has the numbers of GPUs that the pods of a queue use and request.
type account struct{ allocated, requested int64 }

// accounts adds up the values of count for the pods of each queue. Call it with mu held.
func (b *ledger) accounts(count func(*corev1.Pod) int64) map[string]account {
	out := make(map[string]account)
	for _, pod := range b.pods {
		queue, _, _ := strings.Cut(pod.Name, "-")
		a := out[queue]
		if isPlaced(pod) {
			a.allocated += count(pod)
		}
		if !isGoing(pod) {
			a.requested += count(pod)
		}
		out[queue] = a
	}
	return out
}

// gpusOf returns the number of GPUs that a pod requests.
func gpusOf(pod *corev1.Pod) int64 {
	q := pod.Spec.Containers[0].Resources.Requests[gpu]
	return q.Value()
}

// settled reports whether all pods have a node and none is terminating. Call it without mu.
func (b *ledger) settled() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, pod := range b.pods {
		if !isPlaced(pod) || isGoing(pod) {
			return false
		}
	}
	return true
}

// at calls f with mu held.
func (b *ledger) at(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}
