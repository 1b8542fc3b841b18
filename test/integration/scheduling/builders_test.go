package scheduling

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// podSpec describes a pod.
type podSpec struct {
	name     string
	group    string
	cpus     int64
	priority string
	// on is the short name of the node that the pod must run on, or "" for any node.
	on        string
	scheduler string
	// grace is the grace period in seconds.
	grace  int64
	labels map[string]string
	change func(*corev1.Pod)
}

// build returns the pod, for the namespace and the nodes of a test.
func (s podSpec) build(e *env) *corev1.Pod {
	pod := stage.NewPod(e.Namespace, s.name, s.priority, s.cpus)
	pod.Spec.TerminationGracePeriodSeconds = &s.grace
	maps.Copy(pod.Labels, s.labels)
	if s.group != "" {
		e.Groups.Join(pod, s.group)
	}
	if s.on != "" {
		pod.Spec.NodeSelector[corev1.LabelHostname] = e.NodeName(s.on)
	}
	if s.scheduler != "" {
		pod.Spec.SchedulerName = s.scheduler
	}
	if s.change != nil {
		s.change(pod)
	}
	return pod
}

func (e *env) create(specs ...podSpec) {
	e.Helper()
	for _, s := range specs {
		e.Create(s.build(e))
	}
}

// createRunning creates pods and waits until they run.
func (e *env) createRunning(specs ...podSpec) {
	e.Helper()
	e.create(specs...)
	names := make([]string, len(specs))
	for i := range specs {
		names[i] = specs[i].name
	}
	e.waitRunning(names...)
}

// remove deletes a pod. The grace period of the pod applies.
func (e *env) remove(name string) {
	e.Helper()
	if err := e.Kube.CoreV1().Pods(e.Namespace).Delete(e.Context(), name, metav1.DeleteOptions{}); err != nil {
		e.Fatalf("delete pod %s: %v", name, err)
	}
}

// times returns count copies of a podSpec. The name of each copy ends with its number, which starts
// at 0.
func (s podSpec) times(count int) []podSpec {
	out := make([]podSpec, count)
	for i := range out {
		out[i] = s
		out[i].name = fmt.Sprintf("%s-%d", s.name, i)
	}
	return out
}

// gang creates a PodGroup and a number of equal members.
func (e *env) gang(g stage.Group, members int, pod podSpec) {
	e.Helper()
	e.CreateGroup(g)
	pod.group = g.Name
	if pod.name == "" {
		pod.name = g.Name
	}
	if pod.priority == "" {
		pod.priority = g.Priority
	}
	e.create(pod.times(members)...)
}

// runningGang creates a gang and waits until all its members run.
func (e *env) runningGang(g stage.Group, members int, pod podSpec) {
	e.Helper()
	e.gang(g, members, pod)
	e.Eventually("the members of "+g.Name+" run", func(ctx context.Context) string {
		running := 0
		for _, p := range e.pods(ctx, g.Name) {
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
