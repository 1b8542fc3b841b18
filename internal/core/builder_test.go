package core

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// build builds a snapshot for a test. nodes maps the name of a node to its index. Adding a pod
// reduces the free room of its node.
type build struct {
	s     Snapshot
	nodes map[string]int
}

func clusterOf(resources ...string) *build {
	return &build{s: Snapshot{Resources: resources}, nodes: map[string]int{}}
}

func amounts(a []int64, dims int) Amounts {
	out := make(Amounts, dims)
	copy(out, a)
	return out
}

func (b *build) node(name string, allocatable ...int64) *build {
	b.nodes[name] = len(b.s.Nodes)
	dims := len(b.s.Resources)
	b.s.Nodes = append(b.s.Nodes, Node{Name: name, Free: amounts(allocatable, dims), Allocatable: amounts(allocatable, dims)})
	return b
}

// podOn returns a pod on a node and subtracts the pod's request from the node's free room.
func (b *build) podOn(name, node string, request ...int64) Pod {
	p := Pod{Namespace: "ns", Name: name, UID: "uid-" + name, Node: -1, Request: amounts(request, len(b.s.Resources))}
	if n, ok := b.nodes[node]; ok {
		p.Node = n
		for r, v := range p.Request {
			b.s.Nodes[n].Free[r] -= v
		}
	}
	return p
}

// unitOption sets fields of a unit.
type unitOption func(u *Unit)

func startedAt(t int64) unitOption {
	return func(u *Unit) {
		u.Start = t
		for i := range u.Pods {
			u.Pods[i].Start = t
		}
	}
}

func isSurplus(surplus bool) unitOption { return func(u *Unit) { u.Surplus = surplus } }

func inPodGroup(uid string) unitOption { return func(u *Unit) { u.PodGroup = uid } }

func withBudget(budgets ...int) unitOption {
	return func(u *Unit) {
		for i := range u.Pods {
			u.Pods[i].Budgets = budgets
		}
	}
}

// pod adds a unit with one pod. request is for the first resource.
func (b *build) pod(name, node string, priority int32, request int64, opts ...unitOption) *build {
	return b.podOf(name, node, priority, []int64{request}, opts...)
}

func (b *build) podOf(name, node string, priority int32, request []int64, opts ...unitOption) *build {
	u := Unit{Namespace: "ns", Name: name, UID: "uid-" + name, Priority: priority, Pods: []Pod{b.podOn(name, node, request...)}}
	for _, o := range opts {
		o(&u)
	}
	b.s.Units = append(b.s.Units, u)
	return b
}

// group adds a PodGroup that is evicted as a whole, with one pod on each given node. request is the
// request of each pod.
func (b *build) group(name string, priority int32, request int64, nodes []string, opts ...unitOption) *build {
	u := Unit{Namespace: "ns", Name: name, UID: "uid-" + name, Group: true, PodGroup: "uid-" + name, Priority: priority}
	for i, n := range nodes {
		u.Pods = append(u.Pods, b.podOn(fmt.Sprintf("%s-%d", name, i), n, request))
	}
	for _, o := range opts {
		o(&u)
	}
	b.s.Units = append(b.s.Units, u)
	return b
}

func (b *build) leaving(name, node string, request ...int64) *build {
	b.s.Leaving = append(b.s.Leaving, b.podOn(name, node, request...))
	return b
}

func (b *build) budget(allowed int32) *build {
	b.s.Budgets = append(b.s.Budgets, Budget{Key: fmt.Sprintf("ns/pdb-%d", len(b.s.Budgets)), Allowed: allowed})
	return b
}

func (b *build) snapshot() *Snapshot { return &b.s }

// members returns a class of count members with consecutive ranks, starting with firstRank.
func members(prefix string, count, firstRank int, request ...int64) Class {
	c := Class{Request: request}
	for i := range count {
		name := fmt.Sprintf("%s-%02d", prefix, i)
		c.Members = append(c.Members, Member{Name: name, UID: "uid-" + name, Rank: firstRank + i})
	}
	return c
}

