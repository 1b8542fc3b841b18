package queues

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestReclaim has a queue take back its share from one that was lent all, whatever the priorities, and no more.
func TestReclaim(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	c.classes()
	c.queue("lender")
	c.queue("borrower")
	c.pods("borrowed", "borrower", 4, 2, "high")
	c.Runs("borrowed", 4)
	c.shows("borrower", "8", "8", "8")
	c.pods("claim", "lender", 4, 2, "low")
	c.Runs("claim", 2)
	c.Runs("borrowed", 2)
	c.shows("lender", "4", "8", "4")
	c.shows("borrower", "4", "4", "4")
	for _, pod := range c.Pods(t.Context(), "claim") {
		if pod.Spec.NodeName == "" {
			c.WaitsSaying(pod.Name, "PreemptorOverFairShare")
		}
	}
	// Priority still counts inside the queue.
	c.pods("urgent", "lender", 1, 2, "high")
	c.Runs("urgent", 1)
	c.Runs("claim", 1)
	c.Runs("borrowed", 2)
}

// TestLimit has work wait at the limit of its queue, gangs as a whole, although the cluster has room.
// TestReclaimedRoomIsKept has the victims come back at once, with a priority above that of those who took their room:
// until these have it, it is kept from them, so that nobody is evicted a second time.
func TestReclaimedRoomIsKept(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	c.classes()
	c.queue("lender")
	c.queue("borrower")
	c.ApplyText(fmt.Sprintf(`apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: work
  namespace: default
spec:
  replicas: 4
  selector:
    matchLabels: {app: work}
  template:
    metadata:
      labels: {app: work, %s: borrower}
    spec:
      schedulerName: reprieve-scheduler
      priorityClassName: high
      terminationGracePeriodSeconds: 3
      containers:
      - name: main
        image: example.com/work
        resources:
          requests: {nvidia.com/gpu: "2"}
          limits: {nvidia.com/gpu: "2"}
`, v1alpha1.LabelQueue))
	c.Runs("work", 4)
	c.pods("claim", "lender", 2, 2, "low")
	c.Runs("claim", 2)
	c.Runs("work", 2)
	c.rested("claim", "work")
	events, err := c.Kube.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	evicted := 0
	for i := range events.Items {
		if e := &events.Items[i]; e.Reason == "Preempted" && e.Regarding.Kind == "Pod" {
			evicted++
			if want := "queue lender takes back what queue borrower has"; !strings.Contains(e.Note, want) {
				t.Errorf("%s is told %q, which does not say %q", e.Regarding.Name, e.Note, want)
			}
		}
	}
	if evicted != 2 {
		t.Errorf("%d pods were evicted, want 2", evicted)
	}
}

