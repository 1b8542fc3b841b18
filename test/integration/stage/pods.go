package stage

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Finalizer is a finalizer that the function Hold adds. A deleted pod exists until the test removes
// it.
const Finalizer = "test.reprieve.dev/hold"

// NewPod returns a pod that runs only on the nodes of its namespace. Its grace period is 0.
func NewPod(namespace, name, priority string, cpus int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{}},
		Spec: corev1.PodSpec{
			SchedulerName:                 Profile,
			PriorityClassName:             priority,
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			NodeSelector:                  map[string]string{OwnerLabel: namespace},
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example/main:1",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI),
				}},
			}},
		},
	}
}

// AllPods returns all pods in the test's namespace.
func (s *Stage) AllPods(ctx context.Context) []corev1.Pod {
	s.Helper()
	list, err := s.Kube.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		s.Fatalf("list pods: %v", err)
	}
	return list.Items
}

// Terminating returns the sorted names of the terminating pods in the test's namespace.
func (s *Stage) Terminating(ctx context.Context) []string {
	s.Helper()
	var out []string
	for _, pod := range s.AllPods(ctx) {
		if pod.DeletionTimestamp != nil {
			out = append(out, pod.Name)
		}
	}
	slices.Sort(out)
	return out
}

// Pods returns the pods in the test's namespace whose names have a prefix, without terminating
// pods.
func (s *Stage) Pods(ctx context.Context, prefix string) []corev1.Pod {
	s.Helper()
	return slices.DeleteFunc(s.AllPods(ctx), func(pod corev1.Pod) bool {
		return !strings.HasPrefix(pod.Name, prefix) || pod.DeletionTimestamp != nil
	})
}

// Find returns a pod in the test's namespace, or nil if it does not exist.
func (s *Stage) Find(ctx context.Context, name string) *corev1.Pod {
	s.Helper()
	pod, err := s.Kube.CoreV1().Pods(s.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		s.Fatalf("get pod %s: %v", name, err)
	}
	return pod
}

// Pod returns a pod in the test's namespace. The test fails if the pod does not exist.
func (s *Stage) Pod(name string) *corev1.Pod {
	s.Helper()
	pod := s.Find(s.Context(), name)
	if pod == nil {
		s.fail("pod " + name + " does not exist")
	}
	return pod
}

// Hold adds Finalizer to a pod, so that the pod exists after its deletion until the test calls
// LetGo.
func Hold(pod *corev1.Pod) { pod.Finalizers = []string{Finalizer} }

// LetGo removes all finalizers of the named pods.
func (s *Stage) LetGo(names ...string) {
	s.Helper()
	// Cleanup functions call this after the test's context has ended.
	ctx := context.WithoutCancel(s.Context())
	for _, name := range names {
		_, err := s.Kube.CoreV1().Pods(s.Namespace).Patch(ctx, name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			s.Errorf("take the finalizers off pod %s: %v", name, err)
		}
	}
}
