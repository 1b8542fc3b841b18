package queues

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

const gpu corev1.ResourceName = "nvidia.com/gpu"

// cluster is a stage with a client for queues and groups.
type cluster struct {
	*stage.Stage
	client client.Client
}

// oneNode is a playground with 8 GPUs in one place.
func oneNode(t *testing.T) *cluster {
	t.Helper()
	return newCluster(t, 1)
}

// newCluster is a playground of nodes with 8 GPUs each.
func newCluster(t *testing.T, nodes int) *cluster {
	t.Helper()
	s := stage.New(t, playground.Options{
		NodeGroups: []playground.NodeGroup{{Count: nodes, Resources: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("64"),
			corev1.ResourceMemory: resource.MustParse("512Gi"),
			gpu:                   resource.MustParse("8"),
		}}},
	})
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	config := s.Run.RESTConfig()
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	out := &cluster{Stage: s, client: c}
	t.Cleanup(out.dump)
	return out
}

// dump shows what there is when a test has failed.
func (c *cluster) dump() {
	if !c.Failed() {
		return
	}
	ctx := context.WithoutCancel(c.Context())
	var queues v1alpha1.QueueList
	if err := c.client.List(ctx, &queues); err != nil {
		c.Log(err)
	}
	for i := range queues.Items {
		st := &queues.Items[i].Status
		c.Logf("queue %s: allocated %v, requested %v, fair share %v", queues.Items[i].Name, st.Allocated, st.Requested, st.FairShare)
	}
	var groups v1alpha1.PodGroupList
	if err := c.client.List(ctx, &groups); err != nil {
		c.Log(err)
	}
	for i := range groups.Items {
		c.Logf("PodGroup %s: %+v", groups.Items[i].Name, groups.Items[i].Status)
	}
	for _, pod := range c.Pods(ctx, "") {
		why := ""
		for _, cond := range pod.Status.Conditions {
			if cond.Type == corev1.PodScheduled {
				why = cond.Message
			}
		}
		c.Logf("pod %s on %q, %s: %s", pod.Name, pod.Spec.NodeName, pod.Status.Phase, why)
	}
}

// queue applies a Queue with lines of its spec.
func (c *cluster) queue(name string, spec ...string) {
	c.Helper()
	body := " {}"
	if len(spec) > 0 {
		body = "\n  " + strings.Join(spec, "\n  ")
	}
	c.ApplyText(fmt.Sprintf("apiVersion: reprieve.dev/v1alpha1\nkind: Queue\nmetadata:\n  name: %s\nspec:%s\n", name, body))
}

// pods creates single pods of a queue, from prefix-0 on.
func (c *cluster) pods(prefix, queue string, count, gpus int, priorityClass string) {
	c.Helper()
	for i := range count {
		c.pod(fmt.Sprintf("%s-%d", prefix, i), gpus, priorityClass, map[string]string{v1alpha1.LabelQueue: queue})
	}
}

