package kubectl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/internal/playground"
)

// solo is a pod that needs all GPUs of a node. The name and the PriorityClass are parameters.
const solo = `apiVersion: v1
kind: Pod
metadata: {name: %s}
spec: {schedulerName: reprieve-scheduler, priorityClassName: %s, terminationGracePeriodSeconds: 1, containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 4}}}]}
`

// again has the fields of the command replay's JSON output that the tests check.
type again struct {
	Same, Differs, Unknown int
	Decisions              []struct {
		Preemptor struct{ Name string }
		State     string
		Why       string
		Then      struct{ Outcome, Message string }
		Now       *struct{ Outcome, Message string }
	}
}

// TestReplayOfALog tests the command replay. A decision log with inputs must be sufficient to
// repeat the decisions, with the same victims and nodes. With a configuration that preempts gangs
// pod by pod, replay must report a different decision.
func TestReplayOfALog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	s := newStandWith(t, playground.SchedulerOptions{Args: []string{"--decision-log=" + log, "--decision-log-inputs=redacted"}})
	s.must(s.kube.SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "middle"}, Value: 100}, metav1.CreateOptions{}))
	s.create(train)
	s.eventually("the gang is placed", func() bool { return len(s.onNodes("train-")) == 2 })
	s.create(fmt.Sprintf(solo, "middle-0", "middle"))
	s.eventually("a pod takes what is left", func() bool { return len(s.onNodes("middle-")) == 1 })
	s.create(fmt.Sprintf(solo, "low-again", "low"))
	s.create(fmt.Sprintf(solo, "middle-1", "middle"))
	written := func() string {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	s.eventually("all have been decided on", func() bool {
		text := written()
		return strings.Contains(text, `"name":"middle-1","uid"`) && strings.Count(text, `"outcome":"Infeasible"`) >= 2 && strings.Count(text, `"state":"CarriedOut"`) >= 2
	})
	text := written()
	if strings.Contains(text, `"image"`) {
		t.Error("The log is to be redacted, and has images")
	}
	// Drop the last line, which is incomplete if the scheduler is writing it.
	text = text[:strings.LastIndex(text, "\n")+1]
	code, out, errOut := s.ask(text, "replay", "-", "-o", "json")
	var answer again
	if err := json.Unmarshal([]byte(out), &answer); code != 0 || err != nil {
		t.Fatalf("exit code %d, %v: %s, %s", code, err, out, errOut)
	}
	preempts := 0
	for _, d := range answer.Decisions {
		if d.Then.Outcome == "Preempts" {
			preempts++
		}
		if d.State != "Same" {
			t.Errorf("%+v", d)
		}
	}
	if preempts < 2 || len(answer.Decisions) < 4 {
		t.Errorf("%d decisions, of which %d preempt: too few to tell anything", len(answer.Decisions), preempts)
	}
	if version := answerVersionOf(t, out); version == "" {
		t.Error("The log does not say which version decided")
	}
	s.differsPodByPod(text)
}

// answerVersionOf returns the first scheduler version in the output of replay.
func answerVersionOf(t *testing.T, out string) string {
	t.Helper()
	var answer struct{ Versions []string }
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatal(err)
	}
	return strings.Join(answer.Versions, "")
}

// differsPodByPod checks that replay reports a different decision if the configuration preempts
// gangs pod by pod.
func (s *stand) differsPodByPod(text string) {
	s.Helper()
	file := filepath.Join("..", "..", "..", "cmd", "kubectl-reprieve", "app", "testdata", "next.yaml")
	code, out, errOut := s.ask(text, "replay", "-", "-o", "json", "--config", file)
	var answer again
	if err := json.NewDecoder(bytes.NewReader([]byte(out))).Decode(&answer); code != 0 || err != nil {
		s.Fatalf("exit code %d, %v: %s, %s", code, err, out, errOut)
	}
	if answer.Differs == 0 {
		s.Errorf("Pod by pod, no decision differs: %s", out)
	}
}
