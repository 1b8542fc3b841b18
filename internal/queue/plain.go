package queue

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// isPlain reports whether a pod can run on any node that has room and matches its terms (see
// [terms]). It returns false if other pods, or optional features of nodes, may also matter.
func isPlain(pod *corev1.Pod) bool {
	spec := &pod.Spec
	if a := spec.Affinity; a != nil && (a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 ||
		len(requiredAntiAffinity(pod)) > 0) {
		return false
	}
	spread := func(c corev1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == corev1.DoNotSchedule }
	if slices.ContainsFunc(spec.TopologySpreadConstraints, spread) || len(ConfiningVolumes(pod)) > 0 || len(spec.ResourceClaims) > 0 {
		return false
	}
	// These fields need features that some kubelets do not have.
	if spec.Resources != nil || spec.HostUsers != nil || spec.OS != nil && spec.OS.Name != corev1.Linux {
		return false
	}
	return !slices.ContainsFunc(spec.InitContainers, isSpecial) && !slices.ContainsFunc(spec.Containers, isSpecial)
}

// isSpecial reports whether a container needs a host port, or a feature that some kubelets do not
// have.
func isSpecial(c corev1.Container) bool {
	optional := func(m corev1.VolumeMount) bool { return len(m.BindMountOptions) > 0 }
	return len(c.RestartPolicyRules) > 0 || slices.ContainsFunc(c.VolumeMounts, optional) || slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort > 0 })
}

// ConfiningVolumes lists the volumes that may restrict a pod to some nodes.
func ConfiningVolumes(pod *corev1.Pod) []corev1.Volume {
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

func requiredAntiAffinity(pod *corev1.Pod) []corev1.PodAffinityTerm {
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		return a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// anyNamespace stands for all namespaces, if a term selects namespaces by label.
const anyNamespace = ""

// repelledBy returns the namespaces of the pods that a pod's required anti-affinity may repel.
func repelledBy(pod *corev1.Pod) []string {
	terms := requiredAntiAffinity(pod)
	if len(terms) == 0 {
		return nil
	}
	out := sets.New[string]()
	for i := range terms {
		switch t := &terms[i]; {
		case t.NamespaceSelector != nil:
			out.Insert(anyNamespace)
		case len(t.Namespaces) > 0:
			out.Insert(t.Namespaces...)
		default:
			out.Insert(pod.Namespace)
		}
	}
	return sets.List(out)
}
