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

// cluster is the environment of one test, with a client for Queues and PodGroups.
type cluster struct {
	*stage.Stage
	client client.Client
}

// pool has playgrounds with one node of 8 GPUs. Tests use them one after the other.
var pool = stage.Pool{
	Options: func() playground.Options { return nodesOf(1) },
	Clear:   func(s *stage.Stage) { (&cluster{Stage: s, client: s.Objects}).clear() },
}

// oneNode returns a cluster of the pool. It is cleared after the test.
func oneNode(t *testing.T) *cluster {
	t.Helper()
	return clusterOn(t, pool.Take(t))
}

// newCluster starts a playground for one test. Each node has 8 GPUs. If profiles are given, the
// scheduler has these profiles.
func newCluster(t *testing.T, nodes int, profiles ...string) *cluster {
	t.Helper()
	options := nodesOf(nodes)
	if len(profiles) > 0 {
		var err error
		if options.Scheduler.Config, err = (stage.Config{Profiles: profiles}).Write(t.TempDir()); err != nil {
			t.Fatal(err)
		}
	}
	return clusterOn(t, stage.New(t, options))
}

// nodesOf returns the options of a playground with a number of nodes.
func nodesOf(count int) playground.Options {
	return playground.Options{
		NodeGroups: []playground.NodeGroup{{Count: count, Resources: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("64"),
			corev1.ResourceMemory: resource.MustParse("512Gi"),
			gpu:                   resource.MustParse("8"),
		}}},
	}
}

// clusterOn returns a cluster that uses a stage.
func clusterOn(t *testing.T, s *stage.Stage) *cluster {
	t.Helper()
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

// dump prints the objects of the cluster if the test has failed.
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

// queue creates or updates a Queue. Each element of spec is a line of YAML.
func (c *cluster) queue(name string, spec ...string) {
	c.Helper()
	body := " {}"
	if len(spec) > 0 {
		body = "\n  " + strings.Join(spec, "\n  ")
	}
	c.ApplyText(fmt.Sprintf("apiVersion: reprieve.dev/v1alpha1\nkind: Queue\nmetadata:\n  name: %s\nspec:%s\n", name, body))
}

// known waits until the scheduler has cached the Queues. Without this wait, a new pod could reach
// the scheduler before an older Queue.
func (c *cluster) known(names ...string) {
	c.Helper()
	for _, name := range names {
		c.Eventually("queue "+name+" is known", func(ctx context.Context) string {
			q := c.getQueue(ctx, name)
			if q == nil {
				return "it is not there"
			}
			ready := apimeta.FindStatusCondition(q.Status.Conditions, v1alpha1.ConditionQueueReady)
			if ready == nil || ready.ObservedGeneration != q.Generation {
				return fmt.Sprintf("it is of generation %d, and says %+v", q.Generation, ready)
			}
			return ""
		})
	}
}

// pods creates count single pods in a queue. Their names are the prefix and a number.
func (c *cluster) pods(prefix, queue string, count, gpus int, priorityClass string) {
	c.Helper()
	for i := range count {
		c.pod(fmt.Sprintf("%s-%d", prefix, i), gpus, priorityClass, map[string]string{v1alpha1.LabelQueue: queue})
	}
}

func (c *cluster) pod(name string, gpus int, priorityClass string, labels map[string]string, change ...func(*corev1.Pod)) {
	c.Helper()
	q := corev1.ResourceList{gpu: *resource.NewQuantity(int64(gpus), resource.DecimalSI)}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.PodSpec{
			SchedulerName: "reprieve-scheduler", PriorityClassName: priorityClass, TerminationGracePeriodSeconds: ptr.To(int64(1)),
			Containers: []corev1.Container{{
				Name: "main", Image: "example.com/work", Resources: corev1.ResourceRequirements{Requests: q, Limits: q},
			}},
		},
	}
	for _, f := range change {
		f(pod)
	}
	if _, err := c.Kube.CoreV1().Pods("default").Create(c.Context(), pod, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
}

// delete deletes pods and waits until they are gone.
func (c *cluster) delete(names ...string) {
	c.Helper()
	for _, name := range names {
		if err := c.Kube.CoreV1().Pods("default").Delete(c.Context(), name, metav1.DeleteOptions{}); err != nil {
			c.Fatal(err)
		}
	}
	for _, name := range names {
		c.Gone(name)
	}
}

// deleteQueue deletes a Queue. It first sets the annotation that confirms the deletion.
func (c *cluster) deleteQueue(name string) {
	c.Helper()
	q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}}
	confirm := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+v1alpha1.AnnotationConfirmDeletion+`":"true"}}}`))
	if err := c.client.Patch(c.Context(), q, confirm); err != nil {
		c.Fatal(err)
	}
	if err := c.client.Delete(c.Context(), q); err != nil {
		c.Fatal(err)
	}
}

// group returns a PodGroup.
func (c *cluster) group(ctx context.Context, name string) *v1alpha1.PodGroup {
	var pg v1alpha1.PodGroup
	if err := c.client.Get(ctx, types.NamespacedName{Namespace: "default", Name: name}, &pg); err != nil {
		c.Fatal(err)
	}
	return &pg
}

// protected waits until the status of a PodGroup reports a protection that ends "want" after the
// start time of the PodGroup. If want is 0, it waits until the PodGroup has no protection.
func (c *cluster) protected(name string, want time.Duration) {
	c.Helper()
	c.Eventually("PodGroup "+name+" says until when it is protected", func(ctx context.Context) string {
		st := c.group(ctx, name).Status
		switch {
		case st.StartTime == nil:
			return "it does not run"
		case want == 0 && st.ProtectedUntil == nil:
			return ""
		case want == 0 || st.ProtectedUntil == nil || !st.ProtectedUntil.Equal(ptr.To(metav1.NewTime(st.StartTime.Add(want)))):
			return fmt.Sprintf("until %v, want %v from %v", st.ProtectedUntil, want, st.StartTime)
		}
		return ""
	})
}

// gang creates a PodGroup in a queue, and its members.
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

// classes creates the PriorityClasses of the tests.
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

// shows waits until the status of a Queue has these numbers of GPUs.
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

// groupSays waits until the condition of a PodGroup reports that it waits for a reason. The message
// must contain the words.
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

// pending waits until a pod whose name has the prefix has no node, and returns its name.
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

func scheduledAt(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// rested waits until no pod with one of the name prefixes backs off. The back-off of a failed pod
// is at most 10 seconds.
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
