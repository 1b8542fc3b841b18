package snapshot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestClasses(t *testing.T) {
	t.Parallel()
	volume := func(source corev1.VolumeSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}} }
	}
	claim := func(name string) func(*corev1.Pod) {
		return volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}})
	}
	ephemeral := volume(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}})
	label := func(k, v string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Labels[k] = v } }
	none := func(*corev1.Pod) {}
	cases := map[string]struct {
		a, b func(*corev1.Pod)
		same bool
	}{
		"nothing but the name":          {none, none, true},
		"status and age":                {func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, func(p *corev1.Pod) { p.CreationTimestamp = metav1.Now() }, true},
		"the index in a Job":            {label("batch.kubernetes.io/job-completion-index", "0"), label("batch.kubernetes.io/job-completion-index", "1"), true},
		"the index in a StatefulSet":    {label("apps.kubernetes.io/pod-index", "0"), label("apps.kubernetes.io/pod-index", "1"), true},
		"a label like any other":        {label("role", "leader"), label("role", "worker"), false},
		"environment and command":       {func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"a"} }, none, true},
		"the same map of configuration": {volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}), none, true},
		"requests":                      {func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = quantity("9") }, none, false},
		"host ports":                    {func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} }, none, false},
		"node selector":                 {func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} }, none, false},
		"tolerations":                   {func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "a"}} }, none, false},
		"user namespaces":               {func(p *corev1.Pod) { p.Spec.HostUsers = new(bool) }, none, false},
		"rules for restarts": {func(p *corev1.Pod) {
			p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
		}, none, false},
		"options of mounts": {func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{BindMountOptions: []string{"noexec"}}}
		}, none, false},
		"mounts":              {func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{MountPath: "/a"}} }, none, true},
		"priority":            {func(p *corev1.Pod) { *p.Spec.Priority = 7 }, none, false},
		"the same claim":      {claim("c"), claim("c"), true},
		"claims of their own": {claim("c-0"), claim("c-1"), false},
		"ephemeral volumes, which are claims of their own": {ephemeral, ephemeral, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := pod("a", "g", "1", 0), pod("b", "g", "1", 0)
			c.a(a)
			c.b(b)
			classes, err := ClassesOf([]*corev1.Pod{a, b})
			if err != nil {
				t.Fatal(err)
			}
			if same := len(classes) == 1; same != c.same {
				t.Errorf("One class: %v, want %v", same, c.same)
			}
		})
	}
}
