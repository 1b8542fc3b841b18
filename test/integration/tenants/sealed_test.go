package tenants

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// merge applies a JSON merge patch to an object in the test's namespace, as the tenant.
func (e *env) merge(obj client.Object, name, patch string) {
	e.Helper()
	obj.SetNamespace(e.Namespace)
	obj.SetName(name)
	e.do(e.edit.Patch(e.Context(), obj, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// defaultQueue names the default queue of the test's namespace, as an administrator.
func (e *env) defaultQueue(queue string) {
	e.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationDefaultQueue, queue))
	e.do(e.Objects.Patch(e.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.Namespace}}, patch))
}

// deleteGroup deletes a PodGroup as the tenant.
func (e *env) deleteGroup(name string) error {
	return e.edit.Delete(e.Context(), &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}})
}

// used waits until a Queue has an amount of CPUs in use.
func (e *env) used(queue string, cpus int64) {
	e.Helper()
	e.Eventually(fmt.Sprintf("queue %s uses %d CPUs", queue, cpus), func(ctx context.Context) string {
		var now v1alpha1.Queue
		if err := e.Objects.Get(ctx, types.NamespacedName{Name: queue}, &now); err != nil {
			return err.Error()
		}
		if got := now.Status.Allocated[corev1.ResourceCPU]; got.Value() != cpus {
			return "it uses " + got.String()
		}
		return ""
	})
}

// TestSealSurvivesARestart changes all objects and labels that decide how running work counts,
// while no scheduler runs and no admission policy is installed. The new scheduler must count the
// work by the state at the time of its placement.
func TestSealSurvivesARestart(t *testing.T) {
	root, scheduler := newOwn(t)
	s := root.In(t)
	unguard(s)
	e := envOf(t, s)
	e.AddNodes(8, "a", "b", "c")
	team := e.queue("team", v1alpha1.QueueSpec{Quota: cpus(8), Limit: cpus(8)})
	other := e.queue("other", v1alpha1.QueueSpec{Quota: cpus(16)})
	e.defaultQueue(team)
	forged := func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{v1alpha1.AnnotationPlacedAs: fmt.Sprintf(`{"group":"","queue":%q,"priority":1000}`, other)}
	}
	e.do(e.edit.Create(t.Context(), e.group("raised", "low", other, 1)))
	e.running("raised-0", "low", "a", 1, inGroup("raised"), asking(8))
	e.running("filler-0", "high", "b", 1, inQueue(other), asking(8))
	e.do(e.edit.Create(t.Context(), e.group("deleted", "low", team, 1)))
	e.running("deleted-0", "low", "c", 1, inGroup("deleted"), asking(2))
	e.running("labeled-0", "low", "c", 1, inQueue(team), forged)
	e.running("defaulted-0", "low", "c", 1, asking(2))
	if got := e.Pod("labeled-0").Annotations[v1alpha1.AnnotationPlacedAs]; !strings.Contains(got, fmt.Sprintf(`"queue":%q`, team)) {
		t.Errorf("The seal of a pod that came with a forged one is %s", got)
	}

	if err := scheduler.Kill(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// The next scheduler need not wait for the end of the lease.
	e.do(e.Kube.CoordinationV1().Leases("reprieve-system").Delete(t.Context(), "reprieve-scheduler", metav1.DeleteOptions{}))
	e.merge(&corev1.Pod{}, "labeled-0", `{"metadata":{"labels":{"reprieve.dev/queue":null}}}`)
	e.defaultQueue(other)
	for _, name := range []string{"deleted", "raised"} {
		e.do(e.deleteGroup(name))
	}
	e.do(e.edit.Create(t.Context(), e.group("raised", "high", team, 1)))
	e.pod("late-0", "low", "c", inQueue(team), asking(1))
	if err := scheduler.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	e.WaitCondition("raised", v1alpha1.ConditionCountsAsPlaced, metav1.ConditionTrue, v1alpha1.ReasonChangedSincePlaced,
		fmt.Sprintf("in Queue %q, not %q", other, team), "with priority 100, not 1000")
	e.WaitsSaying("late-0", "limit")
	e.used(team, 8)
	e.pod("urgent-0", "mid", "a", inQueue(other), asking(8))
	e.Gone("raised-0")
	e.Runs("urgent-", 1)
	e.Runs("filler-", 1)
}
