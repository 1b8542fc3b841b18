package gang

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// KeyOf returns the key of a group in the records of internal/engine.
func KeyOf(name types.NamespacedName) workload.Key {
	return workload.Key{Gang: true, Namespace: name.Namespace, Name: name.Name}
}

// KeyOfPod returns the key of a pod that is scheduled alone.
func KeyOfPod(pod *corev1.Pod) workload.Key {
	return workload.Key{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
}

// NameOf returns the namespace and the name of a group from its engine key.
func NameOf(key workload.Key) types.NamespacedName {
	return types.NamespacedName{Namespace: key.Namespace, Name: key.Name}
}
