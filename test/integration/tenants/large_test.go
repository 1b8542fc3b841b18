package tenants

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

const gpu corev1.ResourceName = "nvidia.com/gpu"

// newCluster starts a playground with nodes of 8 GPUs, and creates the PriorityClasses of the tests
// that use it.
func newCluster(t *testing.T, nodes int) *stage.Stage {
	t.Helper()
	s := stage.New(t, playground.Options{NodeGroups: []playground.NodeGroup{{Count: nodes, Resources: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"), gpu: resource.MustParse("8"),
	}}}})
	s.ApplyText(`apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low}
value: 10
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: mid}
value: 500
`)
	return s
}

// create creates a pod that requests a number of GPUs. If group is not empty, the pod is a member
// of this PodGroup.
func create(s *stage.Stage, name, group, class string, gpus int64, change ...func(*corev1.Pod)) {
	s.Helper()
	amounts := corev1.ResourceList{gpu: *resource.NewQuantity(gpus, resource.DecimalSI)}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: stage.Profile, PriorityClassName: class, TerminationGracePeriodSeconds: ptr.To[int64](1),
			Containers: []corev1.Container{{Name: "main", Image: "example.com/work", Resources: corev1.ResourceRequirements{Requests: amounts, Limits: amounts}}},
		},
	}
	if group != "" {
		pod.Labels = map[string]string{v1alpha1.LabelPodGroup: group}
	}
	for _, c := range change {
		c(pod)
	}
	if _, err := s.Kube.CoreV1().Pods("default").Create(s.Context(), pod, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// gang creates a PodGroup with the default priority.
func gang(s *stage.Stage, name string, minCount int) {
	s.Helper()
	s.ApplyText(fmt.Sprintf(`apiVersion: reprieve.dev/v1alpha1
kind: PodGroup
metadata: {name: %s, namespace: default}
spec: {disruptionMode: PodGroup, schedulingPolicy: {gang: {minCount: %d}}}
`, name, minCount))
}

// label sets labels of a PodGroup. Their names have the numbers from "from" to from+count-1. If
// value is nil, it removes the labels.
func label(s *stage.Stage, name string, from, count int, value any) error {
	labels := make(map[string]any, count)
	for i := range count {
		labels[fmt.Sprintf("l%06d", from+i)] = value
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		return err
	}
	pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	return s.Objects.Patch(s.Context(), pg, client.RawPatch(types.MergePatchType, text))
}

// TestGroupThatIsTooLargeToMark adds labels to the PodGroup of a running gang until etcd accepts no
// larger object. Then the scheduler cannot write an intent to the status of this PodGroup. The
// scheduler must select another victim, even one with a higher priority.
func TestGroupThatIsTooLargeToMark(t *testing.T) {
	s := newCluster(t, 2)
	gang(s, "large", 2)
	create(s, "large-0", "large", "", 4)
	create(s, "large-1", "large", "", 4)
	s.Runs("large-", 2)
	create(s, "other-0", "", "low", 8)
	s.Runs("other-", 1)
	filled := 0
	for step := 4096; step > 0; {
		err := label(s, "large", filled, step, strings.Repeat("x", 60))
		switch {
		case err == nil:
			filled += step
		case strings.Contains(err.Error(), "too large"):
			step /= 2
		default:
			t.Fatal(err)
		}
	}
	t.Logf("The PodGroup has %d labels", filled)
	create(s, "urgent-0", "", "high", 8)
	s.Gone("other-0")
	s.Runs("urgent-", 1)
	s.WaitEvent("urgent-0", "PreemptionFailed", "mark PodGroup default/large", "too large")
	if pods := s.Pods(s.Context(), "large-"); len(pods) != 2 || pods[0].DeletionTimestamp != nil || pods[1].DeletionTimestamp != nil {
		t.Errorf("The gang has not stayed: %d pods are left", len(pods))
	}
	for from := 0; from < filled; from += 4096 {
		if err := label(s, "large", from, min(4096, filled-from), nil); err != nil {
			t.Fatal(err)
		}
	}
}
