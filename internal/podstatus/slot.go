package podstatus

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// slot is the status of one pod: the recorded status, and the status in the API.
type slot struct {
	namespace, name string
	uid             types.UID

	// writing holds one value during a call, so that the calls for a pod run one after the other.
	writing chan struct{}

	// The Writer's lock guards the fields below.

	// node is the recorded node. It is empty if the pod must have none.
	node string
	// conditions are the recorded conditions, at most one of each type.
	conditions []corev1.PodCondition
	// saying is a condition to write only in a call that also writes the node.
	saying *corev1.PodCondition
	// writtenNode is the node in the API, as far as this process knows.
	writtenNode string
	// writtenConditions are the conditions in the API, as far as this process knows.
	writtenConditions []corev1.PodCondition
	// unsure is true if the status in the API may differ from writtenNode and writtenConditions.
	// This is so during a call, and after a failed call that may have changed the pod.
	unsure bool
	// written is the time when writtenNode and writtenConditions were last set.
	written time.Time
	// queued is true if a worker will write the slot's status.
	queued bool
	// failures is the number of consecutive failed tries, at most mostFailures.
	failures int
	// bound is true from the start of the pod's binding. No status is written while it is true. A
	// failed binding sets it to false.
	bound bool
	// shown is true once the informer has shown the pod on a node.
	shown bool
	// users is the number of open claims and workers that use the slot. used is the time of the
	// last use.
	users int
	used  time.Time
}

func newSlot(namespace, name string, uid types.UID) *slot {
	return &slot{namespace: namespace, name: name, uid: uid, writing: make(chan struct{}, 1)}
}

// ref returns the reference to the pod for log lines.
func (s *slot) ref() klog.ObjectRef { return klog.KRef(s.namespace, s.name) }

// isIdle reports whether no call for the pod is running or planned and its status in the API is
// certain.
func (s *slot) isIdle() bool { return s.users == 0 && !s.queued && !s.unsure && !s.bound }

// see sets the slot's status to the pod's status in the scheduler's cache. Use it only if this
// process has not written the pod's status for longer than memory.
func (s *slot) see(pod *corev1.Pod, now time.Time) {
	s.writtenNode, s.writtenConditions, s.written = pod.Status.NominatedNodeName, slices.Clone(pod.Status.Conditions), now
	s.node, s.conditions = s.writtenNode, nil
}

// lock waits until no call for the pod is running, and keeps other calls waiting until unlock.
func (s *slot) lock(ctx context.Context) error {
	select {
	case s.writing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slot) unlock() { <-s.writing }

// missing returns the fields of the recorded status that the API lacks or may lack.
func (s *slot) missing() map[string]any {
	if s.bound {
		return nil
	}
	status := make(map[string]any)
	if s.unsure || s.node != s.writtenNode {
		// In a patch, null removes a field.
		status[nominatedNodeName] = nil
		if s.node != "" {
			status[nominatedNodeName] = s.node
		}
	}
	if next := s.next(); len(next) > 0 {
		status[conditions] = next
	}
	return status
}

// bring moves the condition saying to the conditions if the node must be written.
func (s *slot) bring() {
	if s.saying != nil && s.node != s.writtenNode {
		s.conditions, s.saying = setCondition(s.conditions, *s.saying), nil
	}
}

// next returns the recorded conditions that the API lacks or may lack. A condition keeps its
// transition time if its status has not changed.
func (s *slot) next() []corev1.PodCondition {
	var next []corev1.PodCondition
	for _, c := range s.conditions {
		before := corev1.PodStatus{Conditions: slices.Clone(s.writtenConditions)}
		if changed := podutil.UpdatePodCondition(&before, &c); changed || s.unsure {
			next = append(next, c)
		}
	}
	return next
}

// setCondition replaces the condition that has the type of c. If there is none, it appends c.
func setCondition(conditions []corev1.PodCondition, c corev1.PodCondition) []corev1.PodCondition {
	i := slices.IndexFunc(conditions, func(before corev1.PodCondition) bool { return before.Type == c.Type })
	if i < 0 {
		return append(conditions, c)
	}
	conditions[i] = c
	return conditions
}

// These are the fields of a pod's status that this package writes.
const (
	nominatedNodeName = "nominatedNodeName"
	conditions        = "conditions"
)

// describe returns a text for the error of a failed change.
func (s *slot) describe(status map[string]any) string {
	node, nominates := status[nominatedNodeName]
	switch {
	case !nominates:
		return fmt.Sprintf("say why pod %s/%s is not scheduled", s.namespace, s.name)
	case node == nil:
		return fmt.Sprintf("take the nomination of pod %s/%s back", s.namespace, s.name)
	default:
		return fmt.Sprintf("nominate pod %s/%s for node %q", s.namespace, s.name, node)
	}
}
