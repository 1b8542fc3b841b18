package queue

import (
	"testing"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

func TestNext(t *testing.T) {
	tree := []*v1alpha1.Queue{
		queueUnder("x", ""), queueUnder("x1", "x"), queueUnder("x2", "x"), queueUnder("y", ""), queueUnder("y1", "y"),
	}
	tests := map[string]struct {
		placed   map[string]int64
		waiting  []string
		underway map[string]int64
		want     string
	}{
		"the first by name, where all are the same": {waiting: []string{"y1", "x2", "x1"}, want: "x1"},
		"the furthest below its share":              {placed: map[string]int64{"x1": 2, "y1": 1}, waiting: []string{"x2", "y1"}, want: "y1"},
		"level by level: x has more than y, though x2 has nothing": {
			placed: map[string]int64{"x1": 3, "y1": 1}, waiting: []string{"x2", "y1"}, want: "y1",
		},
		"what is under way counts":  {underway: map[string]int64{"x1": 1}, waiting: []string{"x1", "y1"}, want: "y1"},
		"only those with work":      {placed: map[string]int64{"x1": 3}, waiting: []string{"x1"}, want: "x1"},
		"a queue that is not there": {waiting: []string{"nowhere"}, want: ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := boardOf(tree...)
			for queue, v := range tt.placed {
				b.Charge(pod("placed-"+queue, v, "n"), queue)
			}
			underway := make(map[string]Amounts)
			for _, queue := range []string{"x1", "x2", "y1"} {
				b.Charge(pod("waiting-"+queue, 8, ""), queue)
			}
			for queue, v := range tt.underway {
				underway[queue] = Amounts{gpu: v}
			}
			var askers []Asker
			for _, queue := range tt.waiting {
				askers = append(askers, Asker{Queue: queue, Request: Amounts{gpu: 1}})
			}
			got, ok := b.Snapshot(gpus).Next(askers, underway)
			if got != tt.want || ok != (tt.want != "") {
				t.Errorf("next is %q, %v, want %q", got, ok, tt.want)
			}
		})
	}
}

// TestWithin checks how many pods of a queue fit into its fair share. Of 8 GPUs, queue x has 4, and
// 2 of these belong to x1 below it.
func TestWithin(t *testing.T) {
	for name, tt := range map[string]struct {
		placed, underway int64
		leaf             string
		pods             []int64
		want             int
	}{
		"one after the other":         {leaf: "x1", pods: []int64{1, 1, 1}, want: 2},
		"what is placed counts":       {placed: 1, leaf: "x1", pods: []int64{1, 1, 1}, want: 1},
		"what is under way counts":    {placed: 1, underway: 1, leaf: "x1", pods: []int64{1, 1, 1}, want: 0},
		"the first one is too large":  {leaf: "x1", pods: []int64{3, 1}, want: 0},
		"those that ask for nothing":  {placed: 2, leaf: "x1", pods: []int64{0, 0}, want: 2},
		"a queue that is not there":   {leaf: "nowhere", pods: []int64{9, 9}, want: 2},
		"the parent's share is short": {leaf: "x2", placed: 3, pods: []int64{1, 1}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := boardOf(queueUnder("x", ""), queueUnder("x1", "x"), queueUnder("x2", "x"), queueUnder("y", ""))
			for _, queue := range []string{"x1", "x2", "y"} {
				b.Charge(pod("waiting-"+queue, 8, ""), queue)
			}
			if tt.placed > 0 {
				b.Charge(pod("placed", tt.placed, "n"), "x1")
			}
			var requests []Amounts
			for _, v := range tt.pods {
				requests = append(requests, Amounts{gpu: v})
			}
			if got := b.Snapshot(gpus).Within(tt.leaf, requests, map[string]Amounts{"x1": {gpu: tt.underway}}); got != tt.want {
				t.Errorf("there is room for %d, want %d", got, tt.want)
			}
		})
	}
}
