package fairshare

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// queueOption sets a field of a queue.
type queueOption func(*Queue)

func under(parent string) queueOption   { return func(q *Queue) { q.Parent = parent } }
func quota(v ...int64) queueOption      { return func(q *Queue) { q.Quota = v } }
func limit(v ...int64) queueOption      { return func(q *Queue) { q.Limit = v } }
func weight(w int64) queueOption        { return func(q *Queue) { q.Weight = w } }
func ranked(priority int32) queueOption { return func(q *Queue) { q.Priority = priority } }
func queue(name string, opts ...queueOption) Queue {
	q := Queue{Name: name, Weight: 1, PreemptMinRuntime: Unset, ReclaimMinRuntime: Unset}
	for _, o := range opts {
		o(&q)
	}
	return q
}

func TestFairShares(t *testing.T) {
	tests := map[string]struct {
		queues   []Queue
		capacity int64
		demand   map[string]int64
		want     map[string]int64
	}{
		"equal weights share equally": {
			queues: []Queue{queue("a"), queue("b")}, capacity: 10,
			demand: map[string]int64{"a": 10, "b": 10}, want: map[string]int64{"a": 5, "b": 5},
		},
		"what one does not ask for goes to the others": {
			queues: []Queue{queue("a"), queue("b"), queue("c")}, capacity: 12,
			demand: map[string]int64{"a": 2, "b": 10, "c": 10}, want: map[string]int64{"a": 2, "b": 5, "c": 5},
		},
		"what does not divide goes to the first by name": {
			queues: []Queue{queue("c"), queue("a"), queue("b")}, capacity: 8,
			demand: map[string]int64{"a": 9, "b": 9, "c": 9}, want: map[string]int64{"a": 3, "b": 3, "c": 2},
		},
		"quotas come first, and the surplus goes by weight": {
			queues: []Queue{queue("a", quota(4), weight(1)), queue("b", quota(2), weight(3))}, capacity: 10,
			demand: map[string]int64{"a": 10, "b": 10}, want: map[string]int64{"a": 5, "b": 5},
		},
		"a quota that is not asked for is lent": {
			queues: []Queue{queue("a", quota(8)), queue("b")}, capacity: 8,
			demand: map[string]int64{"a": 1, "b": 8}, want: map[string]int64{"a": 1, "b": 7},
		},
		"a weight of 0 has no part in the surplus": {
			queues: []Queue{queue("a", quota(2), weight(0)), queue("b")}, capacity: 8,
			demand: map[string]int64{"a": 8, "b": 3}, want: map[string]int64{"a": 2, "b": 3},
		},
		"a weight of 0 is no matter where there is enough": {
			queues: []Queue{queue("a", weight(0)), queue("b")}, capacity: 8,
			demand: map[string]int64{"a": 5, "b": 3}, want: map[string]int64{"a": 5, "b": 3},
		},
		"the surplus goes to the higher priority first": {
			queues: []Queue{queue("a", quota(1)), queue("b", ranked(1))}, capacity: 8,
			demand: map[string]int64{"a": 8, "b": 5}, want: map[string]int64{"a": 3, "b": 5},
		},
		"nothing beyond the limit": {
			queues: []Queue{queue("a", limit(3)), queue("b")}, capacity: 10,
			demand: map[string]int64{"a": 9, "b": 9}, want: map[string]int64{"a": 3, "b": 7},
		},
		"quotas of more than there is are cut down in proportion": {
			queues: []Queue{queue("a", quota(12)), queue("b", quota(4))}, capacity: 8,
			demand: map[string]int64{"a": 20, "b": 20}, want: map[string]int64{"a": 6, "b": 2},
		},
		"level by level": {
			queues: []Queue{
				queue("a", weight(1)), queue("b", weight(1)), queue("a1", under("a")), queue("a2", under("a")), queue("b1", under("b")),
			}, capacity: 8,
			demand: map[string]int64{"a1": 8, "a2": 8, "b1": 8},
			want:   map[string]int64{"a": 4, "a1": 2, "a2": 2, "b": 4, "b1": 4},
		},
		"a parent's limit binds its children": {
			queues: []Queue{queue("a", limit(3)), queue("a1", under("a")), queue("b")}, capacity: 8,
			demand: map[string]int64{"a1": 8, "b": 8}, want: map[string]int64{"a": 3, "a1": 3, "b": 5},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tree, faults := NewTree(1, tt.queues)
			if len(faults) > 0 {
				t.Fatalf("faults: %+v", faults)
			}
			demand := make([]Amounts, tree.Len())
			for name, v := range tt.demand {
				i, _ := tree.Find(name)
				demand[i] = Amounts{v}
			}
			got := make(map[string]int64)
			for i, share := range tree.FairShares(Amounts{tt.capacity}, nil, demand) {
				got[tree.Queue(int32(i)).Name] = share[0]
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("shares (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTreeFaults(t *testing.T) {
	tests := map[string]struct {
		queues     []Queue
		want       []Fault
		wantQueues []string
	}{
		"a missing parent takes what is below out of use": {
			queues:     []Queue{queue("a", under("gone")), queue("b", under("a")), queue("c")},
			wantQueues: []string{"c"},
			want: []Fault{
				{Queue: "a", Kind: FaultMissingParent, Other: "gone"}, {Queue: "b", Kind: FaultMissingParent, Other: "gone"},
			},
		},
		"a cycle": {
			queues:     []Queue{queue("a", under("b")), queue("b", under("a")), queue("c", under("a")), queue("d")},
			wantQueues: []string{"d"},
			want: []Fault{
				{Queue: "a", Kind: FaultCycle, Other: "a"}, {Queue: "b", Kind: FaultCycle, Other: "b"}, {Queue: "c", Kind: FaultCycle, Other: "a"},
			},
		},
		"a parent of itself": {
			queues: []Queue{queue("a", under("a"))},
			want:   []Fault{{Queue: "a", Kind: FaultCycle, Other: "a"}},
		},
		"a quota above the parent's": {
			queues:     []Queue{queue("a", quota(4)), queue("b", under("a"), quota(5))},
			wantQueues: []string{"a", "b"},
			want:       []Fault{{Queue: "b", Kind: FaultQuota, Other: "a"}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tree, faults := NewTree(1, tt.queues)
			if diff := cmp.Diff(tt.want, faults); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			var names []string
			for i := range tree.Len() {
				names = append(names, tree.Queue(int32(i)).Name)
			}
			if diff := cmp.Diff(tt.wantQueues, names); diff != "" {
				t.Errorf("queues (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCarried checks quotas with their carried amounts. There are 8 nodes with 8 GPUs and 80 CPUs
// each, and 8 nodes with 80 CPUs and no GPU.
func TestCarried(t *testing.T) {
	names := []string{"cpu", "gpu", "pods"}
	all := Amounts{1280, 64, 1600}
	carried := NewBundles(names, func(name string) Amounts {
		if name == "gpu" {
			return Amounts{640, 64, 800}
		}
		return all
	})
	for name, tc := range map[string]struct {
		queues []Queue
		want   map[string]Amounts
	}{
		"a part of the GPUs carries that part of what their nodes have": {
			queues: []Queue{queue("a", quota(0, 16)), queue("b")}, want: map[string]Amounts{"a": {160, 16, 200}, "b": {0, 0, 0}},
		},
		"what is named counts": {
			queues: []Queue{queue("a", quota(100, 16)), queue("b")}, want: map[string]Amounts{"a": {100, 16, 200}, "b": {0, 0, 0}},
		},
		"CPUs carry no GPUs": {
			queues: []Queue{queue("a", quota(320))}, want: map[string]Amounts{"a": {320, 0, 400}},
		},
		"nor do places for pods carry anything": {
			queues: []Queue{queue("a", quota(0, 0, 1600))}, want: map[string]Amounts{"a": {0, 0, 1600}},
		},
		"the largest part of what is named": {
			queues: []Queue{queue("a", quota(640, 8)), queue("b", quota(64, 32))}, want: map[string]Amounts{"a": {640, 8, 800}, "b": {64, 32, 400}},
		},
		"more than there is carries all": {
			queues: []Queue{queue("a", quota(0, 1000))}, want: map[string]Amounts{"a": {640, 1000, 800}},
		},
		"no more than the parent's": {
			queues: []Queue{queue("a", quota(100, 32)), queue("b", under("a"), quota(0, 16))}, want: map[string]Amounts{"a": {100, 32, 400}, "b": {100, 16, 200}},
		},
		"of a parent that carries": {
			queues: []Queue{queue("a", quota(0, 16)), queue("b", under("a"), quota(50, 16)), queue("c", under("a"), quota(500, 8))},
			want:   map[string]Amounts{"a": {160, 16, 200}, "b": {160, 16, 200}, "c": {80, 8, 100}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree, _ := NewTree(len(names), tc.queues)
			got := make(map[string]Amounts)
			for i, quota := range tree.quotas(carried) {
				got[tree.Queue(int32(i)).Name] = quota
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("quotas (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSharesOfWhatIsCarried checks that carried amounts are served after all named quotas, and
// before the unclaimed capacity is divided.
func TestSharesOfWhatIsCarried(t *testing.T) {
	capacity := Amounts{100, 10}
	carried := NewBundles([]string{"cpu", "gpu"}, func(string) Amounts { return capacity })
	for name, tc := range map[string]struct {
		queues []Queue
		want   map[string]int64
	}{
		"before what is not claimed": {
			queues: []Queue{queue("a", quota(0, 4), weight(0)), queue("b", ranked(1))}, want: map[string]int64{"a": 40, "b": 60},
		},
		"after what is named": {
			queues: []Queue{queue("a", quota(0, 4), weight(0)), queue("b", quota(90))}, want: map[string]int64{"a": 10, "b": 90},
		},
		"in proportion where there is not enough": {
			queues: []Queue{queue("a", quota(0, 4)), queue("b", quota(0, 2)), queue("c", quota(70))}, want: map[string]int64{"a": 20, "b": 10, "c": 70},
		},
		"and its part of the rest": {
			queues: []Queue{queue("a", quota(0, 4)), queue("b")}, want: map[string]int64{"a": 70, "b": 30},
		},
		"level by level": {
			queues: []Queue{
				queue("a", quota(0, 4), weight(0)), queue("a1", under("a"), quota(0, 4), weight(0)), queue("a2", under("a")), queue("b"),
			},
			want: map[string]int64{"a": 40, "a1": 40, "a2": 0, "b": 60},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree, _ := NewTree(2, tc.queues)
			demand := make([]Amounts, tree.Len())
			for i := range demand {
				demand[i] = capacity
			}
			got := make(map[string]int64)
			for i, share := range tree.FairShares(capacity, carried, demand) {
				got[tree.Queue(int32(i)).Name] = share[0]
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("shares of the CPUs (-want +got):\n%s", diff)
			}
		})
	}
}

// randomTree returns a tree with up to 9 queues on up to 3 levels.
func randomTree(pick func(int) int) *Tree {
	var queues []Queue
	for i := range 2 + pick(8) {
		q := queue(fmt.Sprintf("q%d", i), weight(int64(pick(4))), ranked(int32(pick(2))))
		if i >= 2 && pick(3) > 0 {
			q.Parent = queues[pick(i)].Name
		}
		if pick(2) == 0 {
			q.Quota = Amounts{int64(pick(8))}
		}
		if pick(4) == 0 {
			q.Limit = Amounts{int64(pick(24))}
		}
		queues = append(queues, q)
	}
	tree, _ := NewTree(1, queues)
	return tree
}

// TestFairSharesHold checks the invariants of every division:
//
//   - A queue gets at most its demand and its limit.
//   - Siblings together get at most their parent's share.
//   - All capacity that a queue can use is divided.
//   - Every quota is served if all quotas can be served.
func TestFairSharesHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "n") }
		tree := randomTree(pick)
		demand := make([]Amounts, tree.Len())
		for i := range demand {
			if tree.Leaf(int32(i)) {
				demand[i] = Amounts{int64(pick(30))}
			}
		}
		capacity := int64(pick(60))
		shares, wanted := tree.FairShares(Amounts{capacity}, nil, demand), tree.wanted(demand)
		check := func(siblings []int32, room int64) {
			sum, quotas, hungry := int64(0), int64(0), false
			for _, q := range siblings {
				n, share := &tree.nodes[q], shares[q][0]
				if share < 0 || share > wanted[q] {
					t.Fatalf("queue %s has a share of %d, but asks for %d", n.Name, share, wanted[q])
				}
				sum += share
				quotas += n.Quota[0]
				hungry = hungry || n.Weight > 0 && share < wanted[q]
			}
			if sum > room {
				t.Fatalf("siblings get %d of %d", sum, room)
			}
			if sum < room && hungry {
				t.Fatalf("%d of %d is left over and a queue could have it", room-sum, room)
			}
			for _, q := range siblings {
				if n := &tree.nodes[q]; quotas <= room && shares[q][0] < min(n.Quota[0], wanted[q]) {
					t.Fatalf("queue %s has a share of %d with a quota of %d and a demand of %d", n.Name, shares[q][0], n.Quota[0], wanted[q])
				}
			}
		}
		check(tree.top, capacity)
		for i := range tree.nodes {
			check(tree.nodes[i].children, shares[i][0])
		}
	})
}

// TestSharesOfLargeQuotas checks that queues with equal quotas get equal shares, even if the sum of
// the quotas exceeds an int64.
func TestSharesOfLargeQuotas(t *testing.T) {
	const all = 1 << 40
	var queues []Queue
	for i := range 8 {
		queues = append(queues, queue(fmt.Sprint("q", i), quota(MaxAmount)))
	}
	tree, _ := NewTree(1, queues)
	demand := slices.Repeat([]Amounts{{all}}, tree.Len())
	for i, share := range tree.FairShares(Amounts{all}, nil, demand) {
		if share[0] != all/8 {
			t.Errorf("queue %d has a share of %d, want %d", i, share[0], all/8)
		}
	}
}

func FuzzFairShares(f *testing.F) {
	f.Add(int64(1)<<62, int64(1)<<61, int64(-1), int64(5), int64(1)<<62)
	f.Fuzz(func(t *testing.T, capacity, q1, l1, w1, d1 int64) {
		queues := []Queue{
			queue("a", quota(q1), weight(w1)), queue("b", quota(d1), limit(l1)), queue("c", weight(q1)), queue("d", quota(q1)), queue("e", quota(q1)),
			queue("f", quota(q1)), queue("g", quota(q1)), queue("h", quota(q1), under("g")),
		}
		tree, _ := NewTree(1, queues)
		demand := make([]Amounts, tree.Len())
		for i := range demand {
			demand[i] = Amounts{d1}
		}
		for i, share := range tree.FairShares(Amounts{capacity}, nil, demand) {
			if share[0] < 0 || share[0] > max(capacity, 0) {
				t.Fatalf("queue %d has a share of %d of %d", i, share[0], capacity)
			}
		}
	})
}
