package queue

import (
	"fmt"
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// KeepQueue handles the deletion of a Queue, which may be a mistake. If running work counts for the
// queue or a queue below it, the ledger keeps the queue until the given time. Running work then
// keeps its place, its quota and its min-runtimes. Waiting work is blocked and has no demand.
//
// KeepQueue reports whether the ledger keeps the queue. If not, the caller must call
// [Ledger.DeleteQueue]. [Ledger.DropExpired] removes the queue later, and [Ledger.SetQueue] makes
// it a normal queue again.
func (b *Ledger) KeepQueue(name string, until time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queues[name] == nil || !b.runs(name) {
		return false
	}
	b.kept[name] = until
	b.relisted()
	return true
}

// DropExpired removes the deleted queues whose time has passed or whose running work has ended. It
// returns the names of the removed queues, sorted. Call it regularly. confining is true if access
// to other queues may have changed, as in [Ledger.DeleteQueue].
func (b *Ledger) DropExpired(now time.Time) (dropped []string, confining bool) {
	if !b.Used() {
		return nil, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, until := range b.kept {
		if !now.Before(until) || !b.runs(name) {
			dropped = append(dropped, name)
		}
	}
	slices.Sort(dropped)
	for _, name := range dropped {
		confining = b.deleteQueue(name) || confining
	}
	return dropped, confining
}

// KeptPods returns the number of pods on nodes that count for a deleted queue, or for a queue below
// one.
func (b *Ledger) KeptPods() (pods int) {
	if !b.Used() {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.kept) == 0 {
		return 0
	}
	for name, a := range b.accounts {
		if b.keptAbove(name) != "" {
			pods += a.placed
		}
	}
	return pods
}

// runs reports whether pods on nodes count for a queue or for a queue below it. The caller holds
// the lock.
func (b *Ledger) runs(queue string) bool {
	for name, a := range b.accounts {
		if a.placed > 0 && slices.Contains(b.path(name), queue) {
			return true
		}
	}
	return false
}

// keptAbove returns the first deleted queue among a queue and its ancestors; "" for none. The
// caller holds the lock.
func (b *Ledger) keptAbove(queue string) string {
	if len(b.kept) == 0 {
		return ""
	}
	for _, name := range b.path(queue) {
		if _, ok := b.kept[name]; ok {
			return name
		}
	}
	return ""
}

// checkKept does the work of check for a queue that was deleted, or whose ancestor was deleted. It
// returns zero for other queues. The caller holds the lock.
func (b *Ledger) checkKept(queue string) gang.Verdict {
	switch deleted := b.keptAbove(queue); deleted {
	case "":
		return gang.Verdict{}
	case queue:
		return gang.Verdict{Reason: v1alpha1.ReasonQueueNotFound, Message: fmt.Sprintf("Queue %q was deleted", queue)}
	default:
		return unusable(queue, fmt.Sprintf("Queue %q above it was deleted", deleted))
	}
}

// effectOf describes the effect on running work that is not in the queue that it names. The caller
// holds the lock.
func (b *Ledger) effectOf(queue string) string {
	if deleted := b.keptAbove(queue); deleted != "" {
		return fmt.Sprintf("the members that run keep their place and their protections until %s; create the Queue again before that",
			b.kept[deleted].UTC().Format(time.RFC3339))
	}
	return "the members that run go on, and count for no queue"
}

// deletedAbove returns the closest deleted ancestor of a queue in the tree; "" for none.
func (s *Snapshot) deletedAbove(i int32) string {
	for p := s.Tree.Parent(i); p >= 0; p = s.Tree.Parent(p) {
		if name := s.Tree.Queue(p).Name; s.kept[name] {
			return name
		}
	}
	return ""
}
