package queue

import (
	"testing"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestEased changes shares in several ways. It checks for which queues reclaim is easier
// afterwards.
func TestEased(t *testing.T) {
	tests := map[string]struct {
		change func(b *Ledger)
		want   []string
	}{
		"nothing":                                {change: func(*Ledger) {}},
		"another's demand goes away":             {change: func(b *Ledger) { b.Forget("c-waits") }, want: []string{"a", "b"}},
		"demand comes":                           {change: func(b *Ledger) { b.Charge(pod("c-more", 9, ""), "c") }},
		"a quota is raised":                      {change: func(b *Ledger) { b.SetQueue(queueUnder("a", "top", quota(8))) }, want: []string{"a", "b", "c"}},
		"the cluster grows":                      {change: func(b *Ledger) { b.SetNode(node("m", 14)) }, want: []string{"a", "b", "c"}},
		"by what none of the work fits on":       {change: func(b *Ledger) { b.SetNode(node("m", 8)) }},
		"a queue takes what is free":             {change: func(b *Ledger) { b.Charge(pod("b-more", 5, "n"), "b") }, want: []string{"a", "b", "c"}},
		"a queue stays within its share":         {change: func(b *Ledger) { b.Charge(pod("a-more", 1, "n"), "a") }},
		"what is outside the queues leaves room": {change: func(b *Ledger) { b.Forget("outside") }, want: []string{"a", "b", "c"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := boardOf(queueUnder("top", ""), queueUnder("a", "top"), queueUnder("b", "top"), queueUnder("c", ""))
			b.SetNode(node("n", 14))
			for _, queue := range []string{"a", "b", "c"} {
				b.Charge(pod(queue+"-waits", 12, ""), queue)
			}
			b.Charge(pod("outside", 2, "n"), "")
			before := b.Snapshot(gpus)
			tt.change(b)
			after := b.Snapshot(gpus)
			eased := make(map[string]bool)
			for _, queue := range tt.want {
				eased[queue] = true
			}
			for _, queue := range []string{"a", "b", "c"} {
				if got := after.Eased(queue) > before.At(); got != eased[queue] {
					t.Errorf("%s is eased: %v, want %v (shares %v, then %v)", queue, got, eased[queue], values(before, before.Shares), values(after, after.Shares))
				}
			}
		})
	}
}

func TestEntitled(t *testing.T) {
	b := boardOf(queueUnder("a", "", func(s *v1alpha1.QueueSpec) { s.Quota = list(4) }), queueUnder("b", ""))
	b.Charge(pod("runs", 1, "n"), "a")
	for _, queue := range []string{"a", "b"} {
		b.Charge(pod(queue, 8, ""), queue)
	}
	s := b.Snapshot(gpus)
	tests := map[string]struct {
		queue string
		gpus  int64
		want  bool
	}{
		"up to its share":           {queue: "a", gpus: 5, want: true},
		"beyond it":                 {queue: "a", gpus: 6},
		"nothing":                   {queue: "a", want: true},
		"a queue that is not there": {queue: "c"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := s.Entitled(Asker{Queue: tt.queue, Request: Amounts{gpu: tt.gpus}}); got != tt.want {
				t.Errorf("%v, want %v (shares %v)", got, tt.want, values(s, s.Shares))
			}
		})
	}
}
