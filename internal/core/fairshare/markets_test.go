package fairshare

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// wants is the running and waiting work of one queue with one reach. reach has bit i set if the
// work can use pool i.
type wants struct {
	queue          string
	reach          uint64
	running, waits int64
	// in is the index of the pool with the running work.
	in int
}

// fieldOf returns a Field with one resource. pools has the capacity of each pool.
func fieldOf(tree *Tree, pools []int64, all []wants) *Field {
	f := &Field{Allocated: tree.Rows()}
	for _, v := range pools {
		f.Pools = append(f.Pools, Pool{Capacity: Amounts{v}, Used: make(map[int32]Amounts)})
	}
	count := func(to map[int32]Amounts, leaf int32, v int64) {
		if to[leaf] == nil {
			to[leaf] = Amounts{0}
		}
		to[leaf][0] += v
	}
	for _, w := range all {
		leaf, _ := tree.Find(w.queue)
		at := slices.IndexFunc(f.Classes, func(c Class) bool { return c.Reach == w.reach })
		if at < 0 {
			at = len(f.Classes)
			f.Classes = append(f.Classes, Class{Reach: w.reach, Running: make(map[int32]Amounts), Waiting: make(map[int32]Amounts)})
		}
		count(f.Classes[at].Waiting, leaf, w.waits)
		if w.running > 0 {
			count(f.Classes[at].Running, leaf, w.running)
			count(f.Pools[w.in].Used, leaf, w.running)
			for q := leaf; q >= 0; q = tree.Parent(q) {
				f.Allocated[q][0] += w.running
			}
		}
	}
	return f
}