func podOf(priority int32, request ...int64) *Preemptor {
	return &Preemptor{
		Namespace: "ns", Name: "p", UID: "uid-p", Priority: priority, MinCount: 1,
		Classes: []Class{members("p", 1, 0, request...)},
	}
}

func gangOf(priority int32, minCount int, classes ...Class) *Preemptor {
	return &Preemptor{
		Namespace: "ns", Name: "g", UID: "uid-g", PodGroup: "uid-g", Gang: true,
		Priority: priority, MinCount: minCount, Classes: classes,
	}
}

// chooser returns a number from 0 to n-1. The number comes from rapid, which shrinks failing cases,
// or from a random source.
type chooser func(n int) int

func fromRapid(t *rapid.T) chooser {
	return func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "n") }
}

func fromRand(seed uint64) chooser {
	r := rand.New(rand.NewPCG(seed, 7))
	return func(n int) int { return r.IntN(n) }
}

// randomShape has the maximum sizes and the features of the cases that randomCase returns.
type randomShape struct {
	nodes, units, members, classes int
	gang, groups, budgets, leaving bool
	// tolerations gives some units a toleration. Some of the tolerations end now, others later.
	tolerations bool
	// static makes some pods static pods.
	static bool
	// full adds the maximum number of units on small nodes. Most units have a lower priority than
	// the preemptor.
	full bool
	// gangs makes half of the single pods members of three gangs, which are preempted one by one.
	// Some of the gangs have more members than minCount, others have too few. If whole is true,
	// each gang has exactly minCount members. If gangRoles is true, the members have two roles.
	gangs, whole, gangRoles bool
	// flat gives all units the same priority.
	flat bool
	// roles divides the preemptor's classes into two roles.
	roles bool
	// lost makes the search compare lost work.
	lost bool
	// banded gives the preemptor random priority bands.
	banded bool
	// stopped makes the search compare stops, and gives most units stops.
	stopped bool
}

// inEveryOrder returns each shape by name, and copies of it: with stops, with lost work, with
// bands, with lost work and bands, and with all three.
func inEveryOrder[T any](shapes map[string]T, shapeOf func(*T) *randomShape) map[string]T {
	out := maps.Clone(shapes)
	for name, shape := range shapes {
		shapeOf(&shape).stopped = true
		out[name+", stops"] = shape
		shapeOf(&shape).lost, shapeOf(&shape).banded = true, true
		out[name+", stops, lost work in bands"] = shape
		shapeOf(&shape).stopped, shapeOf(&shape).banded = false, false
		out[name+", lost work"] = shape
		shapeOf(&shape).banded = true
		out[name+", lost work in bands"] = shape
		shapeOf(&shape).lost = false
		out[name+", bands"] = shape
	}
	return out
}

// randomCase returns a small random cluster and a preemptor.
func randomCase(pick chooser, sh randomShape) (*Snapshot, *Preemptor) {
	s, p := randomPriorities(pick, sh)
	if sh.banded {
		p.Bands = randomBands(pick)
	}
	if sh.stopped {
		randomStops(pick, s)
		p.CountsStops = true
	}
	return s, p
}

// randomStops gives most workloads a number of stops. All members of a gang have the same number.
func randomStops(pick chooser, s *Snapshot) {
	ofGang := make(map[string]Stops)
	for u := range s.Units {
		unit := &s.Units[u]
		stops, known := ofGang[unit.PodGroup]
		if !known {
			stops = Stops{Count: int32(pick(6)), Last: int64(pick(someNow))}
		}
		if unit.PodGroup != "" {
			ofGang[unit.PodGroup] = stops
		}
		unit.Stops = stops
	}
}

