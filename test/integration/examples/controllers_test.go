package examples

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

const (
	// preemptions is the number of preemptions that the Job in docs/gangs.md must survive.
	preemptions = 10
	// firstBackoff is the time until the Job controller replaces the first failed pod of an index.
	// It doubles with each further failure of the index, up to longestBackoff.
	firstBackoff   = 10 * time.Second
	longestBackoff = 10 * time.Minute
	// promptly is the greatest time until a gang runs again on free nodes, counted from the time
	// when its pods may be created. It is generous for busy machines. atBest is the bound for the
	// fastest attempt of all.
	promptly, atBest = 45 * time.Second, 15 * time.Second
)

// TestControllers runs the manifest in docs/gangs.md with each kind of controller, and checks the
// statements in docs/controllers.md.
func TestControllers(t *testing.T) {
	t.Parallel()
	e := start(t)
	e.scene("a Job survives ten preemptions", (*env).jobSurvives)
	e.scene("a StatefulSet", (*env).statefulSet)
	e.scene("a Deployment", (*env).deployment)
}

// jobSurvives preempts the gang in docs/gangs.md several times. After the first preemption, it
// waits for the back-off of the Job controller. After each later preemption, it moves the time of
// the pods' end into the past. Otherwise the back-off would grow to ten minutes.
func (e *env) jobSurvives() {
	e.CreateClasses(map[string]int32{"urgent": 100000})
	e.ApplyText(strings.Replace(gangYAML(e.T), "restartPolicy: Never", "restartPolicy: Never\n      terminationGracePeriodSeconds: 1", 1))
	e.Runs("training-", 6)
	fastest := promptly
	for i := range preemptions {
		before := e.uids("training-")
		// Two nodes are free. So two pods run there, and the third pod preempts the gang.
		names := []string{"urgent-0", "urgent-1", "urgent-2"}
		for _, name := range names {
			e.pod(name, "urgent", 8)
		}
		e.Runs("urgent-", 3)
		for uid := range e.uids("training-") {
			if _, ok := before[uid]; ok {
				e.Fatalf("preemption %d: a member is still there, the gang goes whole", i+1)
			}
		}
		for _, name := range names {
			if err := e.Kube.CoreV1().Pods(e.Namespace).Delete(e.Context(), name, metav1.DeleteOptions{}); err != nil {
				e.Fatal(err)
			}
		}
		bound := promptly
		if i > 0 {
			e.age(before)
		} else {
			bound += firstBackoff
		}
		freed := time.Now()
		e.Runs("training-", 6)
		took := time.Since(freed)
		if took > bound {
			e.Errorf("preemption %d: it was back after %v, want at most %v", i+1, took, bound)
		}
		fastest = min(fastest, took)
		e.goesOn()
	}
	if fastest > atBest {
		e.Errorf("the fastest of them took %v, want at most %v", fastest, atBest)
	}
}

// age waits until pods have failed, and moves the time of their end into the past. It repeats this
// until the controller replaces them.
func (e *env) age(pods map[types.UID]string) {
	e.Helper()
	long := metav1.NewTime(time.Now().Add(-2 * longestBackoff))
	e.Eventually("the preempted pods have ended", func(ctx context.Context) string {
		left := 0
		for _, pod := range e.AllPods(ctx) {
			if _, ok := pods[pod.UID]; !ok {
				continue
			}
			left++
			state := &pod.Status.ContainerStatuses[0].State
			if pod.Status.Phase != corev1.PodFailed || state.Terminated == nil {
				continue
			}
			if state.Terminated.FinishedAt.Before(&long) || state.Terminated.FinishedAt.Equal(&long) {
				left--
				continue
			}
			state.Terminated.FinishedAt, state.Terminated.StartedAt = long, long
			if _, err := e.Kube.CoreV1().Pods(e.Namespace).UpdateStatus(ctx, &pod, metav1.UpdateOptions{}); err != nil {
				return err.Error()
			}
		}
		if left > 0 {
			return fmt.Sprintf("%d are left", left)
		}
		return ""
	})
}

