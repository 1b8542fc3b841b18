package tenants

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// team is a queue whose quota is used by a running gang. Another queue has waiting work with a
// higher priority. This work could preempt the gang if the gang were in no queue.
type team struct {
	*env
	name string
	spec v1alpha1.QueueSpec
}

func newTeam(t *testing.T) *team {
	t.Helper()
	e := &team{env: newEnv(t), spec: v1alpha1.QueueSpec{Quota: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}}}
	e.AddNodes(4, "a")
	e.name = e.queue("team", e.spec)
	others := e.queue("others", v1alpha1.QueueSpec{})
	pg, ok := e.NewGroup(stage.Group{Name: "training", MinCount: 1, Priority: "low"}).(*v1alpha1.PodGroup)
	if !ok {
		t.Fatal("the group is of another API")
	}
	pg.Spec.QueueName = ptr.To(e.name)
	e.Create(pg)
	e.running("training", "low", "a", 1, func(pod *corev1.Pod) { e.Groups.Join(pod, "training") })
	e.urgent(false, func(pod *corev1.Pod) { pod.Labels[v1alpha1.LabelQueue] = others })
	e.WaitsSaying("urgent", "PreemptorOverFairShare")
	return e
}

// keeps checks for some time that the gang runs.
func (e *team) keeps(period time.Duration) {
	e.Helper()
	e.NeverFor(period, 250*time.Millisecond, "the gang is evicted", func(ctx context.Context) string {
		if got := e.Terminating(ctx); len(got) > 0 || e.Find(ctx, "training") == nil {
			return fmt.Sprintf("%v terminate", got)
		}
		return ""
	})
}

// losesItsQueue waits until the gang is evicted, or its condition reports that it is in no queue.
// If the gang is evicted first, its condition is not updated.
func (e *team) losesItsQueue() {
	e.Helper()
	e.Eventually("the gang is evicted, or counts for no queue", func(ctx context.Context) string {
		c := meta.FindStatusCondition(stage.ConditionsOf(e.PodGroup(ctx, "training")), v1alpha1.ConditionQueueOrphaned)
		if pod := e.Find(ctx, "training"); pod == nil || pod.DeletionTimestamp != nil || c != nil && stage.Mentions(c.Message, []string{"count for no queue"}) {
			return ""
		}
		return fmt.Sprintf("the condition is %+v", c)
	})
}

// TestQueueDeletedByMistake deletes a queue with running work. The work must be protected for the
// documented time, and its PodGroup must report the protection.
func TestQueueDeletedByMistake(t *testing.T) {
	t.Parallel()
	e := newTeam(t)
	began := time.Now()
	e.deleteQueue(e.name, false)
	e.WaitCondition("training", v1alpha1.ConditionQueueOrphaned, metav1.ConditionTrue, v1alpha1.ReasonQueueNotFound,
		"was deleted", "keep their place and their protections until")
	// A slow machine may show the condition late. The protection must last at least until this time.
	if left := deletedTimeout - time.Second - time.Since(began); left > 0 {
		e.keeps(left)
	}
	e.losesItsQueue()
}

// TestQueueReturns deletes a queue with running work, and creates it again in time. The work must
// continue to run.
func TestQueueReturns(t *testing.T) {
	t.Parallel()
	e := newTeam(t)
	e.deleteQueue(e.name, false)
	e.WaitCondition("training", v1alpha1.ConditionQueueOrphaned, metav1.ConditionTrue, v1alpha1.ReasonQueueNotFound)
	e.Create(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: e.name}, Spec: e.spec})
	e.Eventually("the gang is in its queue", func(ctx context.Context) string {
		if c := meta.FindStatusCondition(stage.ConditionsOf(e.PodGroup(ctx, "training")), v1alpha1.ConditionQueueOrphaned); c != nil {
			return c.Message
		}
		return ""
	})
	e.keeps(deletedTimeout + 5*time.Second)
}

// TestQueueDeletedOnPurpose checks that a confirmed deletion of a queue ends the protection of its
// work at once.
func TestQueueDeletedOnPurpose(t *testing.T) {
	t.Parallel()
	e := newTeam(t)
	began := time.Now()
	e.deleteQueue(e.name, true)
	e.losesItsQueue()
	if took := time.Since(began); took >= deletedTimeout {
		e.Errorf("The gang has lost its queue after %v", took)
	}
}
