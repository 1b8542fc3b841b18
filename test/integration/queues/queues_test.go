package queues

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestReclaim tests two queues. One has borrowed the fair share of the other. The other queue must
// reclaim exactly its fair share, regardless of priorities.
func TestReclaim(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	c.classes()
	reclaimed := func(c *cluster) {
		c.queue("lender")
		c.queue("borrower")
		c.pods("borrowed", "borrower", 4, 2, "high")
		c.Runs("borrowed", 4)
		c.shows("borrower", "8", "8", "8")
		c.pods("claim", "lender", 4, 2, "low")
		c.Runs("claim", 2)
		c.Runs("borrowed", 2)
	}
	c.scene("its share and no more", func(c *cluster) {
		reclaimed(c)
		c.shows("lender", "4", "8", "4")
		c.shows("borrower", "4", "4", "4")
		for _, pod := range c.Pods(c.Context(), "claim") {
			if pod.Spec.NodeName == "" {
				c.WaitsSaying(pod.Name, "PreemptorOverFairShare")
			}
		}
	})
	c.scene("inside the queue priority still counts", func(c *cluster) {
		reclaimed(c)
		c.pods("urgent", "lender", 1, 2, "high")
		c.Runs("urgent", 1)
		c.Runs("claim", 1)
		c.Runs("borrowed", 2)
	})
}

