package examples

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

// plays maps an example to a function that applies its files and checks the documented results.
var plays = map[string]func(*env){
	"first-gang":         firstGang,
	"gang-in-one-domain": gangInOneDomain,
	"gang-preempts-gang": gangPreemptsGang,
	"guaranteed-minutes": guaranteedMinutes,
	"not-preempted":      notPreempted,
	"three-teams":        threeTeams,
}

// TestExamples runs all examples. Each directory in examples/ must have a function in plays.
func TestExamples(t *testing.T) {
	t.Parallel()
	folders, err := os.ReadDir(filepath.Join(playgroundtest.ModuleRoot(t), "examples"))
	if err != nil {
		t.Fatal(err)
	}
	e := start(t)
	for _, folder := range folders {
		e.scene(folder.Name(), func(e *env) {
			play, ok := plays[folder.Name()]
			if !ok {
				e.Fatal("nothing plays it")
			}
			play(e)
		})
	}
}

// firstGang checks the results in docs/quickstart.md.
func firstGang(e *env) {
	e.ApplyExample("first-gang/01-gang.yaml")
	e.Runs("first-gang-", 3)
	e.Eventually("the PodGroup runs", func(ctx context.Context) string {
		var pg v1alpha1.PodGroup
		if err := e.Objects.Get(ctx, types.NamespacedName{Namespace: e.Namespace, Name: "first-gang"}, &pg); err != nil {
			return err.Error()
		}
		if pg.Status.Phase != v1alpha1.PodGroupRunning || pg.Status.Running != 3 {
			return fmt.Sprintf("it is %s, with %d pods that run", pg.Status.Phase, pg.Status.Running)
		}
		return ""
	})
	e.WaitCondition("first-gang", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionTrue, v1alpha1.ReasonScheduled)
}

func gangInOneDomain(e *env) {
	e.ApplyExample("gang-in-one-domain/01-job.yaml")
	e.Runs("one-domain-", 3)
	nodes := make(map[string]bool)
	for _, pod := range e.Pods(e.Context(), "one-domain-") {
		nodes[pod.Spec.NodeName] = true
	}
	if len(nodes) != 1 {
		e.Errorf("its members run on the nodes %v, want one", nodes)
	}
}

func gangPreemptsGang(e *env) {
	for _, file := range []string{"01-priorities.yaml", "02-serving.yaml", "03-training.yaml"} {
		e.ApplyExample("gang-preempts-gang/" + file)
	}
	e.Runs("serving-", 8)
	e.Runs("training-", 6)
	serving, training := e.uids("serving-"), e.uids("training-")
	e.ApplyExample("gang-preempts-gang/04-urgent.yaml")
	e.Runs("urgent-", 4)
	e.stay(serving)
	for uid := range e.uids("training-") {
		if name, ok := training[uid]; ok {
			e.Errorf("%s is left of the training, which goes whole", name)
		}
	}
	e.WaitCondition("urgent", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionTrue, v1alpha1.ReasonScheduled)
}

func guaranteedMinutes(e *env) {
	const guaranteed = 30 * time.Second
	e.ApplyExample("guaranteed-minutes/01-priorities.yaml", `"600"`, `"30"`)
	e.ApplyExample("guaranteed-minutes/02-training.yaml")
	e.Runs("training-", 8)
	training := e.uids("training-")
	e.ApplyExample("guaranteed-minutes/03-urgent.yaml")
	e.WaitsSaying("urgent", "waits until", "default/training (PreemptionToleration)")
	e.stay(training)
	began := e.started("training")
	e.Runs("urgent", 1)
	for _, c := range e.Pod("urgent").Status.Conditions {
		if c.Type != corev1.PodScheduled {
			continue
		}
		// No other event makes the scheduler retry the preemptor, so it must retry at the end of
		// the protection. Times in the API are rounded to seconds.
		if ran := c.LastTransitionTime.Sub(began); ran < guaranteed || ran > guaranteed+45*time.Second {
			e.Errorf("training had %v, want %v", ran, guaranteed)
		}
	}
}

