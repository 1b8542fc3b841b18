package scheduling

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// pauseAfterCrashes is the default of initialBindingBackoff.
const pauseAfterCrashes = time.Minute

// TestCrashingPreemptor tests a ReplicaSet whose pods preempt and then fail, three times in a row.
// After that, its pods must not preempt again, and must report why.
func TestCrashingPreemptor(t *testing.T) {
	t.Parallel()
	e := newEnv(t, stage.GroupAPIs(t)[0])
	e.AddNodes(2, "a")
	e.replicas("victim", 1, podSpec{cpus: 2, priority: "low"})
	e.Runs("victim", 1)
	evicted := e.countEvicted("victim")
	urgent := e.crashThrice()
	before := evicted()
	e.scale(urgent, 1)
	e.Eventually("it says that it has crashed", func(ctx context.Context) string {
		said := ""
		for _, pod := range e.Pods(ctx, urgent) {
			for i := range pod.Status.Conditions {
				said += pod.Status.Conditions[i].Message + "\n"
			}
		}
		if !strings.Contains(said, "3 starts in a row of this pod crashed after a preemption") {
			return "the conditions say: " + said
		}
		return ""
	})
	e.NeverFor(5*time.Second, 200*time.Millisecond, "nobody is preempted any more", func(context.Context) string {
		if n := evicted(); n != before {
			return fmt.Sprintf("%d are evicted, want %d", n, before)
		}
		return ""
	})
}

// crashThrice creates a ReplicaSet whose pod preempts the victim, and whose pods fail three times in
// a row. It returns the name of the ReplicaSet, which has no pods then. On a slow machine, a pod may
// be ready for so long that its failure does not count, or the pause after the crashes may end too
// soon. Then crashThrice tries another ReplicaSet. The limits are half of the scheduler's limits,
// because the scheduler sees each change later than this test.
func (e *env) crashThrice() string {
	e.Helper()
	for attempt := range 5 {
		name, inTime := fmt.Sprint("urgent-", attempt), true
		e.replicas(name, 1, podSpec{cpus: 2, priority: "high"})
		for range 3 {
			e.Runs(name, 1)
			ready := time.Now()
			for _, pod := range e.Pods(e.Context(), name) {
				// A failed pod still has the condition Ready.
				if _, c := podutil.GetPodCondition(&pod.Status, corev1.PodReady); c != nil && pod.Status.Phase == corev1.PodRunning {
					ready = c.LastTransitionTime.Time
				}
			}
			e.failAll(name)
			inTime = inTime && time.Since(ready) < engine.SettledAfter/2
		}
		crashed := time.Now()
		// Let the replacement of the victim run. Otherwise the next pod of a ReplicaSet could use
		// the free room without a preemption.
		e.scale(name, 0)
		e.Runs("victim", 1)
		if inTime && time.Since(crashed) < pauseAfterCrashes/2 {
			return name
		}
	}
	e.Fatal("the machine is too slow for three crashes in a row")
	return ""
}

// failAll sets the phase of pods to Failed, like a kubelet after a crash.
func (e *env) failAll(prefix string) {
	e.Helper()
	patch := []byte(`{"status":{"phase":"Failed"}}`)
	for _, pod := range e.Pods(e.Context(), prefix) {
		if pod.Status.Phase != corev1.PodRunning {
			continue
		}
		if _, err := e.Kube.CoreV1().Pods(e.Namespace).Patch(e.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			e.Fatalf("end pod %s: %v", pod.Name, err)
		}
	}
}

// scale sets the number of pods of a ReplicaSet.
func (e *env) scale(name string, replicas int) {
	e.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	if _, err := e.Kube.AppsV1().ReplicaSets(e.Namespace).Patch(e.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		e.Fatalf("scale %s: %v", name, err)
	}
}
