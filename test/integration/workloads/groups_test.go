package workloads

import (
	"context"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/native"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestGroups checks on each version of Kubernetes which groups are gangs.
func TestGroups(t *testing.T) {
	t.Parallel()
	e := start(t, jobGates(t))
	for name, test := range map[string]func(*env){
		"a gang waits for its group, and then for its members": testGang,
		"a group without minCount is placed pod by pod":        testBasic,
		"a gang takes room from a gang":                        testPreemption,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(e.in(t))
		})
	}
	for name, test := range e.own() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(e.in(t))
		})
	}
}

// own returns the tests of features that only the served version of the API has.
func (e *env) own() map[string]func(*env) {
	switch e.version {
	case "v1alpha1":
		return map[string]func(*env){"each replica is a gang, of its Workload": testReplicas}
	case "v1alpha2":
		return map[string]func(*env){"its mode is a word": testModeOfWord}
	default:
		return map[string]func(*env){
			"minCount changes":                               testMinCountThatChanges,
			"minCount is raised while it waits":              testMinCountRaisedWhileWaiting,
			"minCount is raised while victims leave for it":  testMinCountRaisedWhilePreempting,
			"minCount is lowered while victims leave for it": testMinCountLoweredWhilePreempting,
			"minCount changes while it runs":                 testMinCountWhileRunning,
			"its mode is a union":                            testModeOfUnion,
			"a preemptionPolicy is dropped without its gate": testPolicyWithoutGate,
			"no field without its gate keeps it waiting":     testFieldsWithoutGates,
			"a Job has a group that is no gang":              testJob,
		}
	}
}

// noneBound checks for some time that no pod whose name has the prefix gets a node.
func (e *env) noneBound(prefix string) {
	e.Helper()
	e.Never(prefix+" waits", func(ctx context.Context) string {
		for _, pod := range e.Pods(ctx, prefix) {
			if pod.Spec.NodeName != "" {
				return pod.Name + " has a node"
			}
		}
		return ""
	})
}

func testGang(e *env) {
	e.AddNodes(4, "a")
	e.member("g-0", "g", "", "", 1)
	e.member("g-1", "g", "", "", 1)
	e.noneBound("g-")
	e.group("g", 3, "")
	e.noneBound("g-")
	e.member("g-2", "g", "", "", 1)
	e.Runs("g-", 3)
}

func testBasic(e *env) {
	e.AddNodes(4, "a")
	e.group("g", 0, "")
	for i := range 3 {
		e.member(fmt.Sprintf("g-%d", i), "g", "", "", 2)
	}
	e.Runs("g-", 2)
}

func testPreemption(e *env) {
	e.AddNodes(4, "a")
	e.group("victims", 2, "low")
	e.member("victims-0", "victims", "", "low", 2)
	e.member("victims-1", "victims", "", "low", 2)
	e.Runs("victims-", 2)
	e.group("urgent", 2, "high")
	e.member("urgent-0", "urgent", "", "high", 2)
	e.noneBound("urgent-")
	e.Runs("victims-", 2)
	e.member("urgent-1", "urgent", "", "high", 2)
	e.Runs("urgent-", 2)
	e.Runs("victims-", 0)
}

// testReplicas checks that each replica of a group is a gang. Reprieve must create a PodGroup for
// each replica, which the Workload owns. An invalid reference of a pod must be reported.
func testReplicas(e *env) {
	e.AddNodes(4, "a")
	workload := e.group("w", 2, "")
	e.member("x-0", "w", "x", "low", 1)
	e.member("y-0", "w", "y", "low", 1)
	e.noneBound("x-")
	e.member("x-1", "w", "x", "low", 1)
	e.Runs("x-", 2)
	e.noneBound("y-")

	name := ref("w", "x").GroupName()
	e.WaitCondition(name, v1alpha1.ConditionPodGroupScheduled, metav1.ConditionTrue, v1alpha1.ReasonScheduled)
	e.WaitCondition(ref("w", "y").GroupName(), v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonNotEnoughMembers)
	made := e.PodGroup(e.Context(), name)
	if owners := made.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != workload.GetUID() || owners[0].BlockOwnerDeletion != nil {
		e.Errorf("the PodGroup has the owners %+v, want the Workload alone", owners)
	}
	if err := e.Objects.Delete(e.Context(), workload); err != nil {
		e.Fatal(err)
	}
	e.Eventually("the PodGroup goes with its Workload", func(ctx context.Context) string {
		if e.PodGroup(ctx, name) != nil {
			return "it is still there"
		}
		return ""
	})
	e.Runs("x-", 2)
	e.group("other", 1, "")
	e.refers(stage.NewPod(e.Namespace, "lost", "low", 1), native.WorkloadRef{Workload: "other", PodGroup: "no-such"})
	e.WaitEvent("lost", "PodGroupNotMade", "Workload other has no group no-such")
}

// testModeOfWord tests a PodGroup whose disruption mode is the string "PodGroup". The PodGroup must
// be evicted as a whole.
func testModeOfWord(e *env) {
	e.AddNodes(4, "a")
	e.podGroup("whole", 2, map[string]any{"disruptionMode": "PodGroup", "priorityClassName": "low"})
	e.member("whole-0", "whole", "", "low", 2)
	e.member("whole-1", "whole", "", "low", 2)
	e.Runs("whole-", 2)
	e.group("one", 1, "high")
	e.member("one-0", "one", "", "high", 2)
	e.Runs("one-", 1)
	e.Runs("whole-", 0)
}

// testJob checks that the PodGroups that the Job controller creates are not gangs.
func testJob(e *env) {
	e.AddNodes(4, "a")
	template := stage.NewPod(e.Namespace, "", "low", 2)
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	e.Create(&batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "j"},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](3), Completions: ptr.To[int32](3), CompletionMode: ptr.To(batchv1.IndexedCompletion),
			Template: corev1.PodTemplateSpec{Spec: template.Spec},
		},
	})
	e.Runs("j-", 2)
	for _, pod := range e.Pods(e.Context(), "j-") {
		if pod.Spec.SchedulingGroup == nil {
			e.Errorf("pod %s is in no PodGroup", pod.Name)
		}
	}
}