func notPreempted(e *env) {
	e.ApplyExample("not-preempted/01-priorities.yaml")
	e.ApplyExample("not-preempted/02-running.yaml")
	e.Runs("resumable-", 4)
	e.Runs("not-resumable-", 4)
	guarded := e.uids("not-resumable-")
	e.ApplyExample("not-preempted/03-urgent.yaml")
	e.Runs("urgent-", 4)
	e.stay(guarded)
	urgent := e.uids("urgent-")
	e.ApplyExample("not-preempted/04-urgent-too.yaml")
	e.WaitsSaying("urgent-too", "preemption: ", "4 units of lower priority are protected")
	e.stay(guarded)
	e.ApplyExample("not-preempted/05-critical.yaml")
	e.Runs("critical", 1)
	e.stay(urgent)
	e.Eventually("one pod of not-resumable goes", func(ctx context.Context) string {
		left := 0
		for _, pod := range e.Pods(ctx, "not-resumable-") {
			if _, ok := guarded[pod.UID]; ok {
				left++
			}
		}
		if left != 3 {
			return fmt.Sprintf("%d of 4 are left", left)
		}
		return ""
	})
}

// threeTeams checks the example of docs/queues.md, and prints the table of that page.
func threeTeams(e *env) {
	teams := []string{"research", "product", "interns"}
	table := []string{"| | research | product | interns |", "| --- | ---: | ---: | ---: |"}
	step := func(what, file string, pods ...int) {
		e.Helper()
		e.ApplyExample("three-teams/" + file)
		row := "| " + what
		for i, name := range teams {
			e.Runs(name+"-", pods[i])
			row += " | " + e.hasOf(name, int64(2*pods[i]))
		}
		table = append(table, row+" |")
	}
	e.ApplyExample("three-teams/01-queues.yaml")
	step("interns come first", "02-interns.yaml", 0, 0, 28)
	step("research claims its quota", "03-research.yaml", 12, 0, 20)
	step("product claims its own, and its part of the rest", "04-product.yaml", 12, 17, 3)
	page, err := os.ReadFile(filepath.Join(playgroundtest.ModuleRoot(e), "docs", "queues.md"))
	if err != nil {
		e.Fatal(err)
	}
	if want := strings.Join(table, "\n"); !strings.Contains(string(page), want) {
		e.Errorf("docs/queues.md has another table than\n%s", want)
	}
}

// hasOf waits until a Queue's status reports a number of allocated GPUs. It returns a table cell
// with this number and the fair share.
func (e *env) hasOf(queue string, want int64) string {
	e.Helper()
	out := ""
	e.Eventually("the status of "+queue, func(ctx context.Context) string {
		var q v1alpha1.Queue
		if err := e.Objects.Get(ctx, types.NamespacedName{Name: queue}, &q); err != nil {
			return err.Error()
		}
		has, share := q.Status.Allocated[gpu], q.Status.FairShare[gpu]
		out = fmt.Sprintf("%s of %s", has.String(), share.String())
		if has.Value() != want {
			return fmt.Sprintf("%s, want %d", out, want)
		}
		return ""
	})
	return out
}

// uids returns the pods whose names have a prefix, without terminating pods. It maps the UID to the
// name.
func (e *env) uids(prefix string) map[types.UID]string {
	e.Helper()
	out := make(map[types.UID]string)
	for _, pod := range e.Pods(e.Context(), prefix) {
		out[pod.UID] = pod.Name
	}
	return out
}

// stay checks that the pods still exist and are not terminating.
func (e *env) stay(pods map[types.UID]string) {
	e.Helper()
	now := e.uids("")
	for uid, name := range pods {
		if _, ok := now[uid]; !ok {
			e.Errorf("%s has gone", name)
		}
	}
}

// started waits until a PodGroup has a start time, and returns it.
func (e *env) started(group string) time.Time {
	e.Helper()
	var began time.Time
	e.Eventually(group+" says when it began", func(ctx context.Context) string {
		pg, ok := e.PodGroup(ctx, group).(*v1alpha1.PodGroup)
		if !ok || pg.Status.StartTime == nil {
			return "it does not"
		}
		began = pg.Status.StartTime.Time
		return ""
	})
	return began
}
