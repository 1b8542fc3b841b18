package core

import (
	"cmp"
	"maps"
	"slices"
)

// The references do not share code with the search. They use plain copies of free room, without
// columns, node costs or counting.

// refRoom returns the free room of every node after the terminating pods and the units in the set
// gone are removed.
func refRoom(s *Snapshot, gone map[int]bool) [][]int64 {
	room := make([][]int64, len(s.Nodes))
	for i := range s.Nodes {
		room[i] = slices.Clone(s.Nodes[i].Free)
	}
	give := func(p *Pod) {
		if p.Node < 0 {
			return
		}
		for r, v := range p.Request {
			room[p.Node][r] += v
		}
	}
	for i := range s.Leaving {
		give(&s.Leaving[i])
	}
	for u := range gone {
		for i := range s.Units[u].Pods {
			give(&s.Units[u].Pods[i])
		}
	}
	return room
}

func refFits(request Amounts, room []int64) bool {
	for r, v := range request {
		if v > 0 && v > room[r] {
			return false
		}
	}
	return true
}

// refPack reports whether the given numbers of members of each class fit on the nodes, by
// exhaustive search.
func refPack(p *Preemptor, room [][]int64, nodes []int, counts []int) bool {
	class := -1
	for c, n := range counts {
		if n > 0 {
			class = c
			break
		}
	}
	if class < 0 {
		return true
	}
	if len(nodes) == 0 {
		return false
	}
	// Try 0, 1, 2, ... members of the class on the first node, and all other members in the same
	// way.
	return refNode(p, room, nodes, counts, 0)
}

// refNode tries all numbers of members of class c and later classes on the first node. Then it
// calls refPack for the other nodes.
func refNode(p *Preemptor, room [][]int64, nodes, counts []int, c int) bool {
	if c == len(counts) {
		return refPack(p, room, nodes[1:], counts)
	}
	if refNode(p, room, nodes, counts, c+1) {
		return true
	}
	n := nodes[0]
	if counts[c] == 0 || !refFits(p.Classes[c].Request, room[n]) {
		return false
	}
	for r, v := range p.Classes[c].Request {
		room[n][r] -= v
	}
	counts[c]--
	ok := refNode(p, room, nodes, counts, c)
	counts[c]++
	for r, v := range p.Classes[c].Request {
		room[n][r] += v
	}
	return ok
}

func refNodes(s *Snapshot) []int {
	nodes := make([]int, len(s.Nodes))
	for i := range nodes {
		nodes[i] = i
	}
	slices.SortFunc(nodes, func(a, b int) int { return cmp.Compare(s.Nodes[a].Name, s.Nodes[b].Name) })
	return nodes
}

// refCounts returns the number of needed members of each class: the MinCount members with the
// lowest ranks.
func refCounts(p *Preemptor) []int {
	type rc struct{ rank, class int }
	var all []rc
	for c := range p.Classes {
		for _, m := range p.Classes[c].Members {
			all = append(all, rc{m.Rank, c})
		}
	}
	slices.SortFunc(all, func(a, b rc) int { return cmp.Compare(a.rank, b.rank) })
	counts := make([]int, len(p.Classes))
	for _, m := range all[:p.MinCount] {
		counts[m.class]++
	}
	return counts
}

// refRoles returns the number of members of each role, from the number of members of each class.
func refRoles(p *Preemptor, counts []int) map[string]int {
	out := map[string]int{}
	for c, n := range counts {
		if n > 0 {
			out[p.Classes[c].Role] += n
		}
	}
	return out
}

// refAnyMix reports whether any MinCount members fit, with the needed number of each role.
func refAnyMix(p *Preemptor, room [][]int64, nodes, counts []int, c, left int) bool {
	if c == len(p.Classes) {
		return left == 0 && maps.Equal(refRoles(p, counts), refRoles(p, refCounts(p))) && refPack(p, room, nodes, slices.Clone(counts))
	}
	for n := 0; n <= min(left, len(p.Classes[c].Members)); n++ {
		counts[c] = n
		if refAnyMix(p, room, nodes, counts, c+1, left-n) {
			counts[c] = 0
			return true
		}
	}
	counts[c] = 0
	return false
}

func refEligible(s *Snapshot, p *Preemptor) []int {
	var units []int
	for u := range s.Units {
		tol := s.Units[u].Toleration
		calm := tol != nil && p.Priority < tol.Below && (tol.Until == Forever || p.Now <= tol.Until)
		refused := s.Units[u].RefusedUntil != 0 && p.Now <= s.Units[u].RefusedUntil
		if s.Units[u].Priority < p.Priority && !calm && !s.Units[u].Static && !refused && (p.PodGroup == "" || s.Units[u].PodGroup != p.PodGroup) {
			units = append(units, u)
		}
	}
	return units
}

