package inventory_test

import (
	"bytes"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// TestTrimKeepsAmounts checks that trimmed pods keep the resources allocated to their containers.
// During an in-place resize, these count as well as the requests.
func TestTrimKeepsAmounts(t *testing.T) {
	t.Parallel()
	cpus := func(n string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}
	}
	for name, c := range map[string]struct {
		spec, allocated, actual string
		condition               corev1.PodConditionType
		want                    int64
	}{
		"one that cannot grow":       {"64", "4", "4", corev1.PodResizePending, 4000},
		"one that is still shrunk":   {"2", "8", "8", corev1.PodResizeInProgress, 8000},
		"one that is what it asks":   {"3", "3", "3", "", 3000},
		"one that has not been told": {"5", "", "", "", 5000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "main", Resources: corev1.ResourceRequirements{Requests: cpus(c.spec)}, Env: []corev1.EnvVar{{Name: "A", Value: "secret"}},
					VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/secret"}},
				}}},
			}
			if c.condition != "" {
				reason := ""
				if c.condition == corev1.PodResizePending {
					reason = corev1.PodReasonInfeasible
				}
				pod.Status.Conditions = []corev1.PodCondition{{Type: c.condition, Status: corev1.ConditionTrue, Reason: reason}}
			}
			if c.allocated != "" {
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
					Name: "main", Image: "secret", Resources: &corev1.ResourceRequirements{Requests: cpus(c.actual)}, AllocatedResources: cpus(c.allocated), Started: ptr.To(true),
				}}
			}
			raw, err := json.Marshal(pod)
			if err != nil {
				t.Fatal(err)
			}
			for _, redaction := range []inventory.Redaction{inventory.Full, inventory.Redacted} {
				var object map[string]any
				if err := json.Unmarshal(raw, &object); err != nil {
					t.Fatal(err)
				}
				trimmed, err := inventory.Trim(inventory.Pods, object, redaction)
				if err != nil {
					t.Fatal(err)
				}
				var kept corev1.Pod
				if err := trimmed.Into(&kept); err != nil {
					t.Fatal(err)
				}
				pi, err := framework.NewPodInfo(&kept)
				if err != nil {
					t.Fatal(err)
				}
				if got := pi.CalculateResource().Resource.GetMilliCPU(); got != c.want {
					t.Errorf("%s: it counts %d m, want %d", redaction, got, c.want)
				}
				if bytes.Contains(trimmed.Raw, []byte("secret")) {
					t.Errorf("%s: something is left that no decision depends on: %s", redaction, trimmed.Raw)
				}
			}
		})
	}
}

// TestTrimKeepsTheProfile checks that a running pod keeps its scheduler name. The name selects the
// profile whose min-runtimes protect the pod, so a replay needs it.
func TestTrimKeepsTheProfile(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec: corev1.PodSpec{SchedulerName: "patient", NodeName: "n", Containers: []corev1.Container{{Name: "main"}}},
	}
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, redaction := range []inventory.Redaction{inventory.Full, inventory.Redacted} {
		var object map[string]any
		if err := json.Unmarshal(raw, &object); err != nil {
			t.Fatal(err)
		}
		trimmed, err := inventory.Trim(inventory.Pods, object, redaction)
		if err != nil {
			t.Fatal(err)
		}
		var kept corev1.Pod
		if err := trimmed.Into(&kept); err != nil {
			t.Fatal(err)
		}
		if kept.Spec.SchedulerName != "patient" {
			t.Errorf("%s: its scheduler is %q", redaction, kept.Spec.SchedulerName)
		}
	}
}

// TestRedactKeepsWhatFiltersRead checks that redaction keeps the annotation of claims for extended
// resources, and the inline volumes that count towards a node's attach limits.
func TestRedactKeepsWhatFiltersRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ resource, object, want string }{
		"a claim for an extended resource": {
			"resourceclaims.resource.k8s.io", `{"metadata": {"name": "c", "annotations": {"resource.kubernetes.io/extended-resource-claim": "true", "who": "alice"}}}`,
			"extended-resource-claim",
		},
		"an inline volume": {
			inventory.Pods, `{"metadata": {"name": "p"}, "spec": {"volumes": [{"name": "d", "azureDisk": {"diskName": "d"}}, {"name": "alice", "secret": {}}]}}`, "azureDisk",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var object map[string]any
			if err := json.Unmarshal([]byte(c.object), &object); err != nil {
				t.Fatal(err)
			}
			got, err := inventory.Trim(c.resource, object, inventory.Redacted)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(got.Raw, []byte(c.want)) || bytes.Contains(got.Raw, []byte("alice")) {
				t.Errorf("%s is left, want %s in it and nothing of people", got.Raw, c.want)
			}
		})
	}
}
