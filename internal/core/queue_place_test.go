package core

import (
	"slices"
	"strings"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// zones divides the nodes into zones. Each job can use only some of the zones.
type zones struct {
	// of is the zone of each node. reach has, by the name of a job, a set of zones as bits: the
	// zones that the job can use.
	of    []int
	reach map[string]uint64
	// markets is the number of decisions with more than one market.
	markets int
}

// inZone is an Oracle that limits members to the nodes of some zones.
type inZone struct {
	Arithmetic
	reach uint64
	of    []int
}

func (z inZone) Admits(_, node int) string {
	if z.reach&(1<<z.of[node]) == 0 {
		return "it is in another zone"
	}
	return ""
}

// judges sets the snapshot's shares to the shares in the job's place. It returns the Oracle for the
// job's members; see fairshare.Place.
func (z *zones) judges(c *contention, s *Snapshot, j *job) Oracle {
	if z == nil {
		return nil
	}
	f, of := z.field(c)
	markets := c.tree.Markets(f, c.carried())
	pools, shares := make([]uint64, len(c.size)), c.tree.Rows()
	for r, by := range markets {
		pools[r] = 1<<len(f.Pools) - 1
		for i := range by {
			if by[i].Counts(of[z.reach[j.name]]) {
				pools[r] = by[i].Pools
			}
		}
		for i := range by {
			if by[i].Pools&pools[r] == 0 {
				z.markets++
				continue
			}
			for q := range shares {
				shares[q][r] += by[i].Shares[q]
			}
		}
	}
	s.ShareIn(shares, func(node string, r int) bool {
		n := slices.IndexFunc(s.Nodes, func(n Node) bool { return n.Name == node })
		return pools[r]&(1<<z.of[n]) != 0
	}, nil)
	return inZone{reach: z.reach[j.name], of: z.of}
}

// field returns the fairshare.Field with one pool for each zone. It also returns the index of each
// class, by the set of pools that the class can use, as bits.
func (z *zones) field(c *contention) (*fairshare.Field, map[uint64]int) {
	f, of := &fairshare.Field{Allocated: c.tree.Rows()}, make(map[uint64]int)
	for range slices.Max(z.of) + 1 {
		f.Pools = append(f.Pools, fairshare.Pool{Capacity: make(Amounts, len(c.size)), Used: make(map[int32]Amounts)})
	}
	for n := range c.nodes {
		addTo(f.Pools[z.of[n]].Capacity, c.size)
	}
	count := func(to map[int32]Amounts, leaf int32, request Amounts) {
		if to[leaf] == nil {
			to[leaf] = make(Amounts, len(c.size))
		}
		addTo(to[leaf], request)
	}
	for _, j := range c.jobs {
		leaf, reach := c.tree.LeafOf(j.leaf), z.reach[j.name]
		class, known := of[reach]
		if !known {
			class = len(f.Classes)
			of[reach] = class
			f.Classes = append(f.Classes, fairshare.Class{Reach: reach, Running: make(map[int32]Amounts), Waiting: make(map[int32]Amounts)})
		}
		for i := range j.members {
			if i >= len(j.nodes) {
				count(f.Classes[class].Waiting, leaf, j.request)
				continue
			}
			count(f.Classes[class].Running, leaf, j.request)
			count(f.Pools[z.of[j.nodes[i]]].Used, leaf, j.request)
			for q := leaf; q >= 0; q = c.tree.Parent(q) {
				addTo(f.Allocated[q], j.request)
			}
		}
	}
	return f, of
}

// TestNoTakingInTurnsBetweenZones is like TestNoTakingInTurns, but each job can use only some of
// the nodes.
func TestNoTakingInTurnsBetweenZones(t *testing.T) {
	reclaims, byQuota, apart, longest := 0, 0, 0, 0
	for seed := range 5 * uint64(*optimalityCases) {
		pick := fromRand(seed)
		c := randomContention(pick)
		z := &zones{reach: make(map[string]uint64)}
		c.nodes++
		for n := range c.nodes {
			z.of = append(z.of, min(n, pick(3)))
		}
		for _, j := range c.jobs {
			z.reach[j.name] = uint64(1 + pick(1<<(slices.Max(z.of)+1)-1))
		}
		c.zones = z
		longest = max(longest, c.play(t))
		reclaims, byQuota, apart = reclaims+c.reclaims, byQuota+c.byQuota, apart+z.markets
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d reclaimed, %d times by quota, %d decisions with nodes apart, at most %d rounds", reclaims, byQuota, apart, longest)
	if reclaims == 0 || byQuota == 0 || apart == 0 {
		t.Error("some never came about")
	}
}

// TestUseElsewhere has the queues b and c with equal ratios of usage to share. Half of c's usage is
// on a node that the preemptor cannot use. This half must not count, so b must lose a unit.
func TestUseElsewhere(t *testing.T) {
	c := clusterOf("gpu").node("n", 4).node("far", 4)
	for i, name := range []string{"b0", "b1"} {
		c.pod(name, "n", 0, 1, inQueue("b"), since(int64(i+1)))
	}
	c.pod("c0", "far", 0, 2, inQueue("c"), since(1)).pod("c1", "n", 0, 1, inQueue("c"), since(1)).pod("c2", "n", 0, 1, inQueue("c"), since(1))
	p := podOf(0, 1)
	p.Queue, p.Now = "a", 100
	s := c.snapshot()
	// The preemptor can use four GPUs. The shares of these GPUs are 1 for a, 1 for b and 2 for c.
	s.Queues = queuesFor(s, []fairshare.Queue{queue("a"), queue("b"), queue("c")})
	s.Queues.Shares = []Amounts{{1}, {1}, {2}}
	s.ShareIn(s.Queues.Shares, func(node string, _ int) bool { return node == "n" }, map[string][]Hold{
		"far": {{Queue: "a", Request: Amounts{1}}},
	})
	d := mustDecide(t, s, p, inZone{reach: 1, of: []int{0, 1}})
	if names := victimNames(&d); len(names) != 1 || !strings.HasPrefix(names[0], "b") {
		t.Errorf("%v are taken, want one of b", names)
	}
}
