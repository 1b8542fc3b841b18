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
			waiting, underway := make(map[string]bool), make(map[string]Amounts)
			for _, queue := range []string{"x1", "x2", "y1"} {
				b.Charge(pod("waiting-"+queue, 8, ""), queue)
			}
			for _, queue := range tt.waiting {
				waiting[queue] = true
			}
			for queue, v := range tt.underway {
				underway[queue] = Amounts{gpu: v}
			}
			got, ok := b.Standing(gpus).Next(waiting, underway)
			if got != tt.want || ok != (tt.want != "") {
				t.Errorf("next is %q, %v, want %q", got, ok, tt.want)
			}
		})
	}
}
