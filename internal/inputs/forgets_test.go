package inputs

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestForgetsWhatNoLineHas: a process that writes nothing, such as a standby, remembers nothing of pods that have come and gone.
func TestForgetsWhatNoLineHas(t *testing.T) {
	t.Parallel()
	r := New(Options{})
	for i := range 100 {
		name := fmt.Sprint("p-", i)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
		r.Heard(pod, true)
		placed := pod.DeepCopy()
		placed.Spec.NodeName = "n"
		if i%2 == 0 {
			r.Heard(placed, true)
		}
		r.Heard(placed, false)
	}
	if n := len(r.touched) + len(r.pending); n > 0 {
		t.Errorf("%d pods are remembered", n)
	}
}
