package snapshot

import (
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

// ClassTolerations is the [Tolerations] that PriorityClasses give by their annotations. It is safe for concurrent use.
// When a class changes ([SameToleration]), the Cache has to be invalidated.
type ClassTolerations struct {
	classes schedulinglisters.PriorityClassLister

	mu sync.Mutex
	// policies are those of the classes as they were last; nil policies are remembered as well.
	policies map[string]knownPolicy
}

var _ Tolerations = (*ClassTolerations)(nil)

// NewClassTolerations reads the classes of a lister.
func NewClassTolerations(classes schedulinglisters.PriorityClassLister) *ClassTolerations {
	return &ClassTolerations{classes: classes, policies: make(map[string]knownPolicy)}
}

// knownPolicy is a class with what was read from it.
type knownPolicy struct {
	class  *schedulingv1.PriorityClass
	policy *preemptiontoleration.Policy
}

// of is the toleration that a class gives from a start on; nil where it has no policy, or a malformed one. The controller
// tells of those, and of classes that are missing.
func (t *ClassTolerations) of(className string, start time.Time) *core.Toleration {
	class, err := t.classes.Get(className)
	if err != nil {
		out := toleration(preemptiontoleration.MissingClass(), start)
		out.ClassNotFound = true
		return out
	}
	return toleration(t.policy(class), start)
}

// policy is that of a class; nil where there is none, and where it is malformed.
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

// OfPod is the toleration of a pod, whose clock starts when it is scheduled.
func (t *ClassTolerations) OfPod(pod *corev1.Pod) *core.Toleration {
	if pod.Spec.PriorityClassName == "" {
		return nil
	}
	return t.of(pod.Spec.PriorityClassName, preemptiontoleration.ScheduledAt(pod))
}

// OfGroup is the toleration of all members of a group of that priority, from a start on. A group without a class has
// the global default class's, as pods have. Another one may be the default by now than when the group got its
// priority: a class that gives another priority is none of the group's.
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

// defaultClass is the global default class, nil for none. Of several, the lowest counts, as for pods.
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

// toleration is a policy from a start on, in the core's form; nil for none.
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

// SameToleration reports whether a change of a class leaves all tolerations as they are.
func SameToleration(before, after *schedulingv1.PriorityClass) bool {
	if after.GlobalDefault != before.GlobalDefault {
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
