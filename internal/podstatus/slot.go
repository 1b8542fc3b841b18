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

// slot is what is known of one pod.
type slot struct {
	namespace, name string
	uid             types.UID

	// writing holds a token during a call, so that calls for one pod come one after the other.
	writing chan struct{}

	// The rest is guarded by the Writer's lock.

	// node and conditions are what was said last: where the pod is expected, "" for nowhere, and why it is not scheduled,
	// at most one condition of a type.
	node       string
	conditions []corev1.PodCondition
	// saying is a condition that goes with the node, if that has to be written.
	saying *corev1.PodCondition
	// writtenNode and writtenConditions are what the API says, as far as this process has had a hand in it.
	writtenNode       string
	writtenConditions []corev1.PodCondition
	// unsure is set while a call is under way, and after one that may have come through although it failed.
	unsure bool
	// written is when it was known last what the API says.
	written time.Time
	// queued is set where a worker is going to look at it.
	queued bool
	// failures counts in a row that what is missing could not be written.
	failures int
	// bound is set once the pod is being bound: nothing is written about it any more, unless the binding fails.
	bound bool
	// users are the claims that have not been written, and the workers at it; used is when there was something to say last.
	users int
	used  time.Time
}

func newSlot(namespace, name string, uid types.UID) *slot {
	return &slot{namespace: namespace, name: name, uid: uid, writing: make(chan struct{}, 1)}
}

// ref names the pod in log lines.
func (s *slot) ref() klog.ObjectRef { return klog.KRef(s.namespace, s.name) }

// isIdle reports whether nothing is under way for the pod, or going to be.
func (s *slot) isIdle() bool { return s.users == 0 && !s.queued && !s.unsure && !s.bound }

// see takes over what the API says of a pod of which this process has not written anything for long.
func (s *slot) see(pod *corev1.Pod, now time.Time) {
	s.writtenNode, s.writtenConditions, s.written = pod.Status.NominatedNodeName, slices.Clone(pod.Status.Conditions), now
	s.node, s.conditions = s.writtenNode, nil
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
	if next := s.next(); len(next) > 0 {
		status[conditions] = next
	}
	return status
}

// bring has the call that tells of the node say what goes with it.
func (s *slot) bring() {
	if s.saying != nil && s.node != s.writtenNode {
		s.conditions, s.saying = setCondition(s.conditions, *s.saying), nil
	}
}

// next are the conditions that the API should have and does not. Each keeps since when it holds.
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

// setCondition puts a condition in the place of the one of its type.
func setCondition(conditions []corev1.PodCondition, c corev1.PodCondition) []corev1.PodCondition {
	i := slices.IndexFunc(conditions, func(before corev1.PodCondition) bool { return before.Type == c.Type })
	if i < 0 {
		return append(conditions, c)
	}
	conditions[i] = c
	return conditions
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