// refFeasible reports whether the preemptor fits on the nodes after the units in the set gone are
// removed.
func refFeasible(s *Snapshot, p *Preemptor, gone map[int]bool, nodes, counts []int) bool {
	return refPack(p, refRoom(s, gone), nodes, slices.Clone(counts))
}

// refScorer scores sets of victims of one snapshot. It has the facts that do not depend on the set.
type refScorer struct {
	s       *Snapshot
	p       *Preemptor
	indexed Snapshot
	gangs   []refWholeGang
	// losses has the lost work of each unit in milli-device-seconds.
	losses []int64
	// repeated has the stops of each unit that count if it is evicted.
	repeated []int
}

// refWholeGang is a whole gang whose members are preempted one by one.
type refWholeGang struct {
	uid     string
	members []int
	// counted reports whether a member, by its unit, counts for the gang's minCount.
	counted func(u int) bool
}

func newRefScorer(s *Snapshot, p *Preemptor) *refScorer {
	r := &refScorer{
		s: s, p: p, indexed: *s, gangs: refWholeGangs(s),
		losses: make([]int64, len(s.Units)), repeated: make([]int, len(s.Units)),
	}
	r.indexed.gangs = newGangIndex(s)
	for u := range s.Units {
		unit := &s.Units[u]
		r.losses[u] = refLoss(s, p, u)
		if p.CountsStops && refSaved(s, p, u) <= unit.Stops.Last {
			r.repeated[u] = len(unit.Pods) * int(min(unit.Stops.Count, 3))
		}
	}
	return r
}

// score returns the score of a set of victims, by the definition of each criterion.
func (r *refScorer) score(set []int) Score {
	order := slices.Clone(set)
	slices.SortFunc(order, func(a, b int) int { return moreImportant(&r.s.Units[a], &r.s.Units[b]) })
	units := make([]int32, len(order))
	for i, u := range order {
		units[i] = int32(u)
	}
	sc := scoreOf(&r.indexed, units)
	broken := refBrokenOf(r.s, r.gangs, set)
	sc.BrokenGangs = len(broken)
	for u := range r.s.Units {
		unit := &r.s.Units[u]
		stops := !unit.Group && slices.Contains(broken, unit.PodGroup)
		if stops || slices.Contains(set, u) {
			sc.LostWork += r.losses[u]
		}
		if slices.Contains(set, u) {
			sc.Repeated += r.repeated[u]
		}
	}
	return sc
}

// refScore returns the score of one set of victims.
func refScore(s *Snapshot, p *Preemptor, set []int) Score { return newRefScorer(s, p).score(set) }

// refLoss returns the lost work of a unit in milli-device-seconds; 0 if the preemptor's order does
// not compare it.
func refLoss(s *Snapshot, p *Preemptor, u int) (lost int64) {
	unit := &s.Units[u]
	if p.Order != OrderLostWork || unit.Start == 0 {
		return 0
	}
	saved := refSaved(s, p, u)
	for i := range unit.Pods {
		progress, seconds := unit.Pods[i].Progress, max((p.Now-max(unit.Start, saved))/1e9, 0)
		if saved <= unit.Start && progress.Interval > 0 {
			seconds %= progress.Interval / 1e9
		}
		if most, capped := refSilentCap(s, unit); capped && saved <= unit.Start {
			seconds = min(seconds, most/1e9)
		}
		restart := progress.Restart
		switch restart {
		case 0:
			restart = p.Restart
		case NoRestart:
			restart = 0
		}
		if seconds >= p.Step/1e9 {
			lost += p.PodCost / 1e6
		}
		if p.Step > 0 {
			seconds -= seconds % (p.Step / 1e9)
		}
		lost += refDevices(s, p, &unit.Pods[i]) * (seconds + restart/1e9)
	}
	return lost
}

// refSaved returns the time of the latest checkpoint of a unit, or of its whole gang.
func refSaved(s *Snapshot, p *Preemptor, u int) (saved int64) {
	unit := &s.Units[u]
	_, whole := newGangIndex(s)[unit.PodGroup]
	for v := range s.Units {
		of := &s.Units[v]
		if v != u && (of.Group || unit.Group || !whole || of.PodGroup != unit.PodGroup) {
			continue
		}
		for i := range of.Pods {
			for _, at := range []int64{of.Pods[i].Progress.Saved, of.Pods[i].Progress.GroupSaved} {
				if at <= p.Now+60e9 {
					saved = max(saved, min(at, p.Now))
				}
			}
		}
	}
	return saved
}

// refDevices returns the number of milli-devices that a pod counts as.
func refDevices(s *Snapshot, p *Preemptor, pod *Pod) (devices int64) {
	for r, each := range p.Devices {
		devices += each * pod.Request[r]
	}
	if devices > 0 {
		return devices
	}
	for r, name := range s.Resources {
		if all := s.Nodes[pod.Node].Allocatable[r]; all > 0 && (name == "cpu" || name == "memory") {
			devices = max(devices, int64(float64(pod.Request[r])/float64(all)*1000))
		}
	}
	return max(devices, 1)
}

