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

// ClassTolerations are the [Tolerations] from the annotations of PriorityClasses, with the values
// and preemption policies of the classes. It is safe for concurrent use. When a class changes
// ([SameToleration]), the Cache must be invalidated.
type ClassTolerations struct {
	classes schedulinglisters.PriorityClassLister

	mu sync.Mutex
	// policies has the policies of the classes at the last reading. Nil policies are cached too.
	policies map[string]knownPolicy
}

var _ Tolerations = (*ClassTolerations)(nil)

// NewClassTolerations returns the tolerations from the classes of a lister.
func NewClassTolerations(classes schedulinglisters.PriorityClassLister) *ClassTolerations {
	return &ClassTolerations{classes: classes, policies: make(map[string]knownPolicy)}
}

// knownPolicy is a class with the policy read from it.
type knownPolicy struct {
	class  *schedulingv1.PriorityClass
	policy *preemptiontoleration.Policy
}

// of returns the toleration of a class, for a protection that begins at start; nil if the class has
// no valid policy. A controller reports invalid policies and missing classes.
func (t *ClassTolerations) of(className string, start time.Time) *core.Toleration {
	class, err := t.classes.Get(className)
	if err != nil {
		out := toleration(preemptiontoleration.MissingClass(), start)
		out.ClassNotFound = true
		return out
	}
	return toleration(t.policy(class), start)
}

// policy returns the policy of a class; nil if the class has no valid policy.
func (t *ClassTolerations) policy(class *schedulingv1.PriorityClass) *preemptiontoleration.Policy {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.policies[class.Name]; ok && known.class == class {
		return known.policy
	}
	policy, err := preemptiontoleration.FromPriorityClass(class)
	if err != nil {
		policy = nil
	}
	t.policies[class.Name] = knownPolicy{class: class, policy: policy}
	return policy
}

// ValueOf returns the value of a class; false if the class does not exist.
func (t *ClassTolerations) ValueOf(name string) (int32, bool) {
	class, err := t.classes.Get(name)
	if err != nil {
		return 0, false
	}
	return class.Value, true
}

// NeverPreempts reports whether a group, or pods without a group, may not preempt. If the group has
// no policy of its own, its PriorityClass decides. If that class does not exist, the pods decide:
// one pod that never preempts is enough.
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

// OfClass returns the toleration of work that has a class, for a protection that begins at start;
// nil for the name "".
func (t *ClassTolerations) OfClass(name string, start time.Time) *core.Toleration {
	if name == "" {
		return nil
	}
	return t.of(name, start)
}

// OfPod returns the toleration of a pod. Its protection begins when the pod is scheduled.
func (t *ClassTolerations) OfPod(pod *corev1.Pod) *core.Toleration {
	if pod.Spec.PriorityClassName == "" {
		return nil
	}
	return t.of(pod.Spec.PriorityClassName, preemptiontoleration.ScheduledAt(pod))
}

// OfGroup returns the toleration of all members of a group with a priority, for a protection that
// begins at start. A group without a class uses the global default class, as pods do. The default
// may have changed since the group got its priority, so a default class with another value is
// ignored.
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

// defaultClass returns the global default class; nil for none. If there are several, it returns the
// one with the lowest value, like the admission of pods.
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

// toleration converts a policy to the core's form, for a protection that begins at start; nil for
// none.
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

// SameToleration reports whether a change of a class changes no toleration and no priority. The
// value of a class changes only if the class is deleted and created again while no watch is open.
func SameToleration(before, after *schedulingv1.PriorityClass) bool {
	if after.GlobalDefault != before.GlobalDefault || after.Value != before.Value {
		return false
	}
	for _, key := range []string{preemptiontoleration.AnnotationMinimumPreemptablePriority, preemptiontoleration.AnnotationTolerationSeconds} {
		now, is := after.Annotations[key]
		if then, was := before.Annotations[key]; is != was || now != then {
			return false
		}
	}
	return true
}
