package controller

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	schedulingapi "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// priorities resolves the names of PriorityClasses to priorities, as the API server does for Pods
// (KEP-5710, "Pod Group priorities").
type priorities struct {
	classes schedulinglisters.PriorityClassLister
}

// resolution is the result of resolving a PriorityClass.
type resolution struct {
	priority int32
	policy   corev1.PreemptionPolicy
	// byDefault is the name of the global default class if the values come from that class;
	// otherwise "".
	byDefault string
}

// of returns the values of the named class. If name is "", it returns the values of the global
// default class, or priority 0 if there is none. It returns nil if the named class does not exist.
func (p priorities) of(name string) (*resolution, error) {
	if name == "" {
		return p.byDefault()
	}
	class, err := p.classes.Get(name)
	switch {
	case apierrors.IsNotFound(err):
		return wellKnown(name), nil
	case err != nil:
		return nil, fmt.Errorf("get PriorityClass %q: %w", name, err)
	}
	return resolutionOf(class), nil
}

// byDefault returns the values of the global default class. If several classes are global defaults,
// the class with the lowest priority counts, as for Pods.
func (p priorities) byDefault() (*resolution, error) {
	all, err := p.classes.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list PriorityClasses: %w", err)
	}
	out := &resolution{priority: int32(scheduling.DefaultPriorityWhenNoDefaultClassExists), policy: corev1.PreemptLowerPriority}
	found := false
	for _, class := range all {
		if class.GlobalDefault && (!found || class.Value < out.priority) {
			out, found = resolutionOf(class), true
			out.byDefault = class.Name
		}
	}
	return out, nil
}

func resolutionOf(class *schedulingv1.PriorityClass) *resolution {
	return &resolution{
		priority: class.Value,
		policy:   ptr.Deref(class.PreemptionPolicy, corev1.PreemptLowerPriority),
	}
}

// wellKnown returns the values of a class that is part of the Kubernetes API; nil for other names.
// The API server creates these classes at its start, but a controller may look up such a name
// before that.
func wellKnown(name string) *resolution {
	for _, class := range schedulingapi.SystemPriorityClasses() {
		if class.Name == name {
			return resolutionOf(class)
		}
	}
	return nil
}

// fill sets the empty priority and preemption policy from the class. If the values come from the
// global default class, fill also sets the name of that class, as the API server does for Pods. So
// the toleration of that class stays in force if another class becomes the default. fill returns
// false if the named class does not exist.
func (p priorities) fill(policy *v1alpha1.PodGroupPolicy) (bool, error) {
	if policy.Priority != nil && policy.PreemptionPolicy != nil {
		return true, nil
	}
	found, err := p.of(ptr.Deref(policy.PriorityClassName, ""))
	switch {
	case err != nil:
		return false, err
	case found == nil && policy.Priority != nil:
		// The class was deleted after its priority was copied. Its preemption policy is unknown, so
		// the group must not preempt.
		policy.PreemptionPolicy = ptr.To(corev1.PreemptNever)
		return true, nil
	case found == nil:
		return false, nil
	}
	if policy.Priority == nil {
		policy.Priority = &found.priority
		if found.byDefault != "" {
			policy.PriorityClassName = &found.byDefault
		}
	}
	if policy.PreemptionPolicy == nil {
		policy.PreemptionPolicy = &found.policy
	}
	return true, nil
}

// withoutName removes the class name that fill has set, and reports whether there was one.
// CustomResourceDefinitions of builds before v0.1.0 reject the name of the global default class.
func withoutName(before, after *v1alpha1.PodGroupPolicy) bool {
	if before.PriorityClassName != nil || after.PriorityClassName == nil {
		return false
	}
	after.PriorityClassName = nil
	return true
}