func (c *cluster) pod(name string, gpus int, priorityClass string, labels map[string]string) {
	c.Helper()
	q := corev1.ResourceList{gpu: *resource.NewQuantity(int64(gpus), resource.DecimalSI)}
	_, err := c.Kube.CoreV1().Pods("default").Create(c.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.PodSpec{
			SchedulerName: "reprieve-scheduler", PriorityClassName: priorityClass, TerminationGracePeriodSeconds: ptr.To(int64(1)),
			Containers: []corev1.Container{{
				Name: "main", Image: "example.com/work", Resources: corev1.ResourceRequirements{Requests: q, Limits: q},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
}

// gang creates a PodGroup of a queue with its members.
func (c *cluster) gang(name, queue string, members, minCount, gpus int) {
	c.Helper()
	c.ApplyText(fmt.Sprintf(`apiVersion: reprieve.dev/v1alpha1
kind: PodGroup
metadata:
  name: %s
  namespace: default
spec:
  queueName: %s
  schedulingPolicy:
    gang:
      minCount: %d
`, name, queue, minCount))
	for i := range members {
		c.pod(fmt.Sprintf("%s-%d", name, i), gpus, "", map[string]string{v1alpha1.LabelPodGroup: name})
	}
}

// classes applies two PriorityClasses.
func (c *cluster) classes() {
	c.Helper()
	c.ApplyText(`apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low}
value: 10
`)
}

func (c *cluster) getQueue(ctx context.Context, name string) *v1alpha1.Queue {
	var q v1alpha1.Queue
	if err := c.client.Get(ctx, types.NamespacedName{Name: name}, &q); err != nil {
		c.Log(err)
		return nil
	}
	return &q
}

// shows waits until a queue's status has these GPUs, within 2 seconds of the first look.
func (c *cluster) shows(name, allocated, requested, fairShare string) {
	c.Helper()
	c.Eventually("the status of "+name, func(ctx context.Context) string {
		q := c.getQueue(ctx, name)
		if q == nil {
			return "it is not there"
		}
		got := func(list corev1.ResourceList) string {
			v := list[gpu]
			return v.String()
		}
		have := []string{got(q.Status.Allocated), got(q.Status.Requested), got(q.Status.FairShare)}
		if want := []string{allocated, requested, fairShare}; strings.Join(have, " ") != strings.Join(want, " ") {
			return fmt.Sprintf("allocated, requested and fair share are %v, want %v", have, want)
		}
		return ""
	})
}

func (c *cluster) queueCondition(name, kind string, want metav1.ConditionStatus, words ...string) {
	c.Helper()
	c.Eventually("the condition "+kind+" of "+name, func(ctx context.Context) string {
		q := c.getQueue(ctx, name)
		if q == nil {
			return "the queue is not there"
		}
		cond := apimeta.FindStatusCondition(q.Status.Conditions, kind)
		if cond == nil || cond.Status != want {
			return fmt.Sprintf("%+v, want %s", cond, want)
		}
		for _, word := range words {
			if !strings.Contains(cond.Message, word) {
				return fmt.Sprintf("message %q, want it to say %q", cond.Message, word)
			}
		}
		return ""
	})
}

// groupSays waits until the PodGroup is not scheduled for a reason.
func (c *cluster) groupSays(name, reason string, words ...string) {
	c.Helper()
	c.Eventually("PodGroup "+name+" says why", func(ctx context.Context) string {
		var pg v1alpha1.PodGroup
		if err := c.client.Get(ctx, types.NamespacedName{Namespace: "default", Name: name}, &pg); err != nil {
			return err.Error()
		}
		cond := apimeta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionPodGroupScheduled)
		if cond == nil || cond.Status != metav1.ConditionFalse || cond.Reason != reason {
			return fmt.Sprintf("%+v, want reason %s", cond, reason)
		}
		for _, word := range words {
			if !strings.Contains(cond.Message, word) {
				return fmt.Sprintf("message %q, want it to say %q", cond.Message, word)
			}
		}
		return ""
	})
}

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

// pending is a pod without a node.
func (c *cluster) pending(prefix string) string {
	c.Helper()
	name := ""
	c.Eventually("a pod waits", func(ctx context.Context) string {
		for _, pod := range c.Pods(ctx, prefix) {
			if pod.Spec.NodeName == "" {
				name = pod.Name
				return ""
			}
		}
		return "all have a node"
	})
	return name
}

func (c *cluster) placed(prefix string) int {
	n := 0
	for _, pod := range c.Pods(c.Context(), prefix) {
		if pod.Spec.NodeName != "" {
			n++
		}
	}
	return n
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

// TestReclaimMinRuntime has reclaim wait for the end of what a queue guarantees, and no longer.
func TestReclaimMinRuntime(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	const guaranteed = 20 * time.Second
	c.queue("lender")
	c.queue("borrower", "reclaimMinRuntime: 20s")
	c.pods("borrowed", "borrower", 1, 8, "")
	c.Runs("borrowed", 1)
	began := scheduledAt(c.Pod("borrowed-0"))
	c.pods("claim", "lender", 1, 4, "")
	c.WaitsSaying("claim-0", "waits until", "default/borrowed-0 (ReclaimMinRuntime of queue borrower)")
	c.Runs("claim", 1)
	c.Gone("borrowed-0")
	ran := scheduledAt(c.Pod("claim-0")).Sub(began)
	if ran < guaranteed-time.Second || ran > guaranteed+5*time.Second {
		t.Errorf("the borrower had %v, want %v", ran, guaranteed)
	}
}

func scheduledAt(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// TestQueueThatGoes has its work run on, out of all queues.
func TestQueueThatGoes(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	c.queue("gone")
	c.queue("here")
	c.pods("orphan", "gone", 2, 2, "")
	c.Runs("orphan", 2)
	if err := c.client.Delete(t.Context(), &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "gone"}}); err != nil {
		t.Fatal(err)
	}
	c.pods("heir", "here", 4, 2, "")
	c.Runs("heir", 2)
	// What the orphans have is no longer anybody's to share.
	c.shows("here", "4", "8", "4")
	c.Runs("orphan", 2)
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

// rested waits until nobody backs off any more: pods that have failed may only be tried again after up to 10 seconds.
func (c *cluster) rested(prefixes ...string) {
	c.Helper()
	c.Eventually("nobody backs off", func(ctx context.Context) string {
		for _, prefix := range prefixes {
			for _, pod := range c.Pods(ctx, prefix) {
				if ago := time.Since(scheduledAt(&pod)); ago < 11*time.Second {
					return fmt.Sprintf("%s failed %v ago", pod.Name, ago)
				}
			}
		}
		return ""
	})
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