// TestMarkets checks the markets of two pools with capacities of 6 (small) and 8 (large).
func TestMarkets(t *testing.T) {
	const small, large, both = 1, 2, 3
	four := func(reach uint64, queues ...string) (out []wants) {
		for _, name := range queues {
			out = append(out, wants{queue: name, reach: reach, waits: 4})
		}
		return out
	}
	for name, tc := range map[string]struct {
		work []wants
		// want has the shares of each market. The key of the outer map is the market's Pools.
		want map[uint64]map[string]int64
	}{
		"all can go anywhere": {
			work: four(both, "a", "b", "c"), want: map[uint64]map[string]int64{both: {"a": 4, "b": 4, "c": 4}},
		},
		"none can go to the large pool": {
			work: four(small, "a", "b", "c"),
			want: map[uint64]map[string]int64{small: {"a": 2, "b": 2, "c": 2}, large: {}},
		},
		"what can is no part of it": {
			work: append(four(small, "a", "b", "c"), wants{queue: "a", reach: large, waits: 8}),
			want: map[uint64]map[string]int64{small: {"a": 2, "b": 2, "c": 2}, large: {"a": 8}},
		},
		"nor what could be in both": {
			work: append(four(small, "a", "b", "c"), wants{queue: "a", reach: both, waits: 8}),
			want: map[uint64]map[string]int64{small: {"a": 2, "b": 2, "c": 2}, large: {"a": 8}},
		},
		"there is enough of each": {
			work: []wants{{queue: "a", reach: small, waits: 6}, {queue: "b", reach: large, waits: 4}},
			want: map[uint64]map[string]int64{both: {"a": 6, "b": 4}},
		},
		"both are short, and nothing connects them": {
			work: append(four(small, "a", "b", "c"), four(large, "a", "b", "c")...),
			want: map[uint64]map[string]int64{small: {"a": 2, "b": 2, "c": 2}, large: {"a": 3, "b": 3, "c": 2}},
		},
		"a backlog that could be in both connects them": {
			work: append(four(small, "b", "c"), wants{queue: "a", reach: both, waits: 100}),
			want: map[uint64]map[string]int64{small: {"b": 3, "c": 3}, large: {"a": 8}},
		},
		"what could be elsewhere counts where it runs": {
			work: []wants{{queue: "a", reach: both, running: 4}, {queue: "b", reach: small, waits: 9}},
			want: map[uint64]map[string]int64{small: {"a": 3, "b": 3}, large: {}},
		},
		"and so does what could be nowhere": {
			work: []wants{{queue: "a", running: 4, in: 0}, {queue: "b", reach: small, waits: 9}},
			want: map[uint64]map[string]int64{small: {"a": 3, "b": 3}, large: {}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree, _ := NewTree(1, []Queue{queue("a"), queue("b"), queue("c")})
			got := make(map[uint64]map[string]int64)
			for _, m := range tree.Markets(fieldOf(tree, []int64{6, 8}, tc.work), nil)[0] {
				got[m.Pools] = make(map[string]int64)
				for q, v := range m.Shares {
					if v > 0 {
						got[m.Pools][tree.Queue(int32(q)).Name] = v
					}
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("markets (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMarketsHold checks three properties of markets:
//
//   - All work can reach its shares at the same time.
//   - If a queue is below its share in total, no pool that it can use has free capacity.
//   - Demand for a new pool does not change the market of work that cannot use this pool.
func TestMarketsHold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		names := []string{"a", "b", "c"}
		var queues []Queue
		for _, name := range names {
			q := queue(name)
			q.Quota = Amounts{int64(rapid.IntRange(0, 3).Draw(rt, "quota"))}
			q.Weight = int64(rapid.IntRange(0, 3).Draw(rt, "weight"))
			queues = append(queues, q)
		}
		tree, _ := NewTree(1, queues)
		var pools []int64
		for range rapid.IntRange(1, 4).Draw(rt, "pools") {
			pools = append(pools, int64(rapid.IntRange(0, 9).Draw(rt, "size")))
		}
		var work []wants
		for range rapid.IntRange(1, 8).Draw(rt, "work") {
			w := wants{
				queue: rapid.SampledFrom(names).Draw(rt, "queue"), reach: uint64(rapid.IntRange(1, 1<<len(pools)-1).Draw(rt, "reach")),
				waits: int64(rapid.IntRange(0, 9).Draw(rt, "waits")), in: rapid.IntRange(0, len(pools)-1).Draw(rt, "in"),
			}
			if w.reach&(1<<w.in) != 0 {
				w.running = min(int64(rapid.IntRange(0, 4).Draw(rt, "runs")), pools[w.in])
			}
			work = append(work, w)
		}
		f := fieldOf(tree, pools, work)
		markets, seen := tree.Markets(f, nil)[0], uint64(0)
		for i := range markets {
			m := &markets[i]
			if m.Pools == 0 || seen&m.Pools != 0 {
				rt.Fatalf("pools %b are in two markets, or in none", m.Pools)
			}
			seen |= m.Pools
			s := &sharing{t: tree, f: f, resource: 0}
			for i := range f.Classes {
				s.asks = append(s.asks, s.asksOf(i))
			}
			if short := s.byShares(m); short != 0 {
				rt.Fatalf("shares %v of the pools %b cannot be had in %b", m.Shares, m.Pools, short)
			}
		}
		if seen != 1<<len(pools)-1 {
			rt.Fatalf("pools %b are in markets, of %d", seen, len(pools))
		}
		// Only the additional work can use the new pool.
		more := fieldOf(tree, append(slices.Clone(pools), 5), append(slices.Clone(work), wants{
			queue: rapid.SampledFrom(names).Draw(rt, "asks for more"), reach: 1 << len(pools), waits: 9,
		}))
		want := make(map[string]bool)
		for i := range markets {
			want[fmt.Sprint(markets[i].Pools, markets[i].Shares)] = true
		}
		for _, m := range tree.Markets(more, nil)[0] {
			if m.Pools&(1<<len(pools)) == 0 && !want[fmt.Sprint(m.Pools, m.Shares)] {
				// rest is the index of the earlier market with the same pools; -1 if there was
				// none.
				rest := slices.IndexFunc(markets, func(o Market) bool { return o.Pools == m.Pools })
				rt.Fatalf("the pools %b are shared as %v, and were not before: %v (%d)", m.Pools, m.Shares, markets, rest)
			}
		}
	})
}