func TestLimit(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	c.queue("top", "limit: {nvidia.com/gpu: 6}")
	c.queue("a", "parent: top", "limit: {nvidia.com/gpu: 4}")
	c.queue("b", "parent: top")
	c.pods("a", "a", 3, 2, "")
	c.Runs("a-", 2)
	waiting := c.pending("a-")
	c.WaitsSaying(waiting, `Queue "a" has a limit of 4 nvidia.com/gpu: 4 are in use and 2 more are needed`)
	c.gang("team", "b", 2, 2, 2)
	c.groupSays("team", v1alpha1.ReasonQueueLimit, `Queue "top" has a limit of 6 nvidia.com/gpu`)
	if n := c.placed("team"); n != 0 {
		t.Errorf("%d members of a gang beyond the limit have a node", n)
	}
	// With the limit out of the way both go on.
	c.queue("top", "limit: {nvidia.com/gpu: 8}")
	c.Runs("team", 2)
	for _, pod := range c.Pods(t.Context(), "a-") {
		if pod.Spec.NodeName != "" {
			if err := c.Kube.CoreV1().Pods("default").Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	c.Runs(waiting, 1)
	c.shows("top", "8", "8", "8")
	// Surplus waits at the limit as well, and its gang goes on.
	c.pod("team-9", 2, "", map[string]string{v1alpha1.LabelPodGroup: "team"})
	c.WaitsSaying("team-9", `Queue "top" has a limit of 8 nvidia.com/gpu`)
	c.Runs("team", 2)
}

// TestNames has work that names no leaf wait, and say so, until it does.
func TestNames(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	c.queue("parent")
	c.queue("child", "parent: parent")
	c.queue("lost", "parent: nowhere")
	c.queue("chicken", "parent: egg")
	c.queue("egg", "parent: chicken")
	c.pods("unknown", "later", 1, 1, "")
	c.pods("inner", "parent", 1, 1, "")
	c.pods("adrift", "lost", 1, 1, "")
	c.gang("group", "later", 2, 2, 1)
	c.WaitsSaying("unknown-0", `Queue "later" does not exist`)
	c.WaitsSaying("inner-0", `Queue "parent" has other queues below it`, `such as "child"`)
	c.WaitsSaying("adrift-0", `Queue "lost" cannot be used`, `"nowhere"`)
	c.groupSays("group", v1alpha1.ReasonQueueNotFound, `Queue "later" does not exist`)
	c.queueCondition("lost", v1alpha1.ConditionQueueReady, metav1.ConditionFalse, `"nowhere"`)
	c.queueCondition("chicken", v1alpha1.ConditionQueueReady, metav1.ConditionFalse, "comes back")
	c.queueCondition("child", v1alpha1.ConditionQueueReady, metav1.ConditionTrue)
	c.pods("sound", "child", 1, 1, "")
	c.Runs("sound", 1)
	c.queue("later")
	c.queue("nowhere")
	c.Runs("unknown", 1)
	c.Runs("group", 2)
	c.Runs("adrift", 1)
	c.queue("child", "parent: parent", "quota: {nvidia.com/gpu: 3}")
	c.queueCondition("child", v1alpha1.ConditionQuotaServed, metav1.ConditionFalse, "nvidia.com/gpu", `"parent"`)
}

// TestReclaimMinRuntime has reclaim wait for the end of what a queue guarantees, and no longer. The victim's PodGroup
// shows when that is, and follows the queue's settings.
func TestReclaimMinRuntime(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	const guaranteed = 20 * time.Second
	c.queue("lender")
	c.queue("borrower", "reclaimMinRuntime: 1h", "preemptMinRuntime: 10s")
	c.gang("borrowed", "borrower", 1, 1, 8)
	c.Runs("borrowed", 1)
	c.protected("borrowed", time.Hour)
	began := c.group(t.Context(), "borrowed").Status.StartTime.Time
	c.pods("claim", "lender", 1, 4, "")
	c.WaitsSaying("claim-0", "waits until", "default/borrowed-0 (ReclaimMinRuntime of queue borrower)")
	c.queue("borrower", "reclaimMinRuntime: 20s", "preemptMinRuntime: 10s")
	c.protected("borrowed", guaranteed)
	c.Runs("claim", 1)
	c.Gone("borrowed-0")
	ran := scheduledAt(c.Pod("claim-0")).Sub(began)
	if ran < guaranteed-time.Second || ran > guaranteed+soon {
		t.Errorf("the borrower had %v, want %v", ran, guaranteed)
	}
}

// TestThreeTeams plays examples/three-teams, and prints the table of docs/queues.md.
func TestThreeTeams(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	table := []string{"| | research | product | interns |", "| --- | ---: | ---: | ---: |"}
	step := func(what, file string, research, product, interns int) {
		c.Helper()
		c.ApplyExample("three-teams/" + file)
		c.Runs("research", research)
		c.Runs("product", product)
		c.Runs("interns", interns)
		row := "| " + what
		for _, name := range []string{"research", "product", "interns"} {
			var has, share string
			c.Eventually("the status of "+name, func(ctx context.Context) string {
				q := c.getQueue(ctx, name)
				if q == nil {
					return "it is not there"
				}
				a, f := q.Status.Allocated[gpu], q.Status.FairShare[gpu]
				has, share = a.String(), f.String()
				if want := map[string]int{"research": research, "product": product, "interns": interns}[name] * 2; a.Value() != int64(want) {
					return fmt.Sprintf("%s allocated, want %d", has, want)
				}
				return ""
			})
			row += fmt.Sprintf(" | %s of %s", has, share)
		}
		table = append(table, row+" |")
	}
	c.ApplyExample("three-teams/01-queues.yaml")
	step("interns come first", "02-interns.yaml", 0, 0, 10)
	step("research claims its quota", "03-research.yaml", 4, 0, 8)
	step("product claims its own, and its part of the rest", "04-product.yaml", 4, 7, 1)
	t.Log("\n" + strings.Join(table, "\n"))
}

// TestTurns has two queues wait for the same room: when it comes, each gets its share at once, though all work of one
// of them is older.
func TestTurns(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	c.pod("outside-0", 8, "", nil)
	c.Runs("outside", 1)
	c.queue("early")
	c.queue("late")
	c.pods("early", "early", 30, 1, "")
	c.pods("late", "late", 30, 1, "")
	c.shows("late", "0", "30", "0")
	c.rested("early", "late")
	if err := c.Kube.CoreV1().Pods("default").Delete(t.Context(), "outside-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Runs("early", 4)
	c.Runs("late", 4)
	if n := len(c.Pods(t.Context(), "early")); n != 30 {
		t.Errorf("%d pods of early are left: some had to go again, so it was not their turn", n)
	}
}
