package queue

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

func preemptAfter(d time.Duration) func(*v1alpha1.QueueSpec) {
	return func(s *v1alpha1.QueueSpec) { s.PreemptMinRuntime = &metav1.Duration{Duration: d} }
}

func reclaimAfter(d time.Duration) func(*v1alpha1.QueueSpec) {
	return func(s *v1alpha1.QueueSpec) { s.ReclaimMinRuntime = &metav1.Duration{Duration: d} }
}

func TestProtection(t *testing.T) {
	const long, short, other = 9 * time.Minute, 3 * time.Minute, 5 * time.Minute
	tests := map[string]struct {
		top, mid, leaf []func(*v1alpha1.QueueSpec)
		otherwise      MinRuntimes
		queue          string
		want           time.Duration
	}{
		"nothing set":                              {queue: "leaf"},
		"no queue: preempt's default only":         {otherwise: MinRuntimes{Preempt: short, Reclaim: long}, want: short},
		"a queue that is not there":                {queue: "none", otherwise: MinRuntimes{Preempt: short, Reclaim: long}, want: short},
		"a queue with others below it":             {queue: "mid", otherwise: MinRuntimes{Preempt: short, Reclaim: long}, want: short},
		"a queue that cannot be used":              {queue: "lost", otherwise: MinRuntimes{Preempt: short, Reclaim: long}, want: short},
		"the longer default":                       {queue: "leaf", otherwise: MinRuntimes{Preempt: short, Reclaim: long}, want: long},
		"preempt from the leaf upwards":            {queue: "leaf", mid: []func(*v1alpha1.QueueSpec){preemptAfter(short)}, top: []func(*v1alpha1.QueueSpec){preemptAfter(long)}, want: short},
		"preempt's default where no queue says so": {queue: "leaf", leaf: []func(*v1alpha1.QueueSpec){reclaimAfter(0)}, otherwise: MinRuntimes{Preempt: short}, want: short},
		"0s on the leaf wins over a default":       {queue: "leaf", leaf: []func(*v1alpha1.QueueSpec){preemptAfter(0)}, otherwise: MinRuntimes{Preempt: long}},
		"reclaim from beside any level": {
			queue: "leaf", leaf: []func(*v1alpha1.QueueSpec){reclaimAfter(short)}, mid: []func(*v1alpha1.QueueSpec){reclaimAfter(long)},
			top: []func(*v1alpha1.QueueSpec){reclaimAfter(other)}, want: long,
		},
		"reclaim from beside the top, by the default": {
			queue: "leaf", leaf: []func(*v1alpha1.QueueSpec){reclaimAfter(short)}, otherwise: MinRuntimes{Reclaim: other}, want: other,
		},
		"reclaim by the leaf's alone": {
			queue: "leaf", leaf: []func(*v1alpha1.QueueSpec){reclaimAfter(short)}, mid: []func(*v1alpha1.QueueSpec){reclaimAfter(long)},
			otherwise: MinRuntimes{Reclaim: other, FromLeaf: true}, want: short,
		},
		"the leaf's alone, which an ancestor says": {
			queue: "leaf", mid: []func(*v1alpha1.QueueSpec){reclaimAfter(short)}, top: []func(*v1alpha1.QueueSpec){reclaimAfter(long)},
			otherwise: MinRuntimes{Reclaim: other, FromLeaf: true}, want: short,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := boardOf(queueUnder("top", "", tt.top...), queueUnder("mid", "top", tt.mid...), queueUnder("leaf", "mid", tt.leaf...), queueUnder("lost", "nowhere"))
			if got := b.Protection(tt.queue, tt.otherwise); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
	if got := NewLedger().Protection("leaf", MinRuntimes{Preempt: short, Reclaim: long}); got != short {
		t.Errorf("%v without queues, want %v", got, short)
	}
}

// TestProtectionFollowsTheQueues checks that a change of a queue's min-runtime applies at once.
func TestProtectionFollowsTheQueues(t *testing.T) {
	b := boardOf(queueUnder("leaf", "", preemptAfter(time.Minute)))
	for _, want := range []time.Duration{time.Minute, time.Hour, 0} {
		b.SetQueue(queueUnder("leaf", "", preemptAfter(want)))
		if got := b.Protection("leaf", MinRuntimes{}); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

func TestOrphaned(t *testing.T) {
	b := boardOf()
	check := func(when, queue string, before bool, wantReason string) {
		t.Helper()
		if v := b.Orphaned(queue, before); v.Reason != wantReason || wantReason != "" && !strings.Contains(v.Message, queue) {
			t.Errorf("%s: %+v, want %q", when, v, wantReason)
		}
	}
	check("there never was a queue", "a", false, "")
	b.SetQueue(queueUnder("a", ""))
	check("it is there", "a", false, "")
	check("it is there again", "a", true, "")
	check("another one is not", "b", false, v1alpha1.ReasonQueueNotFound)
	check("no queue is named", "", true, "")
	b.SetQueue(queueUnder("below", "a"))
	check("it has others below it", "a", false, v1alpha1.ReasonQueueNotLeaf)
	b.DeleteQueue("a")
	check("it has been deleted", "a", false, v1alpha1.ReasonQueueNotFound)
	check("its parent is not there", "below", false, v1alpha1.ReasonQueueUnusable)
	b.DeleteQueue("below")
	check("the last one has been deleted", "below", false, v1alpha1.ReasonQueueNotFound)
	check("a name that was never used", "b", false, "")
	check("a name that other work had", "b", true, v1alpha1.ReasonQueueNotFound)
	b.SetQueue(queueUnder("below", ""))
	check("it is back", "below", true, "")
}
