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

// priorities resolves PriorityClasses as the admission of Pods does (KEP-5710, "Pod Group
// priorities").
type priorities struct {
	classes schedulinglisters.PriorityClassLister
}

// resolution holds the values that a PriorityClass gives.
type resolution struct {
	priority int32
	policy   corev1.PreemptionPolicy
	// byDefault is the name of the global default class if the values come from it; otherwise "".
	byDefault string
}

// of resolves a class: the named class, or the global default, or priority 0. It returns nil if the
// named class does not exist.
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

// byDefault returns the values of the global default class. If there are several, the lowest
// counts, as for Pods.
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

// wellKnown returns the values of classes that are part of the API, or nil. The API server creates
// these classes, and recreates them after a deletion. A name may be resolved before it does.
func wellKnown(name string) *resolution {
	for _, class := range schedulingapi.SystemPriorityClasses() {
		if class.Name == name {
			return resolutionOf(class)
		}
	}
	return nil
}

// fill fills in the values of a class, for fields that are empty. If the priority comes from the
// global default class, fill also sets the name of that class, as the admission of Pods does. So
// the class's toleration counts even if another class becomes the default. It returns false if the
// class does not exist.
func (p priorities) fill(policy *v1alpha1.PodGroupPolicy) (bool, error) {
	if policy.Priority != nil && policy.PreemptionPolicy != nil {
		return true, nil
	}
	found, err := p.of(ptr.Deref(policy.PriorityClassName, ""))
	switch {
	case err != nil:
		return false, err
	case found == nil && policy.Priority != nil:
		// The class was deleted after the priority was copied from it. Its preemption policy is
		// unknown, so the group preempts nothing.
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

// withoutName removes the name of a class that fill has set, and reports whether it did. The
// CustomResourceDefinitions of builds before v0.1.0 accept the priority of the global default class
// only without the name.
func withoutName(before, after *v1alpha1.PodGroupPolicy) bool {
	if before.PriorityClassName != nil || after.PriorityClassName == nil {
		return false
	}
	after.PriorityClassName = nil
	return true
}
