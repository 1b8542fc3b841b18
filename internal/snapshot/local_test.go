package snapshot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestIsLocal checks which pods can only be replaced on the same node.
func TestIsLocal(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		owner *metav1.OwnerReference
		want  bool
	}{
		"no owner":                     {},
		"a DaemonSet":                  {&metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet", Controller: ptr.To(true)}, true},
		"a ReplicaSet":                 {&metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Controller: ptr.To(true)}, false},
		"a DaemonSet of another group": {&metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "DaemonSet", Controller: ptr.To(true)}, false},
		"an owner, not the controller": {&metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{}
			if tt.owner != nil {
				pod.OwnerReferences = []metav1.OwnerReference{*tt.owner}
			}
			if got := isLocal(pod); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}
