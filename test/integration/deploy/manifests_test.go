package deploy

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

const (
	// name is the name of most objects in the manifests.
	name      = "reprieve-scheduler"
	namespace = "reprieve-system"
	port      = 10259
	configKey = "scheduler.yaml"
)

// apiVersions has the API versions that the manifests may use. Kubernetes 1.34 serves them by
// default.
var apiVersions = []string{
	"v1", "apps/v1", "policy/v1", "rbac.authorization.k8s.io/v1", "apiextensions.k8s.io/v1", "admissionregistration.k8s.io/v1",
	"flowcontrol.apiserver.k8s.io/v1",
}

func deploymentOf(t *testing.T, m manifests) *appsv1.Deployment {
	t.Helper()
	return typed[appsv1.Deployment](t, m.find(t, "Deployment", name))
}

// configMapOf returns the ConfigMap that the Deployment mounts.
func configMapOf(t *testing.T, m manifests) *corev1.ConfigMap {
	t.Helper()
	volumes := deploymentOf(t, m).Spec.Template.Spec.Volumes
	if len(volumes) != 1 || volumes[0].ConfigMap == nil {
		t.Fatalf("the volumes of the Deployment are %+v, want one ConfigMap", volumes)
	}
	return typed[corev1.ConfigMap](t, m.find(t, "ConfigMap", volumes[0].ConfigMap.Name))
}