// goesOn checks that the Job has not failed and has counted no failed pod.
func (e *env) goesOn() {
	e.Helper()
	job, err := e.Kube.BatchV1().Jobs(e.Namespace).Get(e.Context(), "training", metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	failed := slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobFailed || c.Type == batchv1.JobFailureTarget) && c.Status == corev1.ConditionTrue
	})
	if failed || job.Status.Failed > 0 || job.Status.FailedIndexes != nil && *job.Status.FailedIndexes != "" {
		e.Errorf("the Job counts preemptions as failures: %+v", job.Status)
	}
}

// gangYAML returns the first YAML block in docs/gangs.md.
func gangYAML(t *testing.T) string {
	t.Helper()
	_, rest, found := strings.Cut(page(t, "gangs.md"), "```yaml\n")
	block, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatal("docs/gangs.md has no YAML")
	}
	return block
}

// statefulSet tests StatefulSets whose pods form a gang. With the policy OrderedReady, the gang
// waits forever, because the controller creates one pod at a time. With the policy Parallel, it
// must run.
func (e *env) statefulSet() {
	const size = 2
	e.gang("ordered", size)
	e.gang("parallel", size)
	for name, policy := range map[string]string{"ordered": "OrderedReady", "parallel": "Parallel"} {
		e.controller("StatefulSet", name, size, "podManagementPolicy: "+policy, 1)
	}
	e.Runs("parallel-", size)
	e.WaitCondition("ordered", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonNotEnoughMembers)
}

// deployment tests a rollout on a full cluster. The pods past minCount preempt nothing, so a new
// pod needs the room of an old pod. The rollout must stop if the new pods come first, and continue
// if the old pods end first.
func (e *env) deployment() {
	const size = 8
	e.gang("service", size)
	e.controller("Deployment", "service", size, "strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}", 8)
	e.Runs("service-", size)
	before := e.uids("service-")
	change := func(patch string) {
		e.Helper()
		if _, err := e.Kube.AppsV1().Deployments(e.Namespace).Patch(e.Context(), "service", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			e.Fatal(err)
		}
	}
	change(`{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}`)
	e.Eventually("the surge waits for room", func(ctx context.Context) string {
		for _, pod := range e.Pods(ctx, "service-") {
			if _, old := before[pod.UID]; !old {
				e.WaitsSaying(pod.Name, "8 short of nvidia.com/gpu")
				return ""
			}
		}
		return "there is none"
	})
	e.stay(before)
	change(`{"spec":{"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}}}`)
	e.Eventually("it is rolled out", func(ctx context.Context) string {
		d, err := e.Kube.AppsV1().Deployments(e.Namespace).Get(ctx, "service", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if st := d.Status; st.UpdatedReplicas != size || st.ReadyReplicas != size || st.Replicas != size {
			return fmt.Sprintf("%d of %d are new, %d are ready", st.UpdatedReplicas, st.Replicas, st.ReadyReplicas)
		}
		return ""
	})
}

// gang creates a PodGroup that is evicted as a whole.
func (e *env) gang(name string, minCount int32) {
	e.Helper()
	e.CreateGroup(stage.Group{Name: name, MinCount: minCount, Whole: true})
}

// controller creates a Deployment or StatefulSet. Its pods are members of the gang with the same
// name. Each pod requests a number of GPUs.
func (e *env) controller(kind, name string, replicas int, field string, gpus int) {
	e.Helper()
	e.ApplyText(fmt.Sprintf(`apiVersion: apps/v1
kind: %s
metadata: {name: %s}
spec:
  replicas: %d
  %s
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s, reprieve.dev/pod-group: %[2]s}}
    spec:
      schedulerName: reprieve-scheduler
      terminationGracePeriodSeconds: 0
      containers:
        - {name: main, image: registry.example/main:1, resources: {limits: {nvidia.com/gpu: "%[5]d"}}}
`, kind, name, replicas, field, gpus))
}
