package groups

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// treeWithLeader is a tree whose PodGroup leader is in disruption mode Never. The verbs are the
// namespace, the PriorityClass and the disruption mode of the tree.
const treeWithLeader = `
apiVersion: reprieve.dev/v1alpha1
kind: CompositePodGroup
metadata: {name: serving, namespace: %[1]s}
spec: {priorityClassName: %[2]s, disruptionMode: %[3]s, schedulingPolicy: {gang: {minGroupCount: 2}}}
---
apiVersion: reprieve.dev/v1alpha1
kind: PodGroup
metadata: {name: leader, namespace: %[1]s}
spec: {parentCompositePodGroupName: serving, priorityClassName: %[2]s, disruptionMode: Never, schedulingPolicy: {gang: {minCount: 1}}}
---
apiVersion: reprieve.dev/v1alpha1
kind: PodGroup
metadata: {name: workers, namespace: %[1]s}
spec: {parentCompositePodGroupName: serving, priorityClassName: %[2]s, schedulingPolicy: {gang: {minCount: 2}}}
`

const neverClasses = `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: led
  annotations: {reprieve.dev/never-seconds: "3600", preemption-toleration.scheduling.x-k8s.io/minimum-preemptable-priority: "100"}
value: 10
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: unbounded}
value: 10
`

// TestNever tests a tree whose leader is in disruption mode Never.
func TestNever(t *testing.T) {
	t.Parallel()
	s := startWith(t, "Job")
	s.ApplyText(neverClasses)
	s.CreateClasses(map[string]int32{"above": 20, "top": 100})
	for name, test := range map[string]func(*stage.Stage){
		"the leader stays":        leaderStays,
		"a class without a bound": leaderWithoutBound,
		"a tree in mode All":      leaderBelowAll,
		"a PodGroup in no tree":   neverRefused,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(s.In(t))
		})
	}
}

// runTree creates the tree and its pods on a node with room for them only.
func runTree(s *stage.Stage, class, mode string) {
	s.Helper()
	s.AddNodes(3, "a")
	s.WaitReady("a")
	s.ApplyText(fmt.Sprintf(treeWithLeader, s.Namespace, class, mode))
	for name, group := range map[string]string{"leader-0": "leader", "workers-0": "workers", "workers-1": "workers"} {
		pod := stage.NewPod(s.Namespace, name, class, 1)
		pod.Labels[v1alpha1.LabelPodGroup] = group
		s.Create(pod)
	}
	s.Runs("leader-", 1)
	s.Runs("workers-", 2)
}

// leaderStays checks that preemptors evict the workers only, and that the message of another
// preemptor has the rule and the end of the protection. A preemptor with the minimum priority
// evicts the leader all the same.
func leaderStays(s *stage.Stage) {
	runTree(s, "led", "Single")
	s.WaitCondition("leader", v1alpha1.ConditionDisruptionModeNever, metav1.ConditionTrue, v1alpha1.ReasonNeverBounded, "below 100", "3600 seconds")
	s.Create(stage.NewPod(s.Namespace, "urgent", "above", 2))
	s.Runs("urgent", 1)
	s.Gone("workers-0")
	s.Gone("workers-1")
	s.Runs("leader-", 1)
	s.Create(stage.NewPod(s.Namespace, "next", "above", 1))
	s.WaitsSaying("next", "waits until", "(DisruptionModeNever) is protected no longer")
	s.Runs("leader-", 1)
	s.Create(stage.NewPod(s.Namespace, "first", "top", 1))
	s.Runs("first", 1)
	s.Gone("leader-0")
	s.WaitEvent("Pod/leader-0", "Preempted", "first")
}

// leaderWithoutBound checks that the mode has no effect if the class sets no time.
func leaderWithoutBound(s *stage.Stage) {
	runTree(s, "unbounded", "Single")
	s.WaitCondition("leader", v1alpha1.ConditionDisruptionModeNever, metav1.ConditionFalse, v1alpha1.ReasonNoBound, `PriorityClass "unbounded"`, "reprieve.dev/never-seconds")
	s.Create(stage.NewPod(s.Namespace, "urgent", "above", 3))
	s.Runs("urgent", 1)
	s.Gone("leader-0")
}

// leaderBelowAll checks that the mode All of the tree precedes the mode Never of the leader.
func leaderBelowAll(s *stage.Stage) {
	runTree(s, "led", "All")
	s.WaitCondition("leader", v1alpha1.ConditionDisruptionModeNever, metav1.ConditionFalse, v1alpha1.ReasonParentGoesWhole, "CompositePodGroup "+s.Namespace+"/serving")
	s.Create(stage.NewPod(s.Namespace, "urgent", "above", 1))
	s.Runs("urgent", 1)
	for _, name := range []string{"leader-0", "workers-0", "workers-1"} {
		s.Gone(name)
	}
}

// neverRefused checks that the API server rejects the mode for a PodGroup without a parent, and for
// a CompositePodGroup.
func neverRefused(s *stage.Stage) {
	for text, want := range map[string]string{
		"apiVersion: reprieve.dev/v1alpha1\nkind: PodGroup\nmetadata: {name: alone}\nspec: {disruptionMode: Never, schedulingPolicy: {gang: {minCount: 1}}}\n":              "Never is for a part of a tree",
		"apiVersion: reprieve.dev/v1alpha1\nkind: CompositePodGroup\nmetadata: {name: root}\nspec: {disruptionMode: Never, schedulingPolicy: {gang: {minGroupCount: 1}}}\n": `Unsupported value: "Never"`,
	} {
		err := s.Objects.Create(s.Context(), object(s, text))
		if err == nil || !strings.Contains(err.Error(), want) {
			s.Errorf("the API server says %v, want %q", err, want)
		}
	}
}
