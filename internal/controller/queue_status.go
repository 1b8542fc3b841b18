package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

// queueInterval is the time between two updates of the status of Queues. Shares change with every
// pod that is created or deleted, so one write for each change would overload the API server.
const queueInterval = 500 * time.Millisecond

// queueLag is the maximum time after a write until the cache shows it. Until then, a comparison
// with the cache may use an old status.
const queueLag = 5 * time.Second

// queueWrites is the maximum number of concurrent API calls. Hundreds of Queues may change at once,
// and each call takes some milliseconds.
const queueWrites = 16

// queueFigures is the number of Queues per second whose status is written although only numbers in
// it have changed. The limit applies while the numbers keep changing. Without it, a thousand busy
// Queues would need more API calls than their pods.
const queueFigures = 8

// queueLook, multiplied by the number of Queues, is the minimum time between two computations of
// the status of all Queues. With a thousand Queues, a computation takes a while, and few results
// are written.
const queueLook = 4 * time.Millisecond

// QueueStatus writes the status of Queues from the quota ledger. When Queues change, it also
// requests all PodGroups, because their status depends on their queue.
type QueueStatus struct {
	client   client.Client
	ledger   *queue.Ledger
	clock    clock.WithTicker
	orphaned func(int)
	figures  func(map[string]v1alpha1.QueueStatus)
	missing  func(map[string]corev1.ResourceList)
	last     *queue.Snapshot
	// reached is the last Queue of the previous update that was written only for its numbers. The
	// next update continues with the Queue after it.
	reached string
	// written is the time of the last write of any status. looked is the time of the last
	// computation of all statuses.
	written, looked time.Time
	// listing is the pause after a call that lists the Queues has failed.
	listing pause
	// refused maps Queues whose status could not be written to their pauses. So a Queue that fails
	// does not delay others.
	refused map[string]pause
	// groups reads the PodGroups of all APIs.
	groups client.Reader
	// changed requests PodGroups. listed is the value of [queue.Ledger.Listed] when all PodGroups
	// were requested last.
	changed *Trigger
	listed  uint64
}

// pause is a delay before a retry. The delay grows with each failure in a row.
type pause struct {
	delay time.Duration
	until time.Time
}

// next returns the pause that follows another failure.
func (p pause) next(now time.Time) pause {
	delay := min(2*max(p.delay, queueInterval), longestDelay)
	return pause{delay: delay, until: now.Add(delay)}
}

// NewQueueStatus returns a QueueStatus.
func NewQueueStatus(in *Inputs) *QueueStatus {
	s := &QueueStatus{
		client: in.QueueClient, ledger: in.Ledger, clock: in.Clock, orphaned: in.OrphanedPods, figures: in.QueueFigures, missing: in.QuotaMissing,
		groups: in.Groups(), changed: in.Changed, refused: make(map[string]pause),
	}
	if s.figures == nil {
		s.figures = func(map[string]v1alpha1.QueueStatus) {}
	}
	if s.missing == nil {
		s.missing = func(map[string]corev1.ResourceList) {}
	}
	return s
}

