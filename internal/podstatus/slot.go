package podstatus

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// slot is what is known of one pod.
type slot struct {
	namespace, name string
	uid             types.UID

	// writing holds a token during a call, so that calls for one pod come one after the other.
	writing chan struct{}

	// The rest is guarded by the Writer's lock.

	// node and condition are what was said last: where the pod is expected, "" for nowhere, and why it is not scheduled,
	// nil for nothing.
	node      string
	condition *corev1.PodCondition
	// writtenNode and writtenCondition are what the API says, as far as this process has had a hand in it.
	writtenNode      string
	writtenCondition *corev1.PodCondition
	// unsure is set while a call is under way, and after one that may have come through although it failed.
	unsure bool
	// written is when it was known last what the API says.
	written time.Time
	// queued is set where a worker is going to look at it.
	queued bool
	// bound is set once the pod is being bound: nothing is written about it any more.
	bound bool
	// users are the claims that have not been written, and the workers at it; used is when there was something to say last.
	users int
	used  time.Time
}

// isIdle reports whether nobody has anything to do with the pod.
func (s *slot) isIdle() bool { return s.users == 0 && !s.queued && !s.unsure && !s.bound }

// see takes over what the API says of a pod of which this process has not written anything for long.
func (s *slot) see(pod *corev1.Pod, now time.Time) {
	s.writtenNode, s.writtenCondition, s.written = pod.Status.NominatedNodeName, scheduledCondition(&pod.Status), now
	s.node, s.condition = s.writtenNode, nil
}

// lock waits for the call that is under way about the pod, and unlock lets the next one be made.
func (s *slot) lock(ctx context.Context) error {
	select {
	case s.writing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slot) unlock() { <-s.writing }

// missing is the part of the status that the API does not have, or may not have.
func (s *slot) missing() map[string]any {
	if s.bound {
		return nil
	}
	status := make(map[string]any)
	if s.unsure || s.node != s.writtenNode {
		// Null takes the field away.
		status[nominatedNodeName] = nil
		if s.node != "" {
			status[nominatedNodeName] = s.node
		}
	}
	if c := s.next(); c != nil {
		status[conditions] = []corev1.PodCondition{*c}
	}
	return status
}

// next is the condition that the API should have and does not; nil for none. It keeps since when a condition holds.
func (s *slot) next() *corev1.PodCondition {
	if s.condition == nil {
		return nil
	}
	next, before := s.condition.DeepCopy(), corev1.PodStatus{}
	if s.writtenCondition != nil {
		before.Conditions = []corev1.PodCondition{*s.writtenCondition}
	}
	if changed := podutil.UpdatePodCondition(&before, next); !changed && !s.unsure {
		return nil
	}
	return next
}

// The fields of a pod's status that are written here.
const (
	nominatedNodeName = "nominatedNodeName"
	conditions        = "conditions"
)

// describe says what a change does.
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

// scheduledCondition is a copy of the condition PodScheduled; nil where there is none.
func scheduledCondition(status *corev1.PodStatus) *corev1.PodCondition {
	_, condition := podutil.GetPodCondition(status, corev1.PodScheduled)
	return condition.DeepCopy()
}
