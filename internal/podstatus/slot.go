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

	// wanted is the node that was said last.
	wanted string
	// written is what the API says, as far as this process has had a hand in it.
	written string
	// condition is what the API should say and does not; nil for nothing. said is what it says.
	condition, said *corev1.PodCondition
	// bound is set once the pod is being bound: nothing is written about it any more.
	bound bool
	// users are the claims that have not been written; used is when the last was.
	users int
	used  time.Time
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

// missing is the part of the status that the API does not have, and what it says.
func (s *slot) missing() (status map[string]any, node string, condition *corev1.PodCondition) {
	if s.bound {
		return nil, "", nil
	}
	status = make(map[string]any)
	if s.wanted != s.written {
		// Null takes the field away.
		status[nominatedNodeName] = nil
		if s.wanted != "" {
			status[nominatedNodeName] = s.wanted
		}
	}
	if s.condition != nil {
		status[conditions] = []corev1.PodCondition{*s.condition}
	}
	return status, s.wanted, s.condition
}

// wrote takes note of a call that has come through.
func (s *slot) wrote(node string, condition *corev1.PodCondition) {
	s.written = node
	if condition == nil {
		return
	}
	s.said = condition
	if s.condition == condition {
		s.condition = nil
	}
}

// say takes over a condition, unless the API says so already.
func (s *slot) say(condition *corev1.PodCondition) {
	next, before := condition.DeepCopy(), corev1.PodStatus{}
	if s.said != nil {
		before.Conditions = []corev1.PodCondition{*s.said}
	}
	s.condition = nil
	// It knows when a condition is another one, and since when it holds.
	if podutil.UpdatePodCondition(&before, next) {
		s.condition = next
	}
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