// Start updates the status until ctx is done.
func (s *QueueStatus) Start(ctx context.Context) error {
	ticker := s.clock.NewTicker(queueInterval)
	defer ticker.Stop()
	for {
		if err := s.update(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Write the status of Queues")
		}
		if err := s.regroup(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Look for PodGroups that Queues bear on")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// update writes the status of the Queues that are due.
func (s *QueueStatus) update(ctx context.Context) error {
	if !s.ledger.Used() {
		s.orphaned(0)
		s.figures(nil)
		s.missing(nil)
		return nil
	}
	now := s.clock.Now()
	standing := s.ledger.Snapshot(s.ledger.Resources())
	if standing == nil || now.Before(s.listing.until) || standing == s.last && s.clock.Since(s.written) > queueLag && !s.isRetryDue(now) {
		return nil
	}
	s.orphaned(standing.OrphanedPods)
	if s.last != nil && standing != s.last && standing.Listed() == s.last.Listed() && s.clock.Since(s.looked) < time.Duration(standing.Tree.Len())*queueLook {
		return nil
	}
	var all v1alpha1.QueueList
	if err := s.client.List(ctx, &all); err != nil {
		s.listing = s.listing.next(now)
		return fmt.Errorf("list Queues: %w", err)
	}
	s.listing = pause{}
	due, levels := s.due(all.Items, standing)
	s.figures(levels)
	s.missing(standing.MissingQuotas())
	maps.DeleteFunc(s.refused, func(name string, _ pause) bool {
		_, ok := levels[name]
		return !ok
	})
	s.last = standing
	if len(due) > 0 {
		s.written = s.clock.Now()
	}
	return s.writeAll(ctx, due)
}

// isRetryDue reports whether the pause of any refused Queue has ended.
func (s *QueueStatus) isRetryDue(now time.Time) bool {
	for _, p := range s.refused {
		if !now.Before(p.until) {
			return true
		}
	}
	return false
}

// writeAll writes the status of the given Queues. A Queue whose write fails gets a pause.
func (s *QueueStatus) writeAll(ctx context.Context, due []queueUpdate) error {
	failed := make([]error, len(due))
	var g errgroup.Group
	g.SetLimit(queueWrites)
	for i, u := range due {
		g.Go(func() error {
			failed[i] = s.write(ctx, u)
			return nil
		})
	}
	// Ignore the result of Wait: each goroutine stores its error in failed.
	_ = g.Wait()
	for i, u := range due {
		if failed[i] == nil {
			delete(s.refused, u.before.Name)
		} else {
			s.refused[u.before.Name] = s.refused[u.before.Name].next(s.clock.Now())
		}
	}
	return errors.Join(failed...)
}

// queueUpdate is a Queue with its present status (before) and its new status (after).
type queueUpdate struct{ before, after *v1alpha1.Queue }

// due returns the Queues to write now: the Queues whose status differs from the ledger and that
// have no pause. If only numbers differ, it returns a few Queues at a time, in turns; see
// queueFigures. levels maps every Queue to its new status.
func (s *QueueStatus) due(all []v1alpha1.Queue, standing *queue.Snapshot) (due []queueUpdate, levels map[string]v1alpha1.QueueStatus) {
	left := len(all)
	if standing != s.last && !s.looked.IsZero() {
		left = max(1, int(queueFigures*s.clock.Since(s.looked).Seconds()))
	}
	s.looked = s.clock.Now()
	wholeGroups := s.ledger.WholeGroups(standing)
	slices.SortFunc(all, func(a, b v1alpha1.Queue) int { return cmp.Compare(a.Name, b.Name) })
	first, _ := slices.BinarySearchFunc(all, s.reached+"\x00", func(q v1alpha1.Queue, name string) int { return cmp.Compare(q.Name, name) })
	levels = make(map[string]v1alpha1.QueueStatus, len(all))
	for i := range all {
		before := &all[(first+i)%len(all)]
		after := before.DeepCopy()
		standing.SetStatus(after, wholeGroups)
		levels[before.Name] = after.Status
		switch {
		case s.clock.Now().Before(s.refused[before.Name].until):
		case apiequality.Semantic.DeepEqual(before.Status, after.Status):
			delete(s.refused, before.Name)
		case !apiequality.Semantic.DeepEqual(before.Status.Conditions, after.Status.Conditions) || !queue.SameAccess(&before.Status, &after.Status):
			due = append(due, queueUpdate{before, after})
		case left > 0:
			left--
			s.reached = before.Name
			due = append(due, queueUpdate{before, after})
		}
	}
	return due, levels
}

// write updates the status of one Queue.
func (s *QueueStatus) write(ctx context.Context, u queueUpdate) error {
	err := s.client.Status().Patch(ctx, u.after, client.MergeFrom(u.before))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("write the status of Queue %s: %w", u.before.Name, err)
	}
	return nil
}

// regroup requests all PodGroups after Queues or the default queues of namespaces have changed. The
// status of a PodGroup depends on its queue, and on whether the queue exists. Changes between two
// calls cause one round of requests.
func (s *QueueStatus) regroup(ctx context.Context) error {
	listed := s.ledger.Listed()
	if listed == s.listed {
		return nil
	}
	var all v1alpha1.PodGroupList
	if err := s.groups.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list PodGroups: %w", err)
	}
	for i := range all.Items {
		// Request every PodGroup. A PodGroup whose spec names no queue may still be in a queue: the
		// default queue of its namespace, or a queue in a label. The key of the label depends on
		// the profile.
		s.changed.Request(client.ObjectKeyFromObject(&all.Items[i]))
	}
	s.listed = listed
	return nil
}
