package deploy

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/native"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// nativeComponent is the line in a user's kustomization that adds the component for PodGroups of
// scheduling.k8s.io.
const nativeComponent = "components: [$BASE/components/native-workload-api]\n"

// nativeGang returns a PodGroup of scheduling.k8s.io with minCount 2. It is evicted as a whole.
func nativeGang(t *testing.T, groupName, class string) client.Object {
	t.Helper()
	return stage.NativeGroups(t).New(metav1.NamespaceDefault, stage.Group{Name: groupName, MinCount: 2, Whole: true, Priority: class})
}

func nativeMemberOf(group string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group} }
}

// added returns the permissions in the manifests that deploy/ alone does not have.
func added(t *testing.T, m manifests) []permission {
	t.Helper()
	base := permissions(t, render(t, deployPath(t)))
	return slices.DeleteFunc(permissions(t, m), func(p permission) bool { return slices.Contains(base, p) })
}

// TestNativeWorkloadAPI runs the scheduler with the permissions of nativeComponent, on a cluster
// that serves PodGroups of scheduling.k8s.io.
func TestNativeWorkloadAPI(t *testing.T) {
	if stage.Kubernetes(t).WorkloadAPI == "v1alpha1" {
		testWorkloadRefs(t)
		return
	}
	c := startClusterOf(t, overlay(t, nativeComponent), map[string]int{"gang": 2}, playground.Options{NativeWorkloadAPI: true})
	c.startScheduler(t, name+"-0")
	c.create(t, priorityClass(low, lowValue), priorityClass(high, highValue))
	c.create(t, nativeGang(t, "train", low),
		newPod("train-0", "gang", low, nativeMemberOf("train"), asks("nvidia.com/gpu", "4")),
		newPod("train-1", "gang", low, nativeMemberOf("train"), asks("nvidia.com/gpu", "4")))
	c.waitRunning(t, "train-0", "train-1")
	c.create(t, nativeGang(t, "serve", high),
		newPod("serve-0", "gang", high, nativeMemberOf("serve"), asks("nvidia.com/gpu", "2")),
		newPod("serve-1", "gang", high, nativeMemberOf("serve"), asks("nvidia.com/gpu", "2")))
	c.waitRunning(t, "serve-0", "serve-1")
	c.waitGone(t, "train-0", "train-1")
	c.waitEvent(t, "PodGroup", "train", "Preempted")
	c.waitEvent(t, "PodGroup", "serve", "Preempting")
	for group, condition := range map[string]string{"train": v1alpha1.ConditionDisruptionTarget, "serve": v1alpha1.ConditionPodGroupScheduled} {
		eventually(t, "condition "+condition+" of "+group, func(ctx context.Context) string {
			pg := nativeGang(t, group, "")
			if err := c.Get(ctx, client.ObjectKeyFromObject(pg), pg); err != nil {
				return err.Error()
			}
			if apimeta.FindStatusCondition(stage.ConditionsOf(pg), condition) == nil {
				return "there is none"
			}
			return ""
		})
	}
	wantUsed(t, c, 4)

	t.Run("without the component", func(t *testing.T) { testWithoutComponent(t, c) })
}

// wantUsed checks the number of permissions that nativeComponent adds for the current version of
// Kubernetes. The scheduler must have used each of them, and no request may have been rejected.
func wantUsed(t *testing.T, c *cluster, count int) {
	t.Helper()
	minor := stage.Kubernetes(t).Minor
	granted := slices.DeleteFunc(added(t, c.manifests), func(p permission) bool { return !usedIn(p, minor) })
	if len(granted) != count {
		t.Errorf("the component adds %v, want %d permissions", granted, count)
	}
	eventually(t, "permissions nobody used", func(context.Context) string {
		var left []string
		for _, p := range unused(granted, readAudit(t, c.auditLog)) {
			left = append(left, p.String())
		}
		return strings.Join(left, "; ")
	})
	testMissing(t, c)
}

// testWorkloadRefs runs the cases of TestNativeWorkloadAPI on versions of Kubernetes where pods
// refer to a Workload. The scheduler creates the PodGroups for these pods.
func testWorkloadRefs(t *testing.T) {
	c := startClusterOf(t, overlay(t, nativeComponent), map[string]int{"gang": 2}, playground.Options{NativeWorkloadAPI: true})
	c.startScheduler(t, name+"-0")
	c.create(t, priorityClass(low, lowValue))
	workload := native.NewObject(schema.GroupVersionKind{Group: native.Group, Version: "v1alpha1", Kind: "Workload"})
	workload.SetNamespace(metav1.NamespaceDefault)
	workload.SetName("train")
	policy := map[string]any{"gang": map[string]any{"minCount": int64(2)}}
	workload.Object["spec"] = map[string]any{"podGroups": []any{map[string]any{"name": "workers", "policy": policy}}}
	c.create(t, workload)
	for _, member := range []string{"train-0", "train-1"} {
		pod, err := runtime.DefaultUnstructuredConverter.ToUnstructured(newPod(member, "gang", low))
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{Object: pod}
		u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		if err := unstructured.SetNestedStringMap(u.Object, map[string]string{"name": "train", "podGroup": "workers"}, "spec", "workloadRef"); err != nil {
			t.Fatal(err)
		}
		c.create(t, u)
	}
	c.waitRunning(t, "train-0", "train-1")
	made := &v1alpha1.PodGroup{ObjectMeta: meta(native.WorkloadRef{Workload: "train", PodGroup: "workers"}.GroupName())}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(made), made); err != nil {
		t.Errorf("the PodGroup of the Workload: %v", err)
	}
	wantUsed(t, c, 2)
}

// testWithoutComponent removes the permissions of nativeComponent. A scheduler that starts
// afterwards must ignore PodGroups of scheduling.k8s.io, and report that it ignores them.
func testWithoutComponent(t *testing.T, c *cluster) {
	role := typed[rbacv1.ClusterRole](t, render(t, deployPath(t)).find(t, "ClusterRole", name))
	if err := c.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	for _, s := range c.schedulers {
		if err := s.Kill(9); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the rights are gone", func(ctx context.Context) string {
		groups := &unstructured.UnstructuredList{}
		groups.SetAPIVersion(native.Group + "/" + stage.Kubernetes(t).WorkloadAPI)
		groups.SetKind("PodGroupList")
		if c.as(t, account).List(ctx, groups) == nil {
			return "they are not"
		}
		return ""
	})
	c.startScheduler(t, name+"-1")
	started := c.schedulers[len(c.schedulers)-1]
	log, err := os.ReadFile(started.LogPath())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(log), "deploy/components/native-workload-api") {
		t.Errorf("the log does not say where the rights are:\n%s", log)
	}
	c.create(t, newPod("waits", "gang", low, nativeMemberOf("train")), newPod("goes", "gang", low))
	c.waitRunning(t, "goes")
	c.waitEvent(t, "Pod", "waits", "FailedScheduling")
}
