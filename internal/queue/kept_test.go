package queue

import (
	"slices"
	"strings"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// TestKeepQueue checks a deleted queue with running work. The running work still counts for the
// queue, and no other work starts in the queue.
func TestKeepQueue(t *testing.T) {
	t.Parallel()
	until := time.Unix(1000, 0)
	b := boardOf(queueUnder("a", "", quota(4), preemptAfter(time.Hour)), queueUnder("b", ""))
	b.Charge(pod("runs", 4, "n"), "a")
	b.Charge(pod("waits", 2, ""), "a")
	b.Charge(pod("other", 4, "n"), "b")
	b.Charge(pod("more", 4, ""), "b")
	if !b.KeepQueue("a", until) {
		t.Fatal("The queue is not kept")
	}
	s := b.Snapshot(gpus)
	if got := values(s, s.Allocated)["a"]; got != 4 {
		t.Errorf("The queue uses %d, want 4", got)
	}
	// The pending pod has no demand.
	if got := values(s, s.Shares)["a"]; got != 4 {
		t.Errorf("The share is %d, want 4", got)
	}
	if s.OrphanedPods != 0 || b.KeptPods() != 1 {
		t.Errorf("%d pods are orphaned and %d are kept, want 0 and 1", s.OrphanedPods, b.KeptPods())
	}
	if got := b.Protection("a", MinRuntimes{}); got != time.Hour {
		t.Errorf("Protected for %v, want an hour", got)
	}
	if v := b.Check("a"); v.Reason != v1alpha1.ReasonQueueNotFound {
		t.Errorf("Work that waits has the verdict %+v", v)
	}
	if c := b.Claim(Work{Namespace: "ns", Named: "a", Placed: true, Pod: "runs"}); c.Queue != "a" {
		t.Errorf("Work that runs counts for %q", c.Queue)
	}
	if v := b.Orphaned("a", false); !strings.Contains(v.Message, `Queue "a" was deleted; the members that run keep their place and their protections until 1970-01-01T00:16:40Z`) {
		t.Errorf("It says %q", v.Message)
	}
	if dropped, _ := b.DropExpired(until.Add(-1)); len(dropped) > 0 {
		t.Errorf("%v are dropped too early", dropped)
	}
	if dropped, _ := b.DropExpired(until); !slices.Equal(dropped, []string{"a"}) {
		t.Errorf("%v are dropped, want a", dropped)
	}
	if s := b.Snapshot(gpus); s.OrphanedPods != 1 || b.KeptPods() != 0 {
		t.Errorf("%d pods are orphaned and %d are kept, want 1 and 0", s.OrphanedPods, b.KeptPods())
	}
}

// TestKeepQueueUntilItReturns checks that a queue that is created again does not expire.
func TestKeepQueueUntilItReturns(t *testing.T) {
	t.Parallel()
	b := boardOf(queueUnder("a", ""))
	b.Charge(pod("runs", 4, "n"), "a")
	until := time.Unix(1000, 0)
	b.KeepQueue("a", until)
	b.SetQueue(queueUnder("a", ""))
	if dropped, _ := b.DropExpired(until.Add(time.Hour)); len(dropped) > 0 {
		t.Errorf("%v are dropped", dropped)
	}
	if v := b.Check("a"); v != (gang.Verdict{}) {
		t.Errorf("Its work has the verdict %+v", v)
	}
}

// TestKeepQueueUntilItsWorkEnds checks that a deleted queue is removed when its running work has
// ended.
func TestKeepQueueUntilItsWorkEnds(t *testing.T) {
	t.Parallel()
	b := boardOf(queueUnder("org", ""), queueUnder("a", "org"))
	b.Charge(pod("runs", 4, "n"), "a")
	b.Charge(pod("waits", 4, ""), "a")
	until := time.Unix(1000, 0)
	b.KeepQueue("a", until)
	b.KeepQueue("org", until)
	if dropped, _ := b.DropExpired(until.Add(-1)); len(dropped) > 0 {
		t.Errorf("%v are dropped while work runs", dropped)
	}
	b.Forget("runs")
	if dropped, _ := b.DropExpired(until.Add(-1)); !slices.Equal(dropped, []string{"a", "org"}) {
		t.Errorf("%v are dropped, want both", dropped)
	}
}

// TestKeepQueueIsForRunningWork checks that only queues with running work, and their ancestors, are
// kept after their deletion.
func TestKeepQueueIsForRunningWork(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		deleted, node string
		want          bool
	}{
		"its own work runs":   {"a", "n", true},
		"its own work waits":  {"a", "", false},
		"work runs below it":  {"org", "n", true},
		"work waits below it": {"org", "", false},
		"work runs beside it": {"b", "n", false},
		"it was never there":  {"c", "n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := boardOf(queueUnder("org", ""), queueUnder("a", "org"), queueUnder("b", "org"))
			b.Charge(pod("p", 4, tt.node), "a")
			if got := b.KeepQueue(tt.deleted, time.Unix(1000, 0)); got != tt.want {
				t.Errorf("Kept: %t, want %t", got, tt.want)
			}
		})
	}
}

// TestKeepParent checks a queue whose parent was deleted. The running work must continue to count
// for the queue, and the status of the queue must report the missing parent.
func TestKeepParent(t *testing.T) {
	t.Parallel()
	below := queueUnder("a", "org", quota(4))
	b := boardOf(queueUnder("org", "", quota(4)), below)
	b.Charge(pod("runs", 4, "n"), "a")
	b.KeepQueue("org", time.Unix(1000, 0))
	if v := b.Check("a"); v.Reason != v1alpha1.ReasonQueueUnusable || !strings.Contains(v.Message, `Queue "org" above it was deleted`) {
		t.Errorf("Work that waits has the verdict %+v", v)
	}
	s := b.Snapshot(gpus)
	if got := values(s, s.Shares)["a"]; got != 4 || b.KeptPods() != 1 {
		t.Errorf("The share is %d and %d pods are kept, want 4 and 1", got, b.KeptPods())
	}
	s.SetStatus(below, b.WholeGroups(s))
	if c := apimeta.FindStatusCondition(below.Status.Conditions, v1alpha1.ConditionQueueReady); c == nil || c.Reason != v1alpha1.ReasonParentNotFound {
		t.Errorf("The queue says %+v", c)
	}
}
