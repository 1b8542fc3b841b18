package queue

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestRequestsStayWithinRange: what a queue asks for never comes to less than nothing, however much its pods name.
func TestRequestsStayWithinRange(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"memory": resource.MustParse("7E"), "cpu": resource.MustParse("9E"), "gpu": resource.MustParse("8")},
	}}}}}
	sum := make(Amounts)
	for range 100_000 {
		sum.Add(RequestOf(pod))
	}
	for name, v := range sum {
		if v <= 0 {
			t.Errorf("100,000 pods ask for %d of %s", v, name)
		}
	}
	if got := sum["gpu"]; got != 800_000 {
		t.Errorf("They ask for %d GPUs", got)
	}
}
