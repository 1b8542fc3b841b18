package core

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// contention is a whole cluster under queues that is played on until nothing changes any more.
type contention struct {
	tree   *Tree
	shares []Amounts
	jobs   []*job
	// demand is what all jobs of each queue ask for.
	demand []Amounts
	// size is how much of each resource every node has.
	size  Amounts
	nodes int
	// reclaims counts what has been reclaimed.
	reclaims int
}

// job is a workload: members of one size that run together or not at all.
type job struct {
	// leaf is "" for a job outside all queues.
	name, leaf string
	priority   int32
	request    Amounts
	members    int
	whole      bool
	// nodes are where the members run; nil while the job waits.
	nodes []int
}

func randomContention(pick chooser) *contention {
	dims := 1 + pick(2)
	c := &contention{tree: randomTree(pick, dims), nodes: 1 + pick(4), size: slices.Repeat(Amounts{8}, dims)}
	var leaves []string
	for i := range c.tree.Len() {
		if c.tree.Leaf(i) {
			leaves = append(leaves, c.tree.Queue(i).Name)
		}
	}
	for i := range 2 + pick(14) {
		j := &job{
			name: fmt.Sprintf("j%d", i), leaf: leaves[pick(len(leaves))], priority: int32(pick(3)),
			members: 1 + pick(4), whole: pick(2) == 0, request: make(Amounts, dims),
		}
		for r := range j.request {
			j.request[r] = int64(pick(7))
		}
		c.jobs = append(c.jobs, j)
	}
	c.demand = make([]Amounts, c.tree.Len())
	for i := range c.demand {
		c.demand[i] = make(Amounts, dims)
	}
	for _, j := range c.jobs {
		leaf, _ := c.tree.Find(j.leaf)
		for range j.members {
			addTo(c.demand[leaf], j.request)
		}
	}
	return c
}

// share divides what the jobs outside all queues leave.
func (c *contention) share() []Amounts {
	if c.demand == nil {
		return c.shares
	}
	capacity := make(Amounts, len(c.size))
	for range c.nodes {
		addTo(capacity, c.size)
	}
	for _, j := range c.jobs {
		if j.leaf == "" {
			for range j.nodes {
				for r, v := range j.request {
					capacity[r] -= v
				}
			}
		}
	}
	return c.tree.FairShares(capacity, c.demand)
}

// snapshot is the cluster with the jobs that run.
func (c *contention) snapshot() *Snapshot {
	b := clusterOf([]string{"gpu", "cpu"}[:len(c.size)]...)
	for i := range c.nodes {
		b.node(fmt.Sprintf("n%d", i), c.size...)
	}
	for _, j := range c.jobs {
		if j.nodes == nil {
			continue
		}
		u := Unit{
			Namespace: "ns", Name: j.name, UID: "uid-" + j.name, Group: j.whole, PodGroup: "uid-" + j.name,
			Priority: j.priority, Tenure: &Tenure{Queue: j.leaf},
		}
		for i, n := range j.nodes {
			pod := b.podOn(fmt.Sprintf("%s-%d", j.name, i), fmt.Sprintf("n%d", n), j.request...)
			if j.whole {
				u.Pods = append(u.Pods, pod)
				continue
			}
			single := u
			single.Name, single.UID, single.Pods = pod.Name, pod.UID, []Pod{pod}
			b.s.Units = append(b.s.Units, single)
		}
		if j.whole {
			b.s.Units = append(b.s.Units, u)
		}
	}
	s := b.snapshot()
	c.shares = c.share()
	s.Queues = &Queues{Tree: c.tree, Shares: c.shares}
	return s
}

// turn lets one waiting job try, and reports whether anything has changed.
func (c *contention) turn(t testing.TB, j *job) bool {
	t.Helper()
	s := c.snapshot()
	p := gangOf(j.priority, j.members, members(j.name, j.members, 0, j.request...))
	p.Name, p.UID, p.PodGroup, p.Queue = j.name, "uid-"+j.name, "uid-"+j.name, j.leaf
	if c.overLimit(s, p) {
		return false
	}
	d := mustDecide(t, s, p, nil)
	if d.Outcome == Infeasible {
		return false
	}
	c.check(t, s, p, &d)
	for i := range d.Victims {
		for _, other := range c.jobs {
			// A gang that loses a member has to start over.
			if name := d.Victims[i].Name; name == other.name || !other.whole && len(name) > len(other.name) && name[:len(other.name)+1] == other.name+"-" {
				other.nodes = nil
			}
		}
	}
	for _, pl := range d.Placements {
		n, err := strconv.Atoi(strings.TrimPrefix(pl.Node, "n"))
		if err != nil {
			t.Fatal(err)
		}
		j.nodes = append(j.nodes, n)
	}
	return true
}

func (c *contention) overLimit(s *Snapshot, p *Preemptor) bool {
	used := usedBy(s, newRoster(s).leaves)
	for q := c.tree.leaf(p.Queue); q >= 0; q = c.tree.nodes[q].parent {
		for r, v := range p.Classes[0].Request {
			limit := c.tree.nodes[q].Limit[r]
			if v > 0 && used[int(q)*c.tree.dims+r]+v*int64(p.MinCount) > limit {
				return true
			}
		}
	}
	return false
}

