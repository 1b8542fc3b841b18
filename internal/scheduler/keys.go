package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

func gangKey(name types.NamespacedName) workload.Key { return gang.KeyOf(name) }

// podKey returns the workload key of a pod that is scheduled alone.
func podKey(pod *corev1.Pod) workload.Key { return gang.KeyOfPod(pod) }

// nameOf returns the namespace and name of a workload's PodGroup or single pod.
func nameOf(key workload.Key) types.NamespacedName { return gang.NameOf(key) }
