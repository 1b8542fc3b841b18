package kubectl

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// trainJob is a Job whose annotation requests a gang. The scheduler derives its PodGroup.
const trainJob = `apiVersion: batch/v1
kind: Job
metadata: {name: train, annotations: {reprieve.dev/gang: "true", secret.example/owner: alice}}
spec:
  parallelism: 2
  template:
    spec: {schedulerName: reprieve-scheduler, restartPolicy: Never, priorityClassName: high, containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 4}}}]}
`

// TestPlanOfADerivedGroup tests the command plan for a Job that requests a gang. The plan must have
// one decision for all pods of the Job. It must be the same for the cluster and for a snapshot, and
// the scheduler must act accordingly. A user without permission to read Jobs must get one line
// about the missing permission, and the other results.
func TestPlanOfADerivedGroup(t *testing.T) {
	s := newStand(t)
	s.allow()
	code, out, errOut := s.ask(trainJob, "plan", "-f", "-", "-o", "json")
	if code != 0 || errOut != "" {
		t.Fatalf("plan: exit code %d, %s", code, errOut)
	}
	var answer planned
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.Results) != 1 || len(answer.Results[0].Steps) != 1 {
		t.Fatalf("It plans %s, want one decision", out)
	}
	step := answer.Results[0].Steps[0]
	if step.Outcome != "Preempts" || len(step.Placements) != 2 || len(step.Victims) != 4 {
		t.Fatalf("It plans %+v", step)
	}
	s.sameBySnapshot(trainJob, out)
	s.create(trainJob)
	victims := s.actsAs(&step)
	group := s.derivedGroup()
	s.tellsOfThePast(victims[0], "job/train", "podgroup "+namespace+"/"+group)

	// The second gang has no room, so the command why explains it. The command must find the
	// PodGroup that the scheduler has derived: in the cluster, and in a snapshot.
	s.create(strings.Replace(trainJob, "name: train,", "name: more,", 1))
	s.eventually("why is about the gang", func() bool {
		code, out, _ := s.ask("", "why", "job/more", "--remedies=false")
		return code == 0 && strings.Contains(out, "2 pending") && strings.Contains(out, "on 2 nodes")
	})
	_, snapshot, _ := s.ask("", "snapshot")
	if strings.Contains(snapshot, "alice") || !strings.Contains(snapshot, `"jobs.batch":2`) {
		t.Errorf("The snapshot has Jobs with more than groups go by, or lacks them: %s", snapshot)
	}

	s.forbid("batch")
	s.eventually("the missing right is named, and the rest is answered", func() bool {
		code, out, errOut := s.ask("", "protected", "-A")
		return code == 0 && out != "" && strings.Count(errOut, "\n") == 1 && strings.Contains(errOut, "you may not list jobs.batch")
	})
	if code, out, _ := s.ask("", "why", "job/more"); code != 0 || !strings.Contains(out, "you may not list jobs.batch") {
		t.Errorf("why of a pod whose Job may not be read: exit code %d, %s", code, out)
	}
}

// derivedGroup returns the name of the only PodGroup.
func (s *stand) derivedGroup() string {
	s.Helper()
	list, err := s.objects.Resource(v1alpha1.SchemeGroupVersion.WithResource("podgroups")).Namespace(namespace).List(s.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		s.Fatalf("there are %d PodGroups, want one; error %v", len(list.Items), err)
	}
	return list.Items[0].GetName()
}

// forbid removes all permissions for an API group from the ClusterRole of the reader.
func (s *stand) forbid(group string) {
	s.Helper()
	role, err := s.kube.RbacV1().ClusterRoles().Get(s.Context(), "reprieve-planner", metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	rules := role.Rules[:0]
	for _, rule := range role.Rules {
		if rule.APIGroups[0] != group {
			rules = append(rules, rule)
		}
	}
	role.Rules = rules
	s.must(s.kube.RbacV1().ClusterRoles().Update(s.Context(), role, metav1.UpdateOptions{}))
}