// check holds a decision to the rules of reclaim, worked out the long way.
func (c *contention) check(t testing.TB, s *Snapshot, p *Preemptor, d *Decision) {
	t.Helper()
	dims := c.tree.dims
	before := usedBy(s, newRoster(s).leaves)
	after := slices.Clone(before)
	var mine []int
	if leaf := c.tree.leaf(p.Queue); leaf >= 0 {
		mine = c.tree.Path(int(leaf))
	}
	for i := range d.Victims {
		v := &d.Victims[i]
		if v.Rule != RuleReclaim {
			if v.Queue != p.Queue && v.Queue != "" && p.Queue != "" || v.Priority >= p.Priority {
				t.Fatalf("%s of %s goes to %s of %s by %s", v.Name, v.Queue, p.Name, p.Queue, v.Rule)
			}
			continue
		}
		c.reclaims++
		for _, pod := range v.Pods {
			for u := range s.Units {
				for k := range s.Units[u].Pods {
					if s.Units[u].Pods[k].UID == pod.UID {
						c.tree.useAmounts(after, c.tree.leaf(v.Queue), s.Units[u].Pods[k].Request, -1)
					}
				}
			}
		}
	}
	for i := range d.Victims {
		v := &d.Victims[i]
		if v.Rule != RuleReclaim {
			continue
		}
		theirs := c.tree.Path(int(c.tree.leaf(v.Queue)))
		top, steps := theirs[0], len(mine)
		for _, q := range theirs {
			if at := slices.Index(mine, q); at >= 0 {
				steps = at
				break
			}
			top = q
			for r := range dims {
				if at := q*dims + r; before[at] > after[at] && after[at] < c.tree.nodes[q].Quota[r] {
					t.Fatalf("queue %s is taken below its quota: %d of %d", c.tree.nodes[q].Name, after[at], c.tree.nodes[q].Quota[r])
				}
			}
		}
		above := false
		for r, want := range p.Classes[0].Request {
			above = above || want > 0 && before[top*dims+r] > c.shares[top][r]
			for _, q := range mine[:steps] {
				if want > 0 && before[q*dims+r]+want*int64(p.MinCount) > c.shares[q][r] {
					t.Fatalf("queue %s reclaims beyond its share", c.tree.nodes[q].Name)
				}
			}
		}
		if !above {
			t.Fatalf("queue %s is taken from, and is not above its share", c.tree.nodes[top].Name)
		}
	}
}

// play lets waiting jobs try until nothing changes any more, and returns how many rounds that took.
func (c *contention) play(t testing.TB) int {
	t.Helper()
	rounds := 0
	for changed := true; changed; rounds++ {
		if rounds > 200 {
			t.Fatalf("still going after %d rounds", rounds)
		}
		changed = false
		for i := range c.jobs {
			// Another start each time, so that different orders are tried.
			j := c.jobs[(i+rounds)%len(c.jobs)]
			for j.nodes == nil && c.turn(t, j) {
				changed = true
			}
		}
	}
	return rounds
}

// TestNoTakingInTurns plays random clusters on until nothing changes any more: it always ends.
func TestNoTakingInTurns(t *testing.T) {
	reclaims, longest := 0, 0
	for seed := range 5 * uint64(*optimalityCases) {
		c := randomContention(fromRand(seed))
		longest = max(longest, c.play(t))
		reclaims += c.reclaims
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d reclaimed, at most %d rounds", reclaims, longest)
	if reclaims == 0 {
		t.Error("nothing was ever reclaimed")
	}
}

// TestNoTakingInTurnsBesideOthers has jobs outside all queues as well, all of them more important than those in queues,
// or all of them less. In between it may go round: the queues' work takes room by priority then that the fair shares
// have given to others.
func TestNoTakingInTurnsBesideOthers(t *testing.T) {
	taken := 0
	for seed := range 5 * uint64(*optimalityCases) {
		pick := fromRand(seed)
		c := randomContention(pick)
		priority := int32(10)
		if pick(2) == 0 {
			priority = -10
		}
		for i := range 1 + pick(6) {
			j := &job{
				name: fmt.Sprintf("k%d", i), priority: priority + int32(pick(3)),
				members: 1 + pick(3), whole: pick(2) == 0, request: make(Amounts, len(c.size)),
			}
			for r := range j.request {
				j.request[r] = int64(pick(7))
			}
			c.jobs = append(c.jobs, j)
		}
		c.play(t)
		taken += c.reclaims
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if taken == 0 {
		t.Error("nothing was ever reclaimed")
	}
}

// TestNoTakingInTurnsForTwoResources is a case that once went on for ever: each queue was over its share of another
// resource, by way of preemption inside the queue.
func TestNoTakingInTurnsForTwoResources(t *testing.T) {
	tree, _ := NewTree(2, []Queue{queue("a"), queue("b")})
	c := &contention{tree: tree, nodes: 1, size: Amounts{8, 8}, shares: []Amounts{{4, 4}, {4, 4}}, jobs: []*job{
		{name: "j0", leaf: "b", priority: 1, request: Amounts{1, 0}, members: 2, nodes: []int{0, 0}},
		{name: "j2", leaf: "b", priority: 2, request: Amounts{0, 1}, members: 2, nodes: []int{0, 0}},
		{name: "j4", leaf: "a", request: Amounts{1, 2}, members: 2, nodes: []int{0, 0}},
		{name: "j8", leaf: "b", priority: 2, request: Amounts{2, 6}, members: 1},
		{name: "j11", leaf: "a", priority: 1, request: Amounts{6, 0}, members: 1},
	}}
	c.play(t)
}