// refSilentCap returns the SilentWorkCap of the unit's own queue, in nanoseconds.
func refSilentCap(s *Snapshot, unit *Unit) (int64, bool) {
	if s.Queues == nil {
		return 0, false
	}
	leaf := s.Queues.Tree.LeafOf(unit.queue())
	if leaf < 0 || s.Queues.Tree.Queue(leaf).SilentWorkCap == nil {
		return 0, false
	}
	return *s.Queues.Tree.Queue(leaf).SilentWorkCap, true
}

// refGangs maps the UID of each gang whose members are preempted one by one to its members.
func refGangs(s *Snapshot) map[string][]int {
	out := map[string][]int{}
	for u := range s.Units {
		if unit := &s.Units[u]; !unit.Group && unit.PodGroup != "" && unit.Membership != nil && unit.Membership.MinCount > 0 {
			out[unit.PodGroup] = append(out[unit.PodGroup], u)
		}
	}
	return out
}

// refWhole reports whether the members that counts selects are at least minCount, with the needed
// number of each role.
func refWhole(s *Snapshot, members []int, counts func(u int) bool) bool {
	all, byRole := 0, map[string]int{}
	for _, u := range members {
		if counts(u) {
			all++
			if r := s.Units[u].Role; r != nil {
				byRole[r.Name]++
			}
		}
	}
	if all < int(s.Units[members[0]].Membership.MinCount) {
		return false
	}
	return !slices.ContainsFunc(members, func(u int) bool {
		r := s.Units[u].Role
		return r != nil && byRole[r.Name] < int(r.Needs)
	})
}

// refWholeGangs returns the whole gangs. A gang counts its running members if there are enough of
// them. Otherwise it counts all members with a node.
func refWholeGangs(s *Snapshot) (gangs []refWholeGang) {
	for uid, members := range refGangs(s) {
		g := refWholeGang{uid, members, func(u int) bool { return s.Units[u].Running }}
		if !refWhole(s, members, g.counted) {
			g.counted = func(int) bool { return true }
		}
		if refWhole(s, members, g.counted) {
			gangs = append(gangs, g)
		}
	}
	return gangs
}

// refBrokenOf returns the UIDs of the given gangs that fall below minCount if the set is evicted.
func refBrokenOf(s *Snapshot, gangs []refWholeGang, set []int) (uids []string) {
	for _, g := range gangs {
		if !refWhole(s, g.members, func(u int) bool { return g.counted(u) && !slices.Contains(set, u) }) {
			uids = append(uids, g.uid)
		}
	}
	slices.Sort(uids)
	return uids
}

// refBroken returns the UIDs of the gangs that fall below minCount if the set is evicted.
func refBroken(s *Snapshot, set []int) []string { return refBrokenOf(s, refWholeGangs(s), set) }

// refSurplus marks the surplus members of gangs, one at a time. Members that do not run come first,
// then the least important members.
func refSurplus(s *Snapshot) {
	for _, members := range refGangs(s) {
		slices.SortFunc(members, func(a, b int) int {
			x, y := &s.Units[a], &s.Units[b]
			if x.Running != y.Running {
				if x.Running {
					return -1
				}
				return 1
			}
			return moreImportant(x, y)
		})
		needed := slices.Clone(members)
		for i := len(members) - 1; i >= 0; i-- {
			unit, ofRole := &s.Units[members[i]], 0
			for _, u := range needed {
				if r := s.Units[u].Role; r != nil && unit.Role != nil && r.Name == unit.Role.Name {
					ofRole++
				}
			}
			if len(needed) > int(unit.Membership.MinCount) && (unit.Role == nil || ofRole > int(unit.Role.Needs)) {
				needed = slices.DeleteFunc(needed, func(u int) bool { return u == members[i] })
				unit.Surplus = true
			}
		}
	}
}

// exhaustive returns the best score, by trying every set of victims.
func exhaustive(s *Snapshot, p *Preemptor, counts []int) (best Score, ok bool) {
	domains := [][]int{refNodes(s)}
	if !p.Gang {
		domains = nil
		for _, n := range refNodes(s) {
			domains = append(domains, []int{n})
		}
	}
	return exhaustiveIn(s, p, counts, domains)
}