func TestDeployment(t *testing.T) {
	deployment := deploymentOf(t, render(t, deployPath(t)))
	pod := deployment.Spec.Template.Spec
	if len(pod.Containers) != 1 || pod.SecurityContext == nil || pod.Containers[0].SecurityContext == nil {
		t.Fatalf("want one container, and the security of it and of the Pod: %+v", pod)
	}
	c := pod.Containers[0]
	probe := func(p *corev1.Probe) *corev1.HTTPGetAction {
		if p == nil {
			return nil
		}
		return p.HTTPGet
	}
	get := func(path string) *corev1.HTTPGetAction {
		return &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("https"), Scheme: corev1.URISchemeHTTPS}
	}
	for what, tc := range map[string]struct{ got, want any }{
		"replicas":              {deployment.Spec.Replicas, ptr.To[int32](2)},
		"namespace":             {deployment.Namespace, namespace},
		"scheduler":             {pod.SchedulerName, corev1.DefaultSchedulerName},
		"priority class":        {pod.PriorityClassName, "system-cluster-critical"},
		"service account":       {pod.ServiceAccountName, name},
		"host network":          {pod.HostNetwork || pod.HostPID || pod.HostIPC, false},
		"run as non-root":       {pod.SecurityContext.RunAsNonRoot, ptr.To(true)},
		"user":                  {pod.SecurityContext.RunAsUser, ptr.To[int64](65532)},
		"seccomp":               {pod.SecurityContext.SeccompProfile, &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		"image":                 {c.Image, name + ":dev"},
		"command":               {c.Command, []string(nil)},
		"read-only root":        {c.SecurityContext.ReadOnlyRootFilesystem, ptr.To(true)},
		"privilege escalation":  {c.SecurityContext.AllowPrivilegeEscalation, ptr.To(false)},
		"privileged":            {c.SecurityContext.Privileged, (*bool)(nil)},
		"capabilities":          {c.SecurityContext.Capabilities, &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
		"port":                  {c.Ports, []corev1.ContainerPort{{Name: "https", ContainerPort: port}}},
		"liveness":              {probe(c.LivenessProbe), get("/livez")},
		"readiness":             {probe(c.ReadinessProbe), get("/readyz")},
		"startup":               {probe(c.StartupProbe), get("/livez")},
		"CPU is requested":      {c.Resources.Requests.Cpu().IsZero(), false},
		"memory is requested":   {c.Resources.Requests.Memory().IsZero(), false},
		"limits":                {len(c.Resources.Limits), 0},
		"configuration":         {slices.Contains(c.Args, "--config=/etc/reprieve/"+configKey), true},
		"mounts":                {c.VolumeMounts, []corev1.VolumeMount{{Name: "config", MountPath: "/etc/reprieve", ReadOnly: true}}},
		"spread over hosts":     {len(pod.TopologySpreadConstraints) == 1 && pod.TopologySpreadConstraints[0].TopologyKey == corev1.LabelHostname, true},
		"selector fits its own": {deployment.Spec.Selector.MatchLabels["app.kubernetes.io/name"], deployment.Spec.Template.Labels["app.kubernetes.io/name"]},
	} {
		if !reflect.DeepEqual(tc.got, tc.want) {
			t.Errorf("%s: got %+v, want %+v", what, tc.got, tc.want)
		}
	}
}

// TestSelectors checks that each label selector in the manifests matches the scheduler's Pods.
func TestSelectors(t *testing.T) {
	m := render(t, deployPath(t))
	labels := deploymentOf(t, m).Spec.Template.Labels
	service := typed[corev1.Service](t, m.find(t, "Service", name))
	pdb := typed[policyv1.PodDisruptionBudget](t, m.find(t, "PodDisruptionBudget", name))
	for what, selector := range map[string]map[string]string{
		"Service":             service.Spec.Selector,
		"PodDisruptionBudget": pdb.Spec.Selector.MatchLabels,
		"topology spread":     deploymentOf(t, m).Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels,
	} {
		if len(selector) == 0 {
			t.Errorf("%s selects everything", what)
		}
		for key, value := range selector {
			if labels[key] != value {
				t.Errorf("%s selects %s=%s, the Pods have %q", what, key, value, labels[key])
			}
		}
	}
}

func TestAPIVersions(t *testing.T) {
	for _, object := range render(t, deployPath(t)) {
		if !slices.Contains(apiVersions, object.GetAPIVersion()) {
			t.Errorf("%s %s is of %s, which is not one of %q", object.GetKind(), object.GetName(), object.GetAPIVersion(), apiVersions)
		}
	}
}

// TestConfigMap checks that the installed configuration equals the default configuration.
func TestConfigMap(t *testing.T) {
	decode := func(raw []byte) map[string]any {
		var out map[string]any
		if err := yaml.UnmarshalStrict(raw, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	builtIn, err := os.ReadFile(filepath.Join(playgroundtest.ModuleRoot(t), "cmd", name, "app", "default-config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := decode(builtIn)
	want["leaderElection"] = map[string]any{
		"leaderElect": true, "resourceNamespace": namespace, "resourceName": name,
	}
	config := configMapOf(t, render(t, deployPath(t)))
	if got := decode([]byte(config.Data[configKey])); !reflect.DeepEqual(got, want) {
		t.Errorf("the ConfigMap has\n%v\nthe default configuration with the lease in %s is\n%v", got, namespace, want)
	}
	if !strings.HasPrefix(config.Name, name+"-config-") {
		t.Errorf("the ConfigMap is named %s: a change would not roll the Deployment", config.Name)
	}
}

// TestCRDs checks that both kustomizations include all CRDs.
func TestCRDs(t *testing.T) {
	files, err := filepath.Glob(deployPath(t, "crds", "reprieve.dev_*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	for _, dir := range []string{deployPath(t), deployPath(t, "crds")} {
		if got := len(render(t, dir).ofKind("CustomResourceDefinition")); got != len(files) {
			t.Errorf("%s has %d CRDs, there are %d", dir, got, len(files))
		}
	}
}

// TestRBAC checks that the scheduler's roles have no wildcards and no permissions that a scheduler
// never needs. Their bindings must name only the scheduler's ServiceAccount. The audit log cannot
// show whether the scheduler needs all that a wildcard permits.
func TestRBAC(t *testing.T) {
	m := render(t, deployPath(t))
	for _, p := range permissions(t, m) {
		if p.object != "" && p.object != name {
			t.Errorf("%s: the Lease is named %s", p, name)
		}
		if slices.Contains([]string{p.group, p.resource, p.verb}, rbacv1.ResourceAll) || strings.Contains(p.resource, "*") {
			t.Errorf("%s has a wildcard", p)
		}
		if slices.Contains([]string{"escalate", "bind", "impersonate"}, p.verb) || p.resource == "secrets" {
			t.Errorf("%s is nothing that a scheduler needs", p)
		}
	}
	for _, object := range slices.Concat(m.ofKind("ClusterRoleBinding"), m.ofKind("RoleBinding")) {
		// A ClusterRoleBinding has the same fields, so the type RoleBinding fits both kinds.
		binding := typed[rbacv1.RoleBinding](t, object)
		want := rbacv1.Subject{Kind: "ServiceAccount", Name: name, Namespace: namespace}
		if len(binding.Subjects) != 1 || binding.Subjects[0] != want {
			t.Errorf("%s %s is for %+v, want %+v", object.GetKind(), binding.Name, binding.Subjects, want)
		}
	}
}

// TestOverlay tests the changes to the manifests that the README of deploy/ recommends to users.
func TestOverlay(t *testing.T) {
	m := overlay(t, `
components: [$BASE/components/control-plane]
configMapGenerator:
  - name: reprieve-scheduler-config
    namespace: reprieve-system
    behavior: replace
    literals: [scheduler.yaml=mine]
images:
  - name: reprieve-scheduler
    newName: registry.example/team/scheduler
    newTag: v9
`)
	if got := configMapOf(t, m).Data[configKey]; got != "mine" {
		t.Errorf("the configuration is %q, want the user's", got)
	}
	pod := deploymentOf(t, m).Spec.Template.Spec
	if got, want := pod.Containers[0].Image, "registry.example/team/scheduler:v9"; got != want {
		t.Errorf("the image is %s, want %s", got, want)
	}
	const role = "node-role.kubernetes.io/control-plane"
	if _, ok := pod.NodeSelector[role]; !ok || len(pod.Tolerations) != 1 || pod.Tolerations[0].Key != role {
		t.Errorf("node selector %v, tolerations %+v, want the control plane", pod.NodeSelector, pod.Tolerations)
	}
}
