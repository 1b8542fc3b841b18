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

// slot holds the status of one pod.
type slot struct {
	namespace, name string
	uid             types.UID

	// writing holds a token during a call, so that the calls for one pod run one after the other.
	writing chan struct{}

	// The Writer's lock guards the fields below.

	// node and conditions are the latest recorded status: the pod's node, or "" for no node, and at
	// most one condition of each type.
	node       string
	conditions []corev1.PodCondition
	// saying is a condition to write together with the node, if the node must be written.
	saying *corev1.PodCondition
	// writtenNode and writtenConditions are the status in the API, as far as this process wrote or
	// read it.
	writtenNode       string
	writtenConditions []corev1.PodCondition
	// unsure is true during a call, and after a failed call that may still have succeeded in the
	// API server.
	unsure bool
	// written is the time when the status in the API was last known.
	written time.Time
	// queued is true if a worker will handle the slot.
	queued bool
	// failures counts the failed tries in a row, up to mostFailures.
	failures int
	// bound is true once the pod is being bound. Nothing is written after that, unless the binding
	// fails.
	bound bool
	// users counts the open claims and the workers that use the slot. used is the time of the last
	// use.
	users int
	used  time.Time
}

func newSlot(namespace, name string, uid types.UID) *slot {
	return &slot{namespace: namespace, name: name, uid: uid, writing: make(chan struct{}, 1)}
}

// ref identifies the pod in log lines.
func (s *slot) ref() klog.ObjectRef { return klog.KRef(s.namespace, s.name) }

// isIdle reports whether no call for the pod is under way or planned.
func (s *slot) isIdle() bool { return s.users == 0 && !s.queued && !s.unsure && !s.bound }

// see replaces the written and recorded status by the status of a pod from the scheduler's cache.
// It is for slots that this process has not written for longer than memory.
func (s *slot) see(pod *corev1.Pod, now time.Time) {
	s.writtenNode, s.writtenConditions, s.written = pod.Status.NominatedNodeName, slices.Clone(pod.Status.Conditions), now
	s.node, s.conditions = s.writtenNode, nil
}

// lock waits for the pod's call under way. unlock admits the next call.
func (s *slot) lock(ctx context.Context) error {
	select {
	case s.writing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slot) unlock() { <-s.writing }

// missing returns the part of the recorded status that the API lacks or may lack.
func (s *slot) missing() map[string]any {
	if s.bound {
		return nil
	}
	status := make(map[string]any)
	if s.unsure || s.node != s.writtenNode {
		// Null removes the field.
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

// bring adds the condition in saying to the conditions if the node must be written anyway.
func (s *slot) bring() {
	if s.saying != nil && s.node != s.writtenNode {
		s.conditions, s.saying = setCondition(s.conditions, *s.saying), nil
	}
}

// next returns the conditions that the API lacks or may lack. Each keeps its transition time while
// its status is the same.
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

// setCondition replaces the condition of the same type, or appends the condition.
func setCondition(conditions []corev1.PodCondition, c corev1.PodCondition) []corev1.PodCondition {
	i := slices.IndexFunc(conditions, func(before corev1.PodCondition) bool { return before.Type == c.Type })
	if i < 0 {
		return append(conditions, c)
	}
	conditions[i] = c
	return conditions
}

// The fields of a pod's status that this package writes.
const (
	nominatedNodeName = "nominatedNodeName"
	conditions        = "conditions"
)

// describe returns a text for errors about a change.
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
