package queues

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// crowd creates many gangs in a queue. Each gang has two pods with one GPU each.
func (c *cluster) crowd(prefix, queue string, count int) {
	c.Helper()
	g, ctx := errgroup.WithContext(c.Context())
	g.SetLimit(8)
	for i := range count {
		g.Go(func() error { return c.pair(ctx, fmt.Sprintf("%s-%d", prefix, i), queue) })
	}
	if err := g.Wait(); err != nil {
		c.Fatal(err)
	}
}

// pair creates a gang of two pods with one GPU each.
func (c *cluster) pair(ctx context.Context, name, queue string) error {
	pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	pg.Spec.QueueName = &queue
	pg.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: 2}}
	pg.Spec.DisruptionMode = ptr.To(v1alpha1.DisruptionModePodGroup)
	if err := c.client.Create(ctx, pg); err != nil {
		return err
	}
	one := corev1.ResourceList{gpu: resource.MustParse("1")}
	for i := range 2 {
		if _, err := c.Kube.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, i), Labels: map[string]string{v1alpha1.LabelPodGroup: name}},
			Spec: corev1.PodSpec{
				SchedulerName: "reprieve-scheduler", TerminationGracePeriodSeconds: ptr.To(int64(1)),
				Containers: []corev1.Container{{
					Name: "main", Image: "example.com/work", Resources: corev1.ResourceRequirements{Requests: one, Limits: one},
				}},
			},
		}, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// TestCrowd creates a gang in a queue without other work, while 300 gangs of another queue wait.
// The gang must be placed next: both if there is room, and if it must reclaim the room.
func TestCrowd(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	const gangs, prompt = 300, 30 * time.Second
	c.pod("outside-0", 4, "", nil)
	c.pod("outside-1", 4, "", nil)
	c.Runs("outside", 2)
	c.queue("crowd")
	c.crowd("crowd", "crowd", gangs)
	c.queue("late")
	c.crowd("late", "late", 1)
	c.groupSays("late-0", v1alpha1.ReasonUnschedulable)
	c.rested("late")
	c.delete("outside-0")
	c.within(prompt, func() { c.Runs("late", 2) })
	c.Runs("crowd", 2)
	if n := len(c.Pods(t.Context(), "crowd")); n != 2*gangs {
		t.Errorf("%d pods of the crowd are left of %d: some had to go again, so it was not their turn", n, 2*gangs)
	}
	c.delete("outside-1")
	c.Runs("crowd", 6)
	c.queue("new")
	c.crowd("new", "new", 1)
	c.within(prompt, func() { c.Runs("new", 2) })
	c.Runs("crowd", 4)
}
