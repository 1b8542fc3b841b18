package snapshot

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

// Class is a set of pending pods with identical scheduling needs.
type Class struct {
	// Pods has the pods of the class, in their original order.
	Pods []fwk.PodInfo
	// ranks has the positions of these pods among all pods.
	ranks []int
	role  string
}

// ResourceFilter reports how a profile treats requested resources. A profile may ignore a resource
// on all nodes, or check it only on nodes that have it.
type ResourceFilter interface {
	Delegation
	// Ignores reports whether the profile ignores a scalar resource on all nodes. For example, an
	// extender manages it.
	Ignores(name corev1.ResourceName) bool
}

// ClassesOf groups pods into classes, in the order of the first pod of each class. claims finds the
// volume claims of pods. role returns the role of a pod: all pods of a class have the same role. If
// role is nil, pods of different roles may be in one class. ClassesOf returns an error for an
// invalid pod.
func ClassesOf(pods []*corev1.Pod, claims Claims, role func(*corev1.Pod) string) ([]Class, error) {
	var classes []Class
	byKey := make(map[string]int)
	shared, named := sharedClaims(pods), namedLabels(pods)
	for rank, pod := range pods {
		key, err := classKey(pod, volumesOf(pod, claims, shared), named)
		if err != nil {
			return nil, err
		}
		pi, err := framework.NewPodInfo(pod)
		if err != nil {
			return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		var part string
		if role != nil {
			part = role(pod)
			key += "/" + part
		}
		i, ok := byKey[key]
		if !ok {
			i = len(classes)
			byKey[key] = i
			classes = append(classes, Class{role: part})
		}
		classes[i].Pods = append(classes[i].Pods, pi)
		classes[i].ranks = append(classes[i].ranks, rank)
	}
	return classes, nil
}

// Describe converts classes to the form of the core, in the dimensions of the View. If a class
// requests a resource that no node has, Describe gives the spare dimension of the Cluster the name
// of that resource.
func (v *View) Describe(classes []Class, filter ResourceFilter) []core.Class {
	out := make([]core.Class, len(classes))
	var unknown []string
	for i := range classes {
		request, none := v.dimensions.request(classes[i].Pods[0].CalculateResource().Resource, filter)
		out[i].Request, out[i].Role = request, classes[i].role
		unknown = append(unknown, none...)
		for at, pi := range classes[i].Pods {
			pod := pi.GetPod()
			out[i].Members = append(out[i].Members, core.Member{Name: pod.Name, UID: string(pod.UID), Rank: classes[i].ranks[at]})
		}
	}
	if len(unknown) > 0 {
		v.Cluster.Resources = slices.Clone(v.Cluster.Resources)
		v.Cluster.Resources[len(v.Cluster.Resources)-1] = slices.Min(unknown)
	}
	return out
}

// LacksResource reports whether the classes passed to Describe request a resource that no node has.
func (v *View) LacksResource() bool { return v.Cluster.Resources[len(v.Cluster.Resources)-1] != "" }

// classKey returns a key of a pod. Two pods have the same key only if no filter can distinguish
// them. The key has no labels that controllers use to number pods, because each pod would then be a
// separate class. It does have the labels in named.
func classKey(pod *corev1.Pod, volumes []volume, named sets.Set[string]) (string, error) {
	type container struct {
		Resources     corev1.ResourceRequirements
		Ports         []corev1.ContainerPort
		RestartPolicy *corev1.ContainerRestartPolicy
		// A node must declare features to support these fields.
		RestartRules []corev1.ContainerRestartRule
		MountOptions []string
	}
	containers := func(cs []corev1.Container) []container {
		out := make([]container, len(cs))
		for i := range cs {
			out[i] = container{Resources: cs[i].Resources, Ports: cs[i].Ports, RestartPolicy: cs[i].RestartPolicy, RestartRules: cs[i].RestartPolicyRules}
			for j := range cs[i].VolumeMounts {
				out[i].MountOptions = append(out[i].MountOptions, cs[i].VolumeMounts[j].BindMountOptions...)
			}
		}
		return out
	}
	labels := make(map[string]string, len(pod.Labels))
	for k, v := range pod.Labels {
		if !numbersPods(k) || named.Has(k) {
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
		Volumes        []volume
		Claims         []corev1.PodResourceClaim
		HostNetwork    bool
		HostUsers      *bool
		OS             *corev1.PodOS
		Priority       *int32
	}{
		pod.Namespace, labels, containers(pod.Spec.Containers), containers(pod.Spec.InitContainers),
		pod.Spec.Resources, pod.Spec.Overhead, pod.Spec.NodeSelector, pod.Spec.Affinity, pod.Spec.Tolerations,
		pod.Spec.TopologySpreadConstraints, volumes, pod.Spec.ResourceClaims,
		pod.Spec.HostNetwork, pod.Spec.HostUsers, pod.Spec.OS, pod.Spec.Priority,
	}
	key, err := json.Marshal(needs)
	if err != nil {
		return "", fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return string(key), nil
}

// namedLabels returns the keys of the labels that the pods' affinity and spread rules refer to.
func namedLabels(pods []*corev1.Pod) sets.Set[string] {
	named := sets.New[string]()
	selects := func(s *metav1.LabelSelector, more ...string) {
		named.Insert(more...)
		if s == nil {
			return
		}
		for key := range s.MatchLabels {
			named.Insert(key)
		}
		for i := range s.MatchExpressions {
			named.Insert(s.MatchExpressions[i].Key)
		}
	}
	terms := func(of []corev1.PodAffinityTerm) {
		for i := range of {
			selects(of[i].LabelSelector, slices.Concat(of[i].MatchLabelKeys, of[i].MismatchLabelKeys)...)
		}
	}
	for _, pod := range pods {
		for i := range pod.Spec.TopologySpreadConstraints {
			c := &pod.Spec.TopologySpreadConstraints[i]
			selects(c.LabelSelector, c.MatchLabelKeys...)
		}
		if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
			terms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
		if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
			terms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
	}
	return named
}

// numbersPods reports whether controllers use a label to distinguish pods of the same template.
func numbersPods(label string) bool {
	switch label {
	case "batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index",
		"statefulset.kubernetes.io/pod-name", "leaderworkerset.sigs.k8s.io/worker-index",
		"jobset.sigs.k8s.io/job-index", "jobset.sigs.k8s.io/job-global-index", "jobset.sigs.k8s.io/job-key",
		"training.kubeflow.org/replica-index",
		// These labels identify one of several equal Jobs, for example of a JobSet, or one executor
		// of an application.
		"job-name", "batch.kubernetes.io/job-name", "controller-uid", "batch.kubernetes.io/controller-uid", "spark-exec-id":
		return true
	default:
		return false
	}
}

// NeedsOf returns a key for the requirements of a pod on a node. Pods with equal requirements have
// the same key. NeedsOf returns false if the pod also depends on other pods, volumes or claims.
func NeedsOf(pod *corev1.Pod) (string, bool) {
	spec := &pod.Spec
	if spec.Affinity != nil && (spec.Affinity.PodAffinity != nil || spec.Affinity.PodAntiAffinity != nil) ||
		len(spec.TopologySpreadConstraints)+len(spec.ResourceClaims)+len(queue.ConfiningVolumes(pod)) > 0 {
		return "", false
	}
	// Leave out the name and the labels of the pod, because only other pods depend on them.
	key, err := classKey(&corev1.Pod{Spec: *spec}, nil, nil)
	return key, err == nil
}