// randomBands returns up to three bands of the priorities that random cases use.
func randomBands(pick chooser) []Band {
	var out []Band
	for next := int32(pick(3)) - 1; len(out) < 3 && next < 8; {
		band := Band{Min: next, Max: next + int32(pick(4))}
		out, next = append(out, band), band.Max+1+int32(pick(3))
	}
	return out
}

// randomPriorities is like randomCase, but the case has neither bands nor stops.
func randomPriorities(pick chooser, sh randomShape) (*Snapshot, *Preemptor) {
	dims := 1 + pick(2)
	b := clusterOf([]string{"gpu", "cpu"}[:dims]...)
	size := func(most int) []int64 {
		out := make([]int64, dims)
		for r := range out {
			out[r] = int64(pick(most)) + 1
		}
		return out
	}
	n := 1 + pick(sh.nodes)
	for i := range n {
		b.node(fmt.Sprintf("n%d", i), slices.Repeat([]int64{int64(4 + pick(5))}, dims)...)
	}
	if sh.budgets {
		for range 1 + pick(2) {
			b.budget(int32(pick(3)))
		}
	}
	units, lowest := 1+pick(sh.units), 1
	if sh.full {
		units, lowest = sh.units, 5
	}
	for i := range units {
		randomUnit(b, pick, sh, i, n, size)
	}
	if sh.gangs {
		randomGangs(b, pick, sh)
	}
	if sh.leaving {
		for i := range pick(2) {
			node := pick(n)
			if request := size(3); fits(request, b.s.Nodes[node].Free) {
				b.leaving(fmt.Sprintf("l%d", i), fmt.Sprintf("n%d", node), request...)
			}
		}
	}
	if !sh.gang {
		p := podOf(int32(lowest+pick(6)), size(6)...)
		p.Now = someNow
		return sh.countLost(pick, b.snapshot(), p)
	}
	var classes []Class
	total := 0
	for c := range 1 + pick(sh.classes) {
		count := 1 + pick(sh.members)
		classes = append(classes, members(fmt.Sprintf("c%d", c), count, total, size(6)...))
		total += count
	}
	p := gangOf(int32(lowest+pick(6)), max(1+pick(total), min(lowest-1, total)), classes...)
	p.Now = someNow
	for c := range p.Classes {
		if sh.roles && pick(2) == 0 {
			p.Classes[c].Role = "other"
		}
	}
	return sh.countLost(pick, b.snapshot(), p)
}

// countLost makes the search compare lost work if sh.lost is set. Start times become whole seconds.
// Some pods get checkpoints, a few of them in the future, or a cost of a restart. Some units are in
// a queue that limits the lost work.
func (sh *randomShape) countLost(pick chooser, s *Snapshot, p *Preemptor) (*Snapshot, *Preemptor) {
	if sh.lost {
		p.Order, p.Now, p.Devices = OrderLostWork, 20e9, Amounts{1000, 0}[:len(s.Resources)]
		p.Restart = int64(max(pick(6)-3, 0)) * 1e9
		p.Step, p.PodCost = int64(max(pick(8)-3, 0))*1e9, int64(max(pick(8)-4, 0))*2e9
		tree, _ := fairshare.NewTree(len(s.Resources), []fairshare.Queue{queue("silent", silentCap(int64(pick(22))*1e9))})
		s.Queues = &Queues{Tree: tree, Shares: []Amounts{make(Amounts, len(s.Resources))}}
		for u := range s.Units {
			s.Units[u].Start *= 1e9
			if s.Units[u].Membership == nil && pick(4) == 0 {
				s.Units[u].Membership = &QueueMembership{Queue: "silent"}
			}
			for i := range s.Units[u].Pods {
				switch pods := s.Units[u].Pods; pick(7) {
				case 0:
					pods[i].Progress.Saved = int64(pick(23)) * 1e9
				case 3:
					pods[i].Progress = Progress{Saved: 1000e9, GroupSaved: int64(pick(23)) * 1e9, Interval: int64(1+pick(8)) * 1e9}
				case 1:
					pods[i].Progress.Interval = int64(1+pick(8)) * 1e9
				case 2:
					pods[i].Progress.Restart = cmp.Or(int64(pick(8))*1e9, NoRestart)
				}
			}
		}
	}
	return s, p
}