// TestReclaimedRoomIsKept creates the victims of a reclaim again, with a higher priority than the
// reclaimer. The room must stay reserved for the reclaimer, so that no pod is evicted a second
// time.
func TestReclaimedRoomIsKept(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	began := time.Now()
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
		if e := &events.Items[i]; e.Reason == "Preempted" && e.Regarding.Kind == "Pod" && !e.EventTime.Time.Before(began) {
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

// TestLimit tests work that would exceed the limit of its queue. The work must wait, even if the
// cluster has room. A gang must wait as a whole.
func TestLimit(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	// full creates three pods in queue a, and two of them run. They use the whole limit of a, and 4
	// of the 6 GPUs in the limit of top.
	full := func(c *cluster) (waiting string) {
		c.queue("top", "limit: {nvidia.com/gpu: 6}")
		c.queue("a", "parent: top", "limit: {nvidia.com/gpu: 4}")
		c.queue("b", "parent: top")
		c.known("top", "a", "b")
		c.pods("a", "a", 3, 2, "")
		c.Runs("a-", 2)
		return c.pending("a-")
	}
	blocked := func(c *cluster) {
		c.gang("team", "b", 2, 2, 2)
		c.groupSays("team", v1alpha1.ReasonQueueLimit, `Queue "top" has a limit of 6 nvidia.com/gpu`)
		if n := c.placed("team"); n != 0 {
			c.Errorf("%d members of a gang beyond the limit have a node", n)
		}
	}
	c.scene("a pod at the limit of its own queue", func(c *cluster) {
		c.WaitsSaying(full(c), `Queue "a" has a limit of 4 nvidia.com/gpu: 4 are in use and 2 more are needed`)
	})
	c.scene("until other work of the queue ends", func(c *cluster) {
		waiting := full(c)
		for _, pod := range c.Pods(c.Context(), "a-") {
			if pod.Spec.NodeName != "" {
				c.remove(pod.Name)
				break
			}
		}
		c.Runs(waiting, 1)
		c.shows("top", "4", "4", "4")
	})
	c.scene("a gang as a whole, at the limit of a queue above its own", func(c *cluster) {
		full(c)
		blocked(c)
	})
	c.scene("until the limit is raised", func(c *cluster) {
		full(c)
		blocked(c)
		c.queue("top", "limit: {nvidia.com/gpu: 8}")
		c.Runs("team", 2)
		c.shows("top", "8", "10", "8")
	})
	c.scene("surplus, whose gang goes on", func(c *cluster) {
		c.queue("top", "limit: {nvidia.com/gpu: 4}")
		c.queue("b", "parent: top")
		c.gang("team", "b", 2, 2, 2)
		c.Runs("team", 2)
		c.pod("team-9", 2, "", map[string]string{v1alpha1.LabelPodGroup: "team"})
		c.WaitsSaying("team-9", `Queue "top" has a limit of 4 nvidia.com/gpu`)
		c.Runs("team", 2)
	})
}

// TestNames tests work that names a missing queue, or a queue with child queues. Such work must
// wait and report the cause until it names an existing leaf queue.
func TestNames(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	// The scheduler ignores the names of queues if no Queue exists. So create another Queue.
	c.scene("a queue that does not exist", func(c *cluster) {
		c.queue("other")
		c.known("other")
		c.pods("unknown", "later", 1, 1, "")
		c.gang("group", "later", 2, 2, 1)
		c.WaitsSaying("unknown-0", `Queue "later" does not exist`)
		c.groupSays("group", v1alpha1.ReasonQueueNotFound, `Queue "later" does not exist`)
		c.queue("later")
		c.Runs("unknown", 1)
		c.Runs("group", 2)
	})
	c.scene("a queue that has others below it", func(c *cluster) {
		c.queue("parent")
		c.queue("child", "parent: parent")
		c.known("child")
		c.pods("inner", "parent", 1, 1, "")
		c.WaitsSaying("inner-0", `Queue "parent" has other queues below it`, `such as "child"`)
		c.deleteQueue("child")
		c.Runs("inner", 1)
	})
	c.scene("a queue whose parent does not exist", func(c *cluster) {
		c.queue("lost", "parent: nowhere")
		c.known("lost")
		c.pods("adrift", "lost", 1, 1, "")
		c.WaitsSaying("adrift-0", `Queue "lost" cannot be used`, `"nowhere"`)
		c.queueCondition("lost", v1alpha1.ConditionQueueReady, metav1.ConditionFalse, `"nowhere"`)
		c.queue("nowhere")
		c.Runs("adrift", 1)
		c.queueCondition("lost", v1alpha1.ConditionQueueReady, metav1.ConditionTrue)
	})
	c.scene("beside queues that cannot be used, the others go on", func(c *cluster) {
		c.queue("parent")
		c.queue("child", "parent: parent")
		c.queue("lost", "parent: nowhere")
		c.queue("chicken", "parent: egg")
		c.queue("egg", "parent: chicken")
		c.queueCondition("chicken", v1alpha1.ConditionQueueReady, metav1.ConditionFalse, "comes back")
		c.queueCondition("child", v1alpha1.ConditionQueueReady, metav1.ConditionTrue)
		c.pods("sound", "child", 1, 1, "")
		c.Runs("sound", 1)
	})
	c.scene("a quota above that of the parent", func(c *cluster) {
		c.queue("parent")
		c.queue("child", "parent: parent", "quota: {nvidia.com/gpu: 3}")
		c.queueCondition("child", v1alpha1.ConditionQuotaServed, metav1.ConditionFalse, "nvidia.com/gpu", `"parent"`)
	})
}

// TestReclaimMinRuntime checks that reclaim waits exactly until the min-runtime of the victim ends.
// The status of the victim's PodGroup must show the end, and change with the setting of the queue.
func TestReclaimMinRuntime(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	const guaranteed = 40 * time.Second
	c.queue("lender")
	c.queue("borrower", "reclaimMinRuntime: 1h", "preemptMinRuntime: 10s")
	c.gang("borrowed", "borrower", 1, 1, 8)
	c.Runs("borrowed", 1)
	c.protected("borrowed", time.Hour)
	began := c.group(t.Context(), "borrowed").Status.StartTime.Time
	c.pods("claim", "lender", 1, 4, "")
	c.WaitsSaying("claim-0", "waits until", "default/borrowed-0 (ReclaimMinRuntime of queue borrower)")
	c.queue("borrower", "reclaimMinRuntime: 40s", "preemptMinRuntime: 10s")
	c.protected("borrowed", guaranteed)
	c.Runs("claim", 1)
	c.Gone("borrowed-0")
	ran := scheduledAt(c.Pod("claim-0")).Sub(began)
	if ran < guaranteed-time.Second || ran > guaranteed+soon {
		t.Errorf("the borrower had %v, want %v", ran, guaranteed)
	}
}

// TestTurns tests two queues that wait for the same room. All work of one queue is older than the
// work of the other queue. When the room becomes free, each queue must get its fair share at once.
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
