package snapshot

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/labels"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// ClassTolerations is a source of [Tolerations] that reads the annotations of PriorityClasses. It
// also returns the values and preemption policies of the classes. It is safe for concurrent use.
// The Cache must be invalidated when a class changes and [SameToleration] returns false.
type ClassTolerations struct {
	classes schedulinglisters.PriorityClassLister

	mu sync.Mutex
	// policies caches the policies of classes by name. Nil policies are cached too.
	policies map[string]knownPolicy
}

var _ Tolerations = (*ClassTolerations)(nil)

// NewClassTolerations returns a ClassTolerations that finds classes with a lister.
func NewClassTolerations(classes schedulinglisters.PriorityClassLister) *ClassTolerations {
	return &ClassTolerations{classes: classes, policies: make(map[string]knownPolicy)}
}

// knownPolicy has the cached policies of a class, with the version of the class that they were read
// from. never is the policy of groups with the disruption mode Never.
type knownPolicy struct {
	class         *schedulingv1.PriorityClass
	policy, never *preemptiontoleration.Policy
}

// of returns the toleration of a class, for a protection that begins at start. It returns nil if
// the class has no valid policy. If the class does not exist, the result has ClassNotFound. A
// controller reports both faults.
func (t *ClassTolerations) of(className string, start time.Time) *core.Toleration {
	class, err := t.classes.Get(className)
	if err != nil {
		out := toleration(preemptiontoleration.MissingClass(), start)
		out.ClassNotFound = true
		return out
	}
	return toleration(t.known(class).policy, start)
}

// known returns the policies of a class. A policy that is not valid is nil.
func (t *ClassTolerations) known(class *schedulingv1.PriorityClass) knownPolicy {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.policies[class.Name]; ok && known.class == class {
		return known
	}
	known := knownPolicy{class: class}
	if policy, err := preemptiontoleration.FromPriorityClass(class); err == nil {
		known.policy = policy
	}
	if policy, err := preemptiontoleration.NeverFromPriorityClass(class); err == nil {
		known.never = policy
	}
	t.policies[class.Name] = known
	return known
}

// OfNever returns the toleration of groups with a PriorityClass and the disruption mode Never, for
// a protection that begins at start. It returns nil if the class does not exist or sets no valid
// length.
func (t *ClassTolerations) OfNever(name string, start time.Time) *core.Toleration {
	class, err := t.classes.Get(name)
	if err != nil {
		return nil
	}
	out := toleration(t.known(class).never, start)
	if out != nil {
		out.Never = true
	}
	return out
}

// BoundOf returns the effect of a PriorityClass on the disruption mode Never.
func (t *ClassTolerations) BoundOf(name string) gang.Bound {
	class, err := t.classes.Get(name)
	if err != nil {
		return gang.Bound{Class: name}
	}
	out, known := gang.Bound{Class: name, Exists: true}, t.known(class)
	if known.never != nil {
		out.Seconds, out.Below = known.never.TolerationSeconds, known.never.MinimumPreemptablePriority
	}
	if known.policy != nil {
		out.Tolerates = known.policy.TolerationSeconds
	}
	return out
}

// ValueOf returns the value of a class; false if the class does not exist.
func (t *ClassTolerations) ValueOf(name string) (int32, bool) {
	class, err := t.classes.Get(name)
	if err != nil {
		return 0, false
	}
	return class.Value, true
}

// NeverPreempts reports whether the pods of a group, or pods without a group, must not preempt. The
// preemption policy of the group decides if it is set, otherwise the policy of the group's
// PriorityClass. If neither exists, the result is true if any of the pods never preempts.
func (t *ClassTolerations) NeverPreempts(g *gang.Group, pods ...*corev1.Pod) bool {
	if g != nil && g.PreemptionPolicy != "" {
		return g.PreemptionPolicy == corev1.PreemptNever
	}
	if g != nil && g.PriorityClassName != "" {
		if class, err := t.classes.Get(g.PriorityClassName); err == nil {
			return class.PreemptionPolicy != nil && *class.PreemptionPolicy == corev1.PreemptNever
		}
	}
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		return pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever
	})
}

// OfClass returns the toleration of work with a PriorityClass, for a protection that begins at
// start. It returns nil for the name "".
func (t *ClassTolerations) OfClass(name string, start time.Time) *core.Toleration {
	if name == "" {
		return nil
	}
	return t.of(name, start)
}

// OfPod returns the toleration of a pod. The protection begins when the pod is scheduled.
func (t *ClassTolerations) OfPod(pod *corev1.Pod) *core.Toleration {
	if pod.Spec.PriorityClassName == "" {
		return nil
	}
	return t.of(pod.Spec.PriorityClassName, preemptiontoleration.ScheduledAt(pod))
}

// OfGroup returns the toleration of a group with a priority, for a protection that begins at start.
// A group without a class uses the global default class, as pods do. The default may have changed
// after the group got its priority. So the default class counts only if its value equals the
// priority of the group.
func (t *ClassTolerations) OfGroup(g *gang.Group, priority int32, start time.Time) *core.Toleration {
	name := g.PriorityClassName
	if name == "" {
		class := t.defaultClass()
		if class == nil || class.Value != priority {
			return nil
		}
		name = class.Name
	}
	return t.of(name, start)
}

// defaultClass returns the global default class; nil for none. If several classes are global
// defaults, it returns the class with the lowest value, as for pods.
func (t *ClassTolerations) defaultClass() *schedulingv1.PriorityClass {
	all, err := t.classes.List(labels.Everything())
	if err != nil {
		return nil
	}
	var found *schedulingv1.PriorityClass
	for _, class := range all {
		if class.GlobalDefault && (found == nil || class.Value < found.Value) {
			found = class
		}
	}
	return found
}

// toleration converts a policy to the form of the core, for a protection that begins at start; nil
// for none.
func toleration(policy *preemptiontoleration.Policy, start time.Time) *core.Toleration {
	if policy == nil || policy.TolerationSeconds == 0 {
		return nil
	}
	t := &core.Toleration{Below: policy.MinimumPreemptablePriority, Until: Nanos(policy.Until(start))}
	if start.IsZero() {
		t.Lasts = max(policy.TolerationSeconds, 0) * int64(time.Second)
	}
	return t
}

// SameToleration reports whether two versions of a class give the same tolerations and priorities.
// The value of a class differs only if the class was deleted and created again while no watch was
// open.
func SameToleration(before, after *schedulingv1.PriorityClass) bool {
	if after.GlobalDefault != before.GlobalDefault || after.Value != before.Value {
		return false
	}
	for _, key := range []string{preemptiontoleration.AnnotationMinimumPreemptablePriority, preemptiontoleration.AnnotationTolerationSeconds, preemptiontoleration.AnnotationNeverSeconds} {
		now, is := after.Annotations[key]
		if then, was := before.Annotations[key]; is != was || now != then {
			return false
		}
	}
	return true
}
