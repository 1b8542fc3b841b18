package deploy

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
)

// nativeComponent is what a user's kustomization adds for the PodGroups of scheduling.k8s.io.
const nativeComponent = "components: [$BASE/components/native-workload-api]\n"

// nativeGang makes a PodGroup of scheduling.k8s.io that needs two members, and goes as a whole.
func nativeGang(groupName, class string) *schedulingv1beta1.PodGroup {
	pg := &schedulingv1beta1.PodGroup{ObjectMeta: meta(groupName)}
	pg.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}
	pg.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
	pg.Spec.PriorityClassName = class
	return pg
}

func nativeMemberOf(group string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group} }
}

// added are the permissions that the component adds.
func added(t *testing.T, m manifests) []permission {
	t.Helper()
	base := permissions(t, render(t, deployPath(t)))
	return slices.DeleteFunc(permissions(t, m), func(p permission) bool { return slices.Contains(base, p) })
}

// TestNativeWorkloadAPI runs the scheduler with the component's rights, on a cluster that serves the API.
func TestNativeWorkloadAPI(t *testing.T) {
	c := startClusterOf(t, overlay(t, nativeComponent), map[string]int{"gang": 2}, playground.Options{NativeWorkloadAPI: true})
	c.startScheduler(t, name+"-0")
	c.create(t, priorityClass(low, lowValue), priorityClass(high, highValue))
	c.create(t, nativeGang("train", low),
		newPod("train-0", "gang", low, nativeMemberOf("train"), asks("nvidia.com/gpu", "4")),
		newPod("train-1", "gang", low, nativeMemberOf("train"), asks("nvidia.com/gpu", "4")))
	c.waitRunning(t, "train-0", "train-1")
	c.create(t, nativeGang("serve", high),
		newPod("serve-0", "gang", high, nativeMemberOf("serve"), asks("nvidia.com/gpu", "2")),
		newPod("serve-1", "gang", high, nativeMemberOf("serve"), asks("nvidia.com/gpu", "2")))
	c.waitRunning(t, "serve-0", "serve-1")
	c.waitGone(t, "train-0", "train-1")
	c.waitEvent(t, "PodGroup", "train", "Preempted")
	c.waitEvent(t, "PodGroup", "serve", "Preempting")
	for group, condition := range map[string]string{"train": v1alpha1.ConditionDisruptionTarget, "serve": v1alpha1.ConditionPodGroupScheduled} {
		eventually(t, "condition "+condition+" of "+group, func(ctx context.Context) string {
			pg := &schedulingv1beta1.PodGroup{ObjectMeta: meta(group)}
			if err := c.Get(ctx, client.ObjectKeyFromObject(pg), pg); err != nil {
				return err.Error()
			}
			if apimeta.FindStatusCondition(pg.Status.Conditions, condition) == nil {
				return "there is none"
			}
			return ""
		})
	}
	granted := added(t, c.manifests)
	if len(granted) != 4 {
		t.Errorf("the component adds %v, want 4 permissions", granted)
	}
	eventually(t, "permissions nobody used", func(context.Context) string {
		var left []string
		for _, p := range unused(granted, readAudit(t, c.auditLog)) {
			left = append(left, p.String())
		}
		return strings.Join(left, "; ")
	})
	testMissing(t, c)

	t.Run("without the component", func(t *testing.T) { testWithoutComponent(t, c) })
}

// testWithoutComponent takes the rights away: a scheduler that starts then does without those PodGroups, and says so.
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
		var groups schedulingv1beta1.PodGroupList
		if c.as(t, account).List(ctx, &groups) == nil {
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
