package controller

import (
	"context"
	"fmt"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

// queueInterval is how often the status of Queues is brought up to date. Shares change with every pod that comes or
// goes, so writing at each change would keep the API server busy with nothing else.
const queueInterval = time.Second

// QueueStatus keeps the status of Queues level with their books.
type QueueStatus struct {
	client client.Client
	board  *queue.Board
	clock  clock.WithTicker
	last   *queue.Standing
}

// NewQueueStatus returns a QueueStatus that reads and writes Queues with c.
func NewQueueStatus(c client.Client, board *queue.Board, clk clock.WithTicker) *QueueStatus {
	return &QueueStatus{client: c, board: board, clock: clk}
}

// Start keeps the status up to date until ctx is done.
func (s *QueueStatus) Start(ctx context.Context) error {
	ticker := s.clock.NewTicker(queueInterval)
	defer ticker.Stop()
	for {
		if err := s.update(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Write the status of Queues")
			// What has not been written is compared again.
			s.last = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// update writes the status of all Queues whose has changed.
func (s *QueueStatus) update(ctx context.Context) error {
	if !s.board.Used() {
		return nil
	}
	standing := s.board.Standing(s.board.Resources())
	if standing == nil || standing == s.last {
		return nil
	}
	var all v1alpha1.QueueList
	if err := s.client.List(ctx, &all); err != nil {
		return fmt.Errorf("list Queues: %w", err)
	}
	for i := range all.Items {
		before := &all.Items[i]
		after := before.DeepCopy()
		standing.SetStatus(after)
		if apiequality.Semantic.DeepEqual(before.Status, after.Status) {
			continue
		}
		if err := s.client.Status().Patch(ctx, after, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("write the status of Queue %s: %w", before.Name, err)
		}
	}
	s.last = standing
	return nil
}
