package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/labels"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// tolerations reads the preemption toleration of PriorityClasses. Only scheduling cycles use it, through the
// mirror, which takes everything in anew when a policy has changed.
type tolerations struct {
	classes schedulinglisters.PriorityClassLister
	// policies are those of the classes as they were last; nil policies are remembered as well.
	policies map[string]knownPolicy
}

type knownPolicy struct {
	class  *schedulingv1.PriorityClass
	policy *preemptiontoleration.Policy
}

// policy is that of a class; nil where there is none, where it is malformed, and where the class is missing.
// The controller tells of the malformed ones.
func (t *tolerations) policy(className string) *preemptiontoleration.Policy {
	class, err := t.classes.Get(className)
	if err != nil {
		return nil
	}
	if known, ok := t.policies[className]; ok && known.class == class {
		return known.policy
	}
	policy, err := preemptiontoleration.FromPriorityClass(class)
	if err != nil {
		policy = nil
	}
	if t.policies == nil {
		t.policies = make(map[string]knownPolicy)
	}
	t.policies[className] = knownPolicy{class: class, policy: policy}
	return policy
}

// ofPod is the toleration of a pod, whose clock starts when it is scheduled.
func (t *tolerations) ofPod(pod *corev1.Pod) *core.Toleration {
	if pod.Spec.PriorityClassName == "" {
		return nil
	}
	return toleration(t.policy(pod.Spec.PriorityClassName), preemptiontoleration.ScheduledAt(pod))
}

// ofGroup is the toleration of all members of a group of that priority, from a start on. A group without a class has
// the global default class's, as pods have. Another one may be the default by now than when the group got its
// priority: a class that gives another priority is none of the group's.
func (t *tolerations) ofGroup(g *gang.Group, priority int32, start time.Time) *core.Toleration {
	name := g.PriorityClassName
	if name == "" {
		class := t.defaultClass()
		if class == nil || class.Value != priority {
			return nil
		}
		name = class.Name
	}
	return toleration(t.policy(name), start)
}

// defaultClass is the global default class, nil for none. Of several, the lowest counts, as for pods.
func (t *tolerations) defaultClass() *schedulingv1.PriorityClass {
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
	return &core.Toleration{Below: policy.MinimumPreemptablePriority, Until: nanos(policy.Until(start))}
}

// watchTolerations has the mirror taken in anew, and everyone try again whom a protection kept out, when the
// policy of a class changes.
func (h *Hub) watchTolerations(informer cache.SharedIndexInformer) error {
	changed := func(any) {
		h.mirror.renew()
		h.timers.fire()
		h.timers.release()
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		DeleteFunc: changed,
		UpdateFunc: func(before, after any) {
			if b, ok := before.(*schedulingv1.PriorityClass); ok && !samePolicy(b, after) {
				changed(after)
			}
		},
	})
	return err
}

func samePolicy(before *schedulingv1.PriorityClass, after any) bool {
	a, ok := after.(*schedulingv1.PriorityClass)
	if !ok || a.GlobalDefault != before.GlobalDefault {
		return false
	}
	for _, key := range []string{preemptiontoleration.AnnotationMinimumPreemptablePriority, preemptiontoleration.AnnotationTolerationSeconds} {
		if a.Annotations[key] != before.Annotations[key] {
			return false
		}
	}
	return true
}
