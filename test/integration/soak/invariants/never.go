package invariants

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// neverSeconds is the annotation of a PriorityClass with the length of the protection of PodGroups
// in disruption mode Never.
const neverSeconds = "reprieve.dev/never-seconds"

// SeeTree processes a new state of a CompositePodGroup.
func (c *Checker) SeeTree(tree *v1alpha1.CompositePodGroup) {
	c.counts.States++
	c.trees[keyOf(tree)] = tree
}

// TreeGone processes the end of a CompositePodGroup's existence.
func (c *Checker) TreeGone(name types.NamespacedName) {
	c.counts.States++
	delete(c.trees, name)
}

// rootOf returns the root of the tree of a PodGroup; nil if a parent is unknown. It is also nil if
// a CompositePodGroup above the PodGroup is evicted as a whole. The mode Never has no effect then.
func (c *Checker) rootOf(pg *v1alpha1.PodGroup) (root *v1alpha1.CompositePodGroup) {
	parent := ptr.Deref(pg.Spec.ParentCompositePodGroupName, "")
	for range len(c.trees) {
		if parent == "" {
			break
		}
		root = c.trees[types.NamespacedName{Namespace: pg.Namespace, Name: parent}]
		if root == nil || ptr.Deref(root.Spec.DisruptionMode, "") == v1alpha1.CompositeDisruptionModeAll {
			return nil
		}
		parent = ptr.Deref(root.Spec.ParentCompositePodGroupName, "")
	}
	return root
}

// neverClassOf returns the PriorityClass that bounds the mode Never of a PodGroup: the class of its
// tree. It returns "" if the mode has no effect.
func (c *Checker) neverClassOf(pg *v1alpha1.PodGroup) string {
	if ptr.Deref(pg.Spec.DisruptionMode, "") != v1alpha1.DisruptionModeNever || minCountOf(pg) == 0 {
		return ""
	}
	root := c.rootOf(pg)
	if root == nil {
		return ""
	}
	return ptr.Deref(root.Spec.PriorityClassName, "")
}

// placeTree records the time when the first pod of a tree got its node. The run of the tree begins
// then or later.
func (c *Checker) placeTree(pod *corev1.Pod, pg *v1alpha1.PodGroup) {
	root := c.rootOf(pg)
	if root == nil {
		return
	}
	if _, ok := c.begun[root.UID]; ok {
		return
	}
	if at, ok := scheduledAt(pod); ok {
		c.begun[root.UID] = at
	}
}

// neverUntil reports whether the mode Never protects a victim from preemptors with the given
// priority, and returns the end of the protection. As for tolerations, the current state must
// protect the victim, and so must the state at the time when each of its pods got its node.
func (c *Checker) neverUntil(victim unit, priority int32) (until time.Time, protects bool) {
	if victim.group == nil || c.neverClassOf(victim.group.PodGroup) == "" {
		return time.Time{}, false
	}
	begun, ok := c.begun[c.rootOf(victim.group.PodGroup).UID]
	if !ok {
		return time.Time{}, false
	}
	classes := []string{c.neverClassOf(victim.group.PodGroup)}
	for _, p := range c.placements(victim) {
		classes = append(classes, p.never)
	}
	for _, name := range classes {
		class := c.classes[name]
		if class == nil {
			return time.Time{}, false
		}
		seconds, least := neverOf(class)
		if seconds <= 0 || int64(priority) >= least {
			return time.Time{}, false
		}
		if at := begun.Add(time.Duration(seconds) * time.Second); until.IsZero() || at.Before(until) {
			until = at
		}
	}
	return until, true
}

// neverOf returns the length of the protection that a class gives to PodGroups in mode Never, in
// seconds, and the least priority that may still preempt. The length 0 means no protection.
func neverOf(class *schedulingv1.PriorityClass) (seconds, least int64) {
	seconds, err := strconv.ParseInt(class.Annotations[neverSeconds], 10, 64)
	if err != nil {
		return 0, 0
	}
	text, ok := class.Annotations[minimumPriority]
	if !ok {
		return seconds, int64(class.Value) + 1
	}
	if least, err = strconv.ParseInt(text, 10, 32); err != nil {
		return 0, 0
	}
	return seconds, least
}