// someNow is the time of the decisions in random cases, in nanoseconds.
const someNow = 5

// randomUnit adds a pod or a group on random nodes with enough room.
func randomUnit(b *build, pick chooser, sh randomShape, i, nodes int, size func(int) []int64) {
	var opts []unitOption
	opts = append(opts, startedAt(int64(pick(4))))
	if sh.budgets && pick(2) == 0 {
		opts = append(opts, withBudget(pick(len(b.s.Budgets))))
	}
	priority, request := int32(pick(6)), size(4)
	if sh.flat {
		priority = 1
	}
	count := 1
	if sh.groups && pick(3) == 0 {
		count = 1 + pick(4)
	}
	u := Unit{
		Namespace: "ns", Name: fmt.Sprintf("u%d", i), UID: fmt.Sprintf("uid-u%d", i), Priority: priority,
		Group: count > 1, Local: count == 1 && i%5 == 0,
	}
	for j := range count {
		n := pick(nodes)
		if fits(request, b.s.Nodes[n].Free) {
			u.Pods = append(u.Pods, b.podOn(fmt.Sprintf("u%d-%d", i, j), fmt.Sprintf("n%d", n), request...))
		}
	}
	if len(u.Pods) == 0 {
		return
	}
	for _, o := range opts {
		o(&u)
	}
	if sh.tolerations && pick(3) == 0 {
		u.Toleration = &Toleration{Below: int32(pick(12)), Until: []int64{someNow - 1, someNow, someNow + 1, someNow + 2, Forever}[pick(5)]}
	}
	u.Surplus = !u.Group && pick(4) == 0
	u.Static = sh.static && !u.Group && pick(6) == 0
	if sh.static && pick(6) == 0 {
		refuse(&u, pick(len(u.Pods)), someNow-1+int64(pick(4)))
	}
	if u.Group && pick(4) == 0 {
		u.Stale, u.Lacks = true, 1+int32(pick(3))
	}
	b.s.Units = append(b.s.Units, u)
}

// randomGangs makes half of the single pods members of gangs that are preempted one by one.
func randomGangs(b *build, pick chooser, sh randomShape) {
	members := make([][]*Unit, 3)
	for u := range b.s.Units {
		if unit := &b.s.Units[u]; !unit.Group && pick(4) > 0 {
			g := pick(len(members))
			members[g] = append(members[g], unit)
		}
	}
	for g, units := range members {
		count, since := len(units), int64(1+pick(someNow))
		membership := &QueueMembership{MinCount: int32(max(count, 1))}
		if !sh.whole {
			membership.MinCount = int32(max(count+pick(3)-1, 1))
		}
		needs := []int32{int32(pick(count + 1)), 0}
		needs[1] = membership.MinCount - needs[0]
		for i, unit := range units {
			unit.PodGroup, unit.GroupName, unit.Membership = fmt.Sprintf("uid-gang%d", g), fmt.Sprintf("gang%d", g), membership
			unit.Priority, unit.Since, unit.Running, unit.Surplus = units[0].Priority, since, sh.whole || pick(4) > 0, false
			unit.Static = false
			if sh.whole || count%4 > 0 {
				// In other worlds, the members belong to groups of a tree in different disruption
				// modes.
				unit.Toleration = units[0].Toleration
			}
			if sh.gangRoles {
				unit.Role = &Role{Name: []string{"head", "worker"}[i%2], Needs: needs[i%2]}
			}
		}
	}
	refSurplus(&b.s)
}

// refuse records that the API server rejected the deletion of one pod of a unit.
func refuse(u *Unit, pod int, until int64) {
	u.Pods[pod].RefusedUntil = until
	u.RefusedUntil = max(u.RefusedUntil, until)
}