// exhaustiveIn is the exhaustive search for a gang whose members must share one of the given
// domains. A domain is a list of nodes.
func exhaustiveIn(s *Snapshot, p *Preemptor, counts []int, domains [][]int) (best Score, ok bool) {
	eligible, scorer := refEligible(s, p), newRefScorer(s, p)
	for mask := range 1 << len(eligible) {
		gone := map[int]bool{}
		var set []int
		for i, u := range eligible {
			if mask&(1<<i) != 0 {
				gone[u] = true
				set = append(set, u)
			}
		}
		sc := scorer.score(set)
		if ok && better(sc, best) >= 0 {
			continue
		}
		if slices.ContainsFunc(domains, func(nodes []int) bool { return refFeasible(s, p, gone, nodes, counts) }) {
			best, ok = sc, true
		}
	}
	return best, ok
}

// plainReference is the algorithm of KEP-5710 with first fit, step by step.
type plainReference struct {
	s      *Snapshot
	p      *Preemptor
	nodes  []int
	counts []int
	gone   map[int]bool
	// placements has the number of members by node and class.
	placements [][]int
}

// schedule places all members by first fit. The class with the larger request comes first. It
// reports whether all members are placed.
func (r *plainReference) schedule() bool {
	room := refRoom(r.s, r.gone)
	r.placements = make([][]int, len(r.s.Nodes))
	for i := range r.placements {
		r.placements[i] = make([]int, len(r.p.Classes))
	}
	for c := range r.p.Classes {
		left := r.counts[c]
		for _, n := range r.nodes {
			for left > 0 && refFits(r.p.Classes[c].Request, room[n]) {
				for k, v := range r.p.Classes[c].Request {
					room[n][k] -= v
				}
				r.placements[n][c]++
				left--
			}
		}
		if left > 0 {
			return false
		}
	}
	return true
}

// stays reports whether the placements still fit if the units in the set gone are evicted.
func (r *plainReference) stays() bool {
	room := refRoom(r.s, r.gone)
	for n := range r.placements {
		for c, count := range r.placements[n] {
			for k, v := range r.p.Classes[c].Request {
				room[n][k] -= v * int64(count)
			}
		}
		for c, count := range r.placements[n] {
			for k, v := range r.p.Classes[c].Request {
				if count > 0 && v > 0 && room[n][k] < 0 {
					return false
				}
			}
		}
	}
	return true
}

// giveBack reprieves units in order and returns the remaining victims.
func (r *plainReference) giveBack(units []int) (victims []int) {
	for _, u := range units {
		delete(r.gone, u)
		if !r.stays() {
			r.gone[u] = true
			victims = append(victims, u)
		}
	}
	return victims
}

// run returns the victims among the potential victims; false if there is no room.
func (r *plainReference) run(potential []int) ([]int, bool) {
	units := slices.Clone(potential)
	slices.SortFunc(units, func(a, b int) int { return moreImportant(&r.s.Units[a], &r.s.Units[b]) })
	r.gone = map[int]bool{}
	for _, u := range units {
		r.gone[u] = true
	}
	if !r.schedule() {
		return nil, false
	}
	left := map[int]int{}
	var violating []int
	for i := range r.s.Budgets {
		left[i] = int(r.s.Budgets[i].Allowed)
	}
	for _, u := range units {
		breaks := false
		for i := range r.s.Units[u].Pods {
			for _, b := range r.s.Units[u].Pods[i].Budgets {
				left[b]--
				breaks = breaks || left[b] < 0
			}
		}
		if breaks {
			violating = append(violating, u)
		}
	}
	r.giveBack(violating)
	var remaining []int
	for _, u := range units {
		if r.gone[u] {
			remaining = append(remaining, u)
		}
	}
	// The ceiling is the lowest priority such that evicting all units up to it makes enough room.
	for i := len(remaining) - 1; i >= 0; i-- {
		ceiling := r.s.Units[remaining[i]].Priority
		r.gone = map[int]bool{}
		var pool []int
		for _, u := range remaining {
			if r.s.Units[u].Priority <= ceiling {
				r.gone[u] = true
				pool = append(pool, u)
			}
		}
		if r.schedule() {
			return r.giveBack(pool), true
		}
	}
	return nil, false
}

// plainAlgorithm runs plainReference for each search domain and returns the best score.
func plainAlgorithm(s *Snapshot, p *Preemptor, counts []int) (best Score, ok bool) {
	domains := [][]int{refNodes(s)}
	if !p.Gang {
		domains = nil
		for _, n := range refNodes(s) {
			domains = append(domains, []int{n})
		}
	}
	for _, nodes := range domains {
		var potential []int
		for _, u := range refEligible(s, p) {
			if slices.ContainsFunc(s.Units[u].Pods, func(pod Pod) bool { return slices.Contains(nodes, pod.Node) }) {
				potential = append(potential, u)
			}
		}
		r := &plainReference{s: s, p: p, nodes: nodes, counts: counts}
		if victims, fits := r.run(potential); fits {
			if sc := refScore(s, p, victims); !ok || better(sc, best) < 0 {
				best, ok = sc, true
			}
		}
	}
	return best, ok
}
