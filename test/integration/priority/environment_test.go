package priority

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// env is a playground with the namespace of one test.
type env struct {
	*stage.Stage
}

// in creates a namespace for a test. Each test has its own nodes.
func (e *env) in(t *testing.T) *env {
	t.Helper()
	return &env{e.In(t)}
}

func (e *env) remove(o client.Object) {
	e.Helper()
	if err := e.Objects.Delete(e.Context(), o); err != nil {
		e.Fatalf("delete %T %s: %v", o, o.GetName(), err)
	}
}

func byDefault(c *schedulingv1.PriorityClass) { c.GlobalDefault = true }

// gangOf returns the policy of a gang. className may be empty.
func gangOf(minCount int32, className string) v1alpha1.PodGroupPolicy {
	p := v1alpha1.PodGroupPolicy{SchedulingPolicy: &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: minCount}}}
	if className != "" {
		p.PriorityClassName = &className
	}
	return p
}

func basic(className string) v1alpha1.PodGroupPolicy {
	p := gangOf(1, className)
	p.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Basic: &v1alpha1.BasicSchedulingPolicy{}}
	return p
}

func (e *env) group(name string, policy v1alpha1.PodGroupPolicy) *v1alpha1.PodGroup {
	return &v1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name},
		Spec:       v1alpha1.PodGroupSpec{PodGroupPolicy: policy},
	}
}

// made returns a PodGroup that refers to a template of the Workload "w".
func (e *env) made(name, template string, policy v1alpha1.PodGroupPolicy) *v1alpha1.PodGroup {
	pg := e.group(name, policy)
	pg.Spec.PodGroupTemplateRef = &v1alpha1.PodGroupTemplateReference{WorkloadName: "w", PodGroupTemplateName: template}
	return pg
}

// workload returns the Workload "w" with templates.
func (e *env) workload(templates map[string]v1alpha1.PodGroupPolicy) *v1alpha1.Workload {
	w := &v1alpha1.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "w"}}
	for name, policy := range templates {
		w.Spec.PodGroupTemplates = append(w.Spec.PodGroupTemplates, v1alpha1.PodGroupTemplate{Name: name, PodGroupPolicy: policy})
	}
	return w
}

// pod returns a pod with one CPU that must run on the named node.
func (e *env) pod(name, group, className, on string) *corev1.Pod {
	pod := stage.NewPod(e.Namespace, name, className, 1)
	pod.Spec.NodeSelector[corev1.LabelHostname] = e.NodeName(on)
	if group != "" {
		e.Groups.Join(pod, group)
	}
	return pod
}

func (e *env) nodeOf(ctx context.Context, name string) string {
	if pod := e.Find(ctx, name); pod != nil {
		return pod.Spec.NodeName
	}
	return ""
}

func (e *env) waitBound(names ...string) {
	e.Helper()
	e.Eventually(fmt.Sprintf("%v have a node", names), func(ctx context.Context) string {
		for _, name := range names {
			if e.nodeOf(ctx, name) == "" {
				return name + " has none"
			}
		}
		return ""
	})
}

func (e *env) stayUnbound(names ...string) {
	e.Helper()
	e.Never(fmt.Sprintf("%v wait", names), func(ctx context.Context) string {
		for _, name := range names {
			if node := e.nodeOf(ctx, name); node != "" {
				return name + " is on " + node
			}
		}
		return ""
	})
}

// resolved returns "" if a policy has the priority and the preemption policy. Otherwise it
// describes the difference.
func resolved(policy *v1alpha1.PodGroupPolicy, priority int32, preemption corev1.PreemptionPolicy) string {
	if !ptr.Equal(policy.Priority, &priority) || !ptr.Equal(policy.PreemptionPolicy, &preemption) {
		return fmt.Sprintf("it has priority %v and policy %v, want %d and %s",
			ptr.Deref(policy.Priority, -1), ptr.Deref(policy.PreemptionPolicy, "none"), priority, preemption)
	}
	return ""
}

// waitResolved waits until a PodGroup has the priority and the preemption policy.
func (e *env) waitResolved(name string, priority int32, preemption corev1.PreemptionPolicy) {
	e.Helper()
	e.Eventually("PodGroup "+name+" is filled in", func(ctx context.Context) string {
		var pg v1alpha1.PodGroup
		if err := e.Objects.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: name}, &pg); err != nil {
			return err.Error()
		}
		return resolved(&pg.Spec.PodGroupPolicy, priority, preemption)
	})
}

// waitTemplate waits until a template of the Workload "w" has the priority and the preemption
// policy.
func (e *env) waitTemplate(name string, priority int32, preemption corev1.PreemptionPolicy) {
	e.Helper()
	e.Eventually("template "+name+" is filled in", func(ctx context.Context) string {
		var w v1alpha1.Workload
		if err := e.Objects.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: "w"}, &w); err != nil {
			return err.Error()
		}
		for i := range w.Spec.PodGroupTemplates {
			if t := &w.Spec.PodGroupTemplates[i]; t.Name == name {
				return resolved(&t.PodGroupPolicy, priority, preemption)
			}
		}
		return "there is no such template"
	})
}
