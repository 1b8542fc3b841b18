package queues

import (
	"context"
	"fmt"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestConfiguredRateHolds checks that the scheduler's writes of Queue statuses obey a configured
// rate of API calls.
func TestConfiguredRateHolds(t *testing.T) {
	const count, qps, burst = 60, 10, 10
	options := nodesOf(1)
	options.Scheduler.Path = playground.NoScheduler
	c := clusterOn(t, stage.New(t, options))
	for i := range count {
		c.queue(fmt.Sprintf("q-%02d", i))
	}
	config, err := (stage.Config{More: fmt.Sprintf("clientConnection: {qps: %d, burst: %d}\n", qps, burst)}).Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := c.Run.StartScheduler(t.Context(), playground.Scheduler, playground.SchedulerOptions{
		Config: config, Args: stage.SchedulerArgs(),
	}); err != nil {
		t.Fatal(err)
	}
	c.Eventually("all queues have a status", func(ctx context.Context) string {
		ready := 0
		var queues v1alpha1.QueueList
		if err := c.client.List(ctx, &queues); err != nil {
			return err.Error()
		}
		for i := range queues.Items {
			if apimeta.FindStatusCondition(queues.Items[i].Status.Conditions, v1alpha1.ConditionQueueReady) != nil {
				ready++
			}
		}
		if ready < count {
			return fmt.Sprintf("%d have", ready)
		}
		return ""
	})
	// At the configured rate, the writes need (count-burst)/qps seconds. Allow 10 % less.
	if took, least := time.Since(began), time.Second*(count-burst)/qps*9/10; took < least {
		t.Errorf("the statuses of %d queues took %v, want %v at least", count, took, least)
	}
}
