package scheduler

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// class is a set of pending pods with identical scheduling needs.
type class struct {
	pods []fwk.PodInfo
}

// classesOf groups pods, in their order, into classes.
func classesOf(pods []*corev1.Pod) ([]class, error) {
	var classes []class
	byKey := make(map[string]int)
	for _, pod := range pods {
		key, err := classKey(pod)
		if err != nil {
			return nil, err
		}
		pi, err := framework.NewPodInfo(pod)
		if err != nil {
			return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		i, ok := byKey[key]
		if !ok {
			i = len(classes)
			byKey[key] = i
			classes = append(classes, class{})
		}
		classes[i].pods = append(classes[i].pods, pi)
	}
	return classes, nil
}

// classKey is the same for two pods exactly if no filter can tell them apart. Labels by which controllers
// number their pods are left out: they would make a class of every pod.
func classKey(pod *corev1.Pod) (string, error) {
	type container struct {
		Resources     corev1.ResourceRequirements
		Ports         []corev1.ContainerPort
		RestartPolicy *corev1.ContainerRestartPolicy
	}
	containers := func(cs []corev1.Container) []container {
		out := make([]container, len(cs))
		for i := range cs {
			out[i] = container{Resources: cs[i].Resources, Ports: cs[i].Ports, RestartPolicy: cs[i].RestartPolicy}
		}
		return out
	}
	labels := make(map[string]string, len(pod.Labels))
	for k, v := range pod.Labels {
		if !numbersPods(k) {
			labels[k] = v
		}
	}
	needs := struct {
		Namespace      string
		Labels         map[string]string
		Containers     []container
		InitContainers []container
		Resources      *corev1.ResourceRequirements
		Overhead       corev1.ResourceList
		NodeSelector   map[string]string
		Affinity       *corev1.Affinity
		Tolerations    []corev1.Toleration
		Spread         []corev1.TopologySpreadConstraint
		Volumes        []corev1.Volume
		Claims         []corev1.PodResourceClaim
		HostNetwork    bool
		OS             *corev1.PodOS
		Priority       *int32
		Alone          string
	}{
		pod.Namespace, labels, containers(pod.Spec.Containers), containers(pod.Spec.InitContainers),
		pod.Spec.Resources, pod.Spec.Overhead, pod.Spec.NodeSelector, pod.Spec.Affinity, pod.Spec.Tolerations,
		pod.Spec.TopologySpreadConstraints, schedulingVolumes(pod), pod.Spec.ResourceClaims,
		pod.Spec.HostNetwork, pod.Spec.OS, pod.Spec.Priority, alone(pod),
	}
	key, err := json.Marshal(needs)
	if err != nil {
		return "", fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return string(key), nil
}

// alone is the pod's name where it has volumes that are claimed under that name, so that each pod's may be
// confined to other nodes; "" elsewhere.
func alone(pod *corev1.Pod) string {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Ephemeral != nil {
			return pod.Name
		}
	}
	return ""
}

// numbersPods reports whether controllers use a label to tell pods of one template apart.
func numbersPods(label string) bool {
	switch label {
	case "batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index",
		"statefulset.kubernetes.io/pod-name", "leaderworkerset.sigs.k8s.io/worker-index",
		"jobset.sigs.k8s.io/job-index", "jobset.sigs.k8s.io/job-global-index", "jobset.sigs.k8s.io/job-key",
		"training.kubeflow.org/replica-index":
		return true
	default:
		return false
	}
}

// schedulingVolumes are the volumes that can keep a pod from a node.
func schedulingVolumes(pod *corev1.Pod) []corev1.Volume {
	var out []corev1.Volume
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.ConfigMap == nil && v.Secret == nil && v.Projected == nil && v.DownwardAPI == nil &&
			v.EmptyDir == nil && v.HostPath == nil {
			out = append(out, *v)
		}
	}
	return out
}

// coreClasses describes classes to the core, in its dimensions, and names what they ask for that no node has.
// Ranks follow the order of pods.
func coreClasses(classes []class, d *dimensions, ignored func(corev1.ResourceName) bool, rank map[types.UID]int) (out []core.Class, unknown []string) {
	out = make([]core.Class, len(classes))
	for i := range classes {
		request, none := d.request(classes[i].pods[0].CalculateResource().Resource, ignored)
		out[i].Request = request
		unknown = append(unknown, none...)
		for _, pi := range classes[i].pods {
			pod := pi.GetPod()
			out[i].Members = append(out[i].Members, core.Member{
				Name: pod.Name, UID: string(pod.UID), Rank: rank[pod.UID],
			})
		}
	}
	return out, unknown
}
