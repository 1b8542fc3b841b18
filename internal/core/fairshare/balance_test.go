package fairshare

import (
	"math"
	"testing"
)

func TestDominantShare(t *testing.T) {
	for name, tc := range map[string]struct {
		has, taken, share []int64
		among             []int
		want              float64
	}{
		"the resource in which it is most": {has: []int64{2, 6}, share: []int64{4, 4}, among: []int{0, 1}, want: 1.5},
		"only among some":                  {has: []int64{2, 6}, share: []int64{4, 4}, among: []int{0}, want: 0.5},
		"less what has been taken":         {has: []int64{2, 6}, taken: []int64{0, 5}, share: []int64{4, 4}, among: []int{0, 1}, want: 0.5},
		"of something it has no share of":  {has: []int64{1, 0}, share: []int64{0, 4}, among: []int{0, 1}, want: math.Inf(1)},
		"no share and nothing of it":       {has: []int64{0, 1}, share: []int64{0, 4}, among: []int{0, 1}, want: 0.25},
		"a share that is not listed is 0":  {has: []int64{1}, among: []int{0}, want: math.Inf(1)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := DominantShare(tc.has, tc.taken, tc.share, tc.among); got != tc.want {
				t.Errorf("DominantShare() = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestFormat(t *testing.T) {
	for name, tc := range map[string]struct {
		resource string
		amount   int64
		want     string
	}{
		"whole CPUs":        {resource: "cpu", amount: 4000, want: "4"},
		"parts of a CPU":    {resource: "cpu", amount: 1500, want: "1500m"},
		"bytes":             {resource: "memory", amount: 3 << 29, want: "1536Mi"},
		"odd bytes":         {resource: "memory", amount: 1001, want: "1001"},
		"huge pages":        {resource: "hugepages-2Mi", amount: 4 << 20, want: "4Mi"},
		"pieces":            {resource: "nvidia.com/gpu", amount: 8000, want: "8000"},
		"nothing of memory": {resource: "memory", amount: 0, want: "0"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Format(tc.resource, tc.amount); got != tc.want {
				t.Errorf("Format() = %q, want %q", got, tc.want)
			}
		})
	}
}

// TestTurnsWithoutAShare checks the order of queues whose share of the requested resources is 0.
// Their usage decides which queue is next.
func TestTurnsWithoutAShare(t *testing.T) {
	// The queue all has a higher priority and takes all of the first resource. The second resource
	// is not scarce, so every queue has a share of it.
	all := queue("all", ranked(1))
	for name, tc := range map[string]struct {
		queues []Queue
		asks   map[string]Amounts
		want   map[string]int
	}{
		"below a sibling of higher priority": {
			queues: []Queue{all, queue("a"), queue("b")},
			asks:   map[string]Amounts{"a": {1, 1}, "b": {1, 1}}, want: map[string]int{"a": 100, "b": 100},
		},
		"by weight": {
			queues: []Queue{all, queue("a"), queue("b", weight(3))},
			asks:   map[string]Amounts{"a": {1, 1}, "b": {1, 1}}, want: map[string]int{"a": 50, "b": 150},
		},
		"of weight 0": {
			queues: []Queue{queue("all"), queue("a", weight(0)), queue("b", weight(0))},
			asks:   map[string]Amounts{"a": {1, 1}, "b": {1, 1}}, want: map[string]int{"a": 100, "b": 100},
		},
		"larger work has fewer turns": {
			queues: []Queue{all, queue("a"), queue("b")},
			asks:   map[string]Amounts{"a": {3, 1}, "b": {1, 1}}, want: map[string]int{"a": 50, "b": 150},
		},
		"by the resource in which it is most": {
			queues: []Queue{all, queue("a"), queue("b")},
			asks:   map[string]Amounts{"a": {1, 300}, "b": {1, 1}}, want: map[string]int{"a": 50, "b": 150},
		},
		"one of weight 0 beside one of weight 1": {
			queues: []Queue{all, queue("a", weight(0)), queue("b")},
			asks:   map[string]Amounts{"a": {1, 1}, "b": {1, 1}}, want: map[string]int{"a": 100, "b": 100},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree, _ := NewTree(2, tc.queues)
			demand, askers := make([]Amounts, tree.Len()), []Asker(nil)
			for name, ask := range tc.asks {
				i, _ := tree.Find(name)
				askers, demand[i] = append(askers, Asker{Leaf: i, Request: ask}), Amounts{200 * ask[0], 200 * ask[1]}
			}
			i, _ := tree.Find("all")
			demand[i] = Amounts{1000, 0}
			s := &Balance{Tree: tree, Capacity: Amounts{1000, 100_000}, Allocated: make([]Amounts, tree.Len())}
			s.Shares = tree.FairShares(s.Capacity, nil, demand)
			for i := range s.Allocated {
				s.Allocated[i] = Amounts{0, 0}
			}
			got := make(map[string]int)
			for range 200 {
				next, _ := s.Next(askers, nil)
				name := tree.Queue(next).Name
				got[name]++
				for r, v := range tc.asks[name] {
					s.Allocated[next][r] += v
				}
			}
			for name, want := range tc.want {
				if diff := got[name] - want; diff < -2 || diff > 2 {
					t.Errorf("%s had %d of 200 turns, want %d (all: %v)", name, got[name], want, got)
				}
			}
		})
	}
}

// TestEntitledToWhatThereIs checks that Entitled ignores resources without capacity, such as
// devices that only a DeviceClass maps to.
func TestEntitledToWhatThereIs(t *testing.T) {
	tree, _ := NewTree(2, []Queue{queue("a"), queue("b")})
	a, _ := tree.Find("a")
	for name, tc := range map[string]struct {
		capacity, request Amounts
		want              bool
	}{
		"within its share":             {capacity: Amounts{8, 8}, request: Amounts{4, 4}, want: true},
		"beyond it":                    {capacity: Amounts{8, 8}, request: Amounts{4, 5}},
		"with what there is none of":   {capacity: Amounts{8, 0}, request: Amounts{4, 5}, want: true},
		"beyond it, with that as well": {capacity: Amounts{8, 0}, request: Amounts{5, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Balance{Tree: tree, Capacity: tc.capacity, Allocated: []Amounts{{0, 0}, {0, 0}}}
			s.Shares = tree.FairShares(tc.capacity, nil, []Amounts{{100, 100}, {100, 100}})
			within := s.Within(a, []Amounts{tc.request}, nil) == 1
			if got := s.Entitled(a, tc.request); got != tc.want || within != tc.want {
				t.Errorf("entitled: %t, within: %t, want %t", got, within, tc.want)
			}
		})
	}
}
