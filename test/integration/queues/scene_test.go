package queues

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// scene runs a subtest on the cluster, which is empty at its start. It clears the cluster
// afterwards.
func (c *cluster) scene(name string, play func(c *cluster)) {
	c.Helper()
	c.T.Run(name, func(t *testing.T) {
		out := &cluster{Stage: c.For(t), client: c.client}
		t.Cleanup(out.clear)
		t.Cleanup(out.dump)
		play(out)
	})
}

// clear deletes all workloads and Queues, and waits until they are gone.
func (c *cluster) clear() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), time.Minute)
	defer cancel()
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	if err := c.Kube.AppsV1().ReplicaSets("default").DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		c.Error(err)
	}
	if err := c.Kube.CoreV1().Pods("default").DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		c.Error(err)
	}
	for _, obj := range []client.Object{&v1alpha1.PodGroup{}, &v1alpha1.Queue{}} {
		if err := c.client.DeleteAllOf(ctx, obj, client.InNamespace(inNamespace(obj))); err != nil {
			c.Error(err)
		}
	}
	if err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		return len(c.AllPods(ctx)) == 0, nil
	}); err != nil {
		c.Errorf("clear the cluster: %v", err)
	}
}

// inNamespace returns the namespace of an object, or "" for a Queue, which is cluster-scoped.
func inNamespace(obj client.Object) string {
	if _, ok := obj.(*v1alpha1.Queue); ok {
		return ""
	}
	return "default"
}

// team describes a gang in a queue.
type team struct {
	name, queue, class      string
	members, minCount, gpus int
	// whole is true if the gang is evicted as a whole.
	whole  bool
	change []func(*corev1.Pod)
}

// team creates a gang. It waits until the gang runs and its PodGroup has a start time.
func (c *cluster) team(t team) {
	c.Helper()
	pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: t.name}}
	pg.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: int32(t.minCount)}}
	if t.queue != "" {
		pg.Spec.QueueName = &t.queue
	}
	if t.class != "" {
		pg.Spec.PriorityClassName = &t.class
	}
	if t.whole {
		pg.Spec.DisruptionMode = ptr.To(v1alpha1.DisruptionModePodGroup)
	}
	if err := c.client.Create(c.Context(), pg); err != nil {
		c.Fatal(err)
	}
	for i := range t.members {
		c.member(t, i)
	}
	c.Runs(t.name+"-", t.members)
	c.started(t.name)
}

// member creates the member with number i of a gang.
func (c *cluster) member(t team, i int) {
	c.Helper()
	c.pod(fmt.Sprintf("%s-%d", t.name, i), t.gpus, t.class, map[string]string{v1alpha1.LabelPodGroup: t.name}, t.change...)
}

// started waits until a PodGroup has a start time, and returns it.
func (c *cluster) started(name string) time.Time {
	c.Helper()
	var at time.Time
	c.Eventually("PodGroup "+name+" has a start", func(ctx context.Context) string {
		start := c.group(ctx, name).Status.StartTime
		if start == nil {
			return "it has none"
		}
		at = start.Time
		return ""
	})
	return at
}

// linger sets a long grace period, so that the test can observe a terminating pod.
func linger(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600) }

// evicted returns the sorted names of the pods whose preemption an event has reported since the
// given time.
func (c *cluster) evicted(ctx context.Context, since time.Time) []string {
	c.Helper()
	var out []string
	for _, ev := range c.EventsOf(ctx, "", "Preempted") {
		// Skip the events of earlier subtests.
		if ev.InvolvedObject.Kind == "Pod" && !ev.EventTime.Time.Before(since) {
			out = append(out, ev.InvolvedObject.Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// nobodyGoes checks for some time that only the named pods have been evicted.
func (c *cluster) nobodyGoes(since time.Time, but ...string) {
	c.Helper()
	c.Never("nobody else is evicted", func(ctx context.Context) string {
		if got := c.evicted(ctx, since); !slices.Equal(got, but) {
			return fmt.Sprintf("%v are, want %v", got, but)
		}
		return ""
	})
}
