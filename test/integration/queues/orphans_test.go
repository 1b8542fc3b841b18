package queues

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
)

// orphaned waits until the condition QueueOrphaned of a PodGroup has the reason and its message
// contains the words. If the reason is empty, it waits until the PodGroup lacks the condition.
func (c *cluster) orphaned(name, wantReason string, words ...string) {
	c.Helper()
	c.Eventually("PodGroup "+name+" says whether its queue is there", func(ctx context.Context) string {
		cond := apimeta.FindStatusCondition(c.group(ctx, name).Status.Conditions, v1alpha1.ConditionQueueOrphaned)
		switch {
		case cond == nil && wantReason == "":
			return ""
		case cond == nil || cond.Reason != wantReason:
			return fmt.Sprintf("condition %+v, want %q", cond, wantReason)
		}
		for _, word := range words {
			if !strings.Contains(cond.Message, word) {
				return fmt.Sprintf("message %q, want it to say %q", cond.Message, word)
			}
		}
		return ""
	})
}

// orphanedPods waits until the scheduler's metric about orphaned pods has the value.
func (c *cluster) orphanedPods(want int) {
	c.Helper()
	config := c.Run.RESTConfig()
	config.Host = c.Run.Component(playground.Scheduler).URL()
	direct, err := kubernetes.NewForConfig(config)
	if err != nil {
		c.Fatal(err)
	}
	c.Eventually("the metric of orphaned pods", func(ctx context.Context) string {
		raw, err := direct.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		if err != nil {
			return err.Error()
		}
		for line := range strings.Lines(string(raw)) {
			if value, ok := strings.CutPrefix(line, "reprieve_queue_orphaned_pods "); ok {
				if got := strings.TrimSpace(value); got != fmt.Sprint(want) {
					return fmt.Sprintf("%s, want %d", got, want)
				}
				return ""
			}
		}
		return "there is none"
	})
}

// TestQueueThatGoes deletes a queue with running work. The work must continue to run as work
// without a queue. It must be reported as orphaned until the queue exists again.
func TestQueueThatGoes(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	// running starts a single pod and a gang of two pods in the queue "gone". They request four
	// GPUs in total. The subtests delete this queue.
	running := func(c *cluster) {
		c.queue("gone")
		c.queue("here")
		c.pods("orphan", "gone", 1, 2, "")
		c.gang("team", "gone", 2, 2, 1)
		c.Runs("orphan", 1)
		c.Runs("team", 2)
		c.orphaned("team", "")
		c.orphanedPods(0)
	}
	c.scene("its work runs on, and is in no queue", func(c *cluster) {
		running(c)
		c.deleteQueue("gone")
		c.orphaned("team", v1alpha1.ReasonQueueNotFound, `Queue "gone" does not exist`)
		c.orphanedPods(3)
		c.pods("heir", "here", 4, 2, "")
		c.Runs("heir", 2)
		// The GPUs that orphaned pods use are not available for fair shares.
		c.shows("here", "4", "8", "4")
		c.Runs("orphan", 1)
		c.Runs("team", 2)
	})
	c.scene("its work is its own again when it is back", func(c *cluster) {
		running(c)
		c.deleteQueue("gone")
		c.orphanedPods(3)
		c.queue("gone")
		c.orphaned("team", "")
		c.orphanedPods(0)
		c.shows("gone", "4", "4", "4")
	})
	c.scene("one that gets others below it", func(c *cluster) {
		running(c)
		c.queue("below", "parent: gone")
		c.orphaned("team", v1alpha1.ReasonQueueNotLeaf, `"below"`)
		c.queueCondition("gone", v1alpha1.ConditionOrphans, "True")
		c.deleteQueue("below")
		c.orphaned("team", "")
	})
	c.scene("the last queue of all, over a restart", func(c *cluster) {
		running(c)
		c.deleteQueue("here")
		c.deleteQueue("gone")
		c.orphaned("team", v1alpha1.ReasonQueueNotFound)
		c.restart()
		c.pods("outside", "", 1, 0, "")
		c.Runs("outside", 1)
		c.orphaned("team", v1alpha1.ReasonQueueNotFound)
		c.Runs("team", 2)
	})
}
