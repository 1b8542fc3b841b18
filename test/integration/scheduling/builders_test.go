package scheduling

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// podSpec describes a pod in the terms that matter here.
type podSpec struct {
	name     string
	group    string
	cpus     int64
	priority string
	// on is the short name of the node it is confined to, or "".
	on        string
	scheduler string
	// grace is its grace period in seconds.
	grace  int64
	labels map[string]string
	change func(*corev1.Pod)
}

// build makes the pod for a test's namespace and nodes.
func (s podSpec) build(e *env) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.ns, Name: s.name, Labels: map[string]string{}},
		Spec: corev1.PodSpec{
			SchedulerName:                 mainProfile,
			PriorityClassName:             s.priority,
			TerminationGracePeriodSeconds: ptr.To(s.grace),
			NodeSelector:                  map[string]string{ownerLabel: e.ns},
			Containers: []corev1.Container{{
				Name:  "main",
				Image: "registry.example/main:1",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: *resource.NewQuantity(s.cpus, resource.DecimalSI),
				}},
			}},
		},
	}
	for k, v := range s.labels {
		pod.Labels[k] = v
	}
	if s.group != "" {
		e.api.join(pod, s.group)
	}
	if s.on != "" {
		pod.Spec.NodeSelector[corev1.LabelHostname] = e.nodeName(s.on)
	}
	if s.scheduler != "" {
		pod.Spec.SchedulerName = s.scheduler
	}
	if s.change != nil {
		s.change(pod)
	}
	return pod
}

// create creates pods.
func (e *env) create(specs ...podSpec) {
	e.t.Helper()
	for _, s := range specs {
		if _, err := e.kube.CoreV1().Pods(e.ns).Create(e.t.Context(), s.build(e), metav1.CreateOptions{}); err != nil {
			e.t.Fatalf("create pod %s: %v", s.name, err)
		}
	}
}

// createRunning creates pods and waits until they run.
func (e *env) createRunning(specs ...podSpec) {
	e.t.Helper()
	e.create(specs...)
	names := make([]string, len(specs))
	for i := range specs {
		names[i] = specs[i].name
	}
	e.waitRunning(names...)
}

// remove deletes a pod with its own grace period.
func (e *env) remove(name string) {
	e.t.Helper()
	if err := e.kube.CoreV1().Pods(e.ns).Delete(e.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		e.t.Fatalf("delete pod %s: %v", name, err)
	}
}

// times makes count pods from one, named NAME-0, NAME-1 and so on.
func (s podSpec) times(count int) []podSpec {
	out := make([]podSpec, count)
	for i := range out {
		out[i] = s
		out[i].name = fmt.Sprintf("%s-%d", s.name, i)
	}
	return out
}

// groupSpec describes a PodGroup.
type groupSpec struct {
	name string
	// minCount is 0 for the basic policy.
	minCount int32
	whole    bool
	priority string
	// finalizers keep it from going at once when it is deleted.
	finalizers []string
	template   *v1alpha1.PodGroupTemplateReference
}

// build makes a PodGroup of reprieve.dev, for any namespace.
func (s groupSpec) build() *v1alpha1.PodGroup {
	pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
	pg.Spec.PodGroupTemplateRef = s.template
	switch {
	case s.template != nil:
	case s.minCount > 0:
		pg.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: s.minCount}}
	default:
		pg.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Basic: &v1alpha1.BasicSchedulingPolicy{}}
	}
	if s.whole {
		pg.Spec.DisruptionMode = ptr.To(v1alpha1.DisruptionModePodGroup)
	}
	if s.priority != "" {
		pg.Spec.PriorityClassName = &s.priority
	}
	return pg
}

// buildNative makes a PodGroup of scheduling.k8s.io, for any namespace.
func (s groupSpec) buildNative() *schedulingv1alpha2.PodGroup {
	pg := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
	pg.Spec.PriorityClassName = s.priority
	if s.minCount > 0 {
		pg.Spec.SchedulingPolicy.Gang = &schedulingv1alpha2.GangSchedulingPolicy{MinCount: s.minCount}
	} else {
		pg.Spec.SchedulingPolicy.Basic = &schedulingv1alpha2.BasicSchedulingPolicy{}
	}
	if s.whole {
		pg.Spec.DisruptionMode = ptr.To(schedulingv1alpha2.DisruptionModePodGroup)
	}
	return pg
}

// emptyGroup is what a PodGroup of the test's API can be read into, or deleted by.
func (e *env) emptyGroup(name string) client.Object {
	pg := e.api.group(groupSpec{name: name})
	pg.SetNamespace(e.ns)
	return pg
}

// createGroup creates a PodGroup.
func (e *env) createGroup(s groupSpec) {
	e.t.Helper()
	pg := e.api.group(s)
	pg.SetNamespace(e.ns)
	pg.SetFinalizers(s.finalizers)
	if err := e.objects.Create(e.t.Context(), pg); err != nil {
		e.t.Fatalf("create PodGroup %s: %v", s.name, err)
	}
}

// removeGroup deletes a PodGroup, which is gone once it has no finalizers.
func (e *env) removeGroup(name string) {
	e.t.Helper()
	if err := e.objects.Delete(e.t.Context(), e.emptyGroup(name)); err != nil {
		e.t.Fatalf("delete PodGroup %s: %v", name, err)
	}
}

// letGroupGo takes all finalizers off a PodGroup, if it is still there.
func (e *env) letGroupGo(name string) {
	ctx := context.WithoutCancel(e.t.Context())
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	err := e.objects.Patch(ctx, e.emptyGroup(name), patch)
	if err = client.IgnoreNotFound(err); err != nil {
		e.t.Errorf("take the finalizers off PodGroup %s: %v", name, err)
	}
}

// gang creates a PodGroup and its members, all alike.
func (e *env) gang(g groupSpec, members int, pod podSpec) {
	e.t.Helper()
	e.createGroup(g)
	pod.group = g.name
	if pod.name == "" {
		pod.name = g.name
	}
	if pod.priority == "" {
		pod.priority = g.priority
	}
	e.create(pod.times(members)...)
}

// runningGang is gang, and waits until all members run.
func (e *env) runningGang(g groupSpec, members int, pod podSpec) {
	e.t.Helper()
	e.gang(g, members, pod)
	e.eventually("the members of "+g.name+" run", func(ctx context.Context) string {
		running := 0
		for _, p := range e.pods(ctx, g.name) {
			if p.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running != members {
			return fmt.Sprintf("%d of %d do", running, members)
		}
		return ""
	})
}
