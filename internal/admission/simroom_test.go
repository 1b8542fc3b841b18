package admission_test

import (
	"slices"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// The steps of a simulation that have to do with room: the core's picture of it, what is promised, what queues may have.

// preemptor describes some pods of a job to the core.
func (s *simulation) preemptor(j *job, pods []*pod) *core.Preemptor {
	class := core.Class{Request: j.request}
	for i, p := range pods {
		class.Members = append(class.Members, core.Member{Name: p.uid, UID: p.uid, Rank: i})
	}
	p := &core.Preemptor{
		Namespace: j.key.Namespace, Name: j.name, UID: j.uid(), Gang: j.gang, Priority: j.priority, Queue: j.queue,
		MinCount: j.minCount, Now: s.now.UnixNano(), Classes: []core.Class{class},
	}
	if j.gang {
		p.PodGroup = j.uid()
	}
	return p
}

// decide brings the core's cluster up to date, and asks for a decision.
func (s *simulation) decide(p *core.Preemptor, held []core.Hold) core.Decision {
	for _, n := range s.nodes {
		if !n.changed {
			continue
		}
		if err := s.cluster.SetNode(n.state()); err != nil {
			panic(err)
		}
		n.changed = false
	}
	standing := s.standing()
	s.cluster.SetQueues(standing.Tree, standing.Shares)
	d, err := core.Decide(s.cluster.Snapshot(held...), p, core.Arithmetic{})
	if err != nil {
		panic(err)
	}
	return d
}

// state is the node as the core knows it.
func (n *node) state() *core.NodeState {
	st := &core.NodeState{Node: core.Node{Name: n.name, Allocatable: n.allocatable, Free: n.free()}}
	for _, p := range n.pods {
		j := p.job
		described := core.Pod{Namespace: "ns", Name: p.uid, UID: p.uid, Request: j.request, Start: j.began.UnixNano()}
		if p.leaving() {
			st.Leaving = append(st.Leaving, described)
			continue
		}
		st.Pods = append(st.Pods, core.RunningPod{
			Pod: described, Priority: j.priority, Toleration: j.toleration, Membership: j.tenure, Since: j.began.UnixNano(),
			Running: true, Group: j.group,
		})
	}
	return st
}

// free is what the node's pods leave over.
func (n *node) free() core.Amounts {
	free := slices.Clone(n.allocatable)
	for _, p := range n.pods {
		for r, v := range p.job.request {
			free[r] -= v
		}
	}
	return free
}

// promisesOf are the places that a decision has for pods.
func (s *simulation) promisesOf(pods []*pod, d *core.Decision) []promise {
	var promises []promise
	for _, pl := range d.Placements {
		p := pods[slices.IndexFunc(pods, func(p *pod) bool { return p.uid == pl.UID })]
		promises = append(promises, promise{pod: p, node: s.nodes[slices.IndexFunc(s.nodes, func(n *node) bool { return n.name == pl.Node })]})
	}
	return promises
}

// victimsOf finds the pods that a decision takes.
func (s *simulation) victimsOf(d *core.Decision) []*pod {
	var out []*pod
	for i := range d.Victims {
		for _, v := range d.Victims[i].Pods {
			for _, n := range s.nodes {
				if at := slices.IndexFunc(n.pods, func(p *pod) bool { return p.uid == v.UID }); at >= 0 {
					out = append(out, n.pods[at])
				}
			}
		}
	}
	return out
}

// await has a job wait for victims, and for the pods that are leaving the nodes that it is to go to.
func (s *simulation) await(j *job, promises []promise, victims []*pod) {
	var uids []string
	j.awaited = slices.Clone(victims)
	inTheWay := make(map[string]bool)
	goesTo := func(n *node) bool {
		return slices.ContainsFunc(promises, func(st promise) bool { return st.node == n })
	}
	for _, v := range victims {
		uids = append(uids, v.uid)
		if goesTo(v.node) {
			inTheWay[v.uid] = true
		}
	}
	for _, n := range s.nodes {
		for _, p := range n.pods {
			if goesTo(n) && p.leaving() && !slices.Contains(uids, p.uid) {
				uids = append(uids, p.uid)
				j.awaited = append(j.awaited, p)
			}
		}
	}
	s.list.WaitForVictims(j.key, uids, inTheWay)
}

// promise keeps exactly this room for a job. What it had besides goes to others, who are told.
func (s *simulation) promise(j *job, promises []promise) {
	old := j.promises
	j.promises = promises
	if slices.ContainsFunc(old, func(st promise) bool { return !slices.Contains(promises, st) }) {
		s.tryAgain(s.list.End(admission.Reserved)...)
		s.ended(admission.Queue)
	}
}

// displace takes back what is promised on nodes to jobs that do not keep it from this one.
func (s *simulation) displace(j *job, promises []promise) {
	for _, other := range slices.Clone(s.waiting) {
		yields := slices.ContainsFunc(other.promises, func(theirs promise) bool {
			return slices.ContainsFunc(promises, func(st promise) bool { return st.node == theirs.node })
		})
		if other == j || !yields || other.standing().KeepsFrom(j.standing()) || s.list.Evicting(other.key) {
			continue
		}
		s.promise(other, nil)
		s.list.ResolveVictims(other.key)
		s.wake(other.key)
	}
}

// promises is the room that others have been promised: what the job has to leave to them, and what only counts for the
// queues.
func (s *simulation) promises(j *job) []core.Hold {
	var out []core.Hold
	for _, other := range s.waiting {
		if other == j {
			continue
		}
		for _, st := range other.promises {
			switch {
			case other.standing().KeepsFrom(j.standing()):
				out = append(out, core.Hold{Node: st.node.name, Request: other.request, Queue: other.queue})
			case other.queue != "":
				out = append(out, core.Hold{Request: other.request, Queue: other.queue})
			}
		}
	}
	return out
}

// withinLimits are those pods of a job, the first ones, that the limits of its queue leave room for. Where they are too
// few, the job waits for its queue.
func (s *simulation) withinLimits(j *job) []*pod {
	n := s.allowed(j)
	if n < j.minCount {
		s.list.Wait(j.key, admission.Queue, s.list.Mark())
	} else {
		s.list.Resolve(j.key, admission.Queue)
	}
	return j.pods[:n]
}

// allowed is how many pods of a job the limits leave room for.
func (s *simulation) allowed(j *job) int {
	tree, used, n := s.books.tree, s.standing().Allocated, len(j.pods)
	for q := tree.LeafOf(j.queue); q >= 0; q = tree.Parent(q) {
		promised := s.promisedIn(q, j)
		for r, v := range j.request {
			if limit := tree.Queue(q).Limit[r]; v > 0 && limit < fairshare.Unlimited {
				n = min(n, int(max(limit-used[q][r]-promised[r], 0)/v))
			}
		}
	}
	return n
}

// promisedIn is what is promised in a queue and below it, to others than one job.
func (s *simulation) promisedIn(q int32, except *job) core.Amounts {
	out := make(core.Amounts, s.books.tree.Dims())
	for _, j := range s.waiting {
		if len(j.promises) > 0 && j != except && s.books.isBelow(j.queue, q) {
			add(out, j.request, int64(len(j.promises)))
		}
	}
	return out
}

// leaveToOthers leaves the surplus of a gang out that its queue's fair share has no room for, as long as work of other
// queues waits for its turn.
func (s *simulation) leaveToOthers(j *job, promises []promise) []promise {
	if j.queue == "" || len(promises) <= j.minCount || !s.list.OthersWait(j.queue, s.now) {
		return promises
	}
	n := s.standing().Within(s.books.tree.LeafOf(j.queue), slices.Repeat([]core.Amounts{j.request}, len(promises)), s.promisedByLeaf(j))
	return promises[:max(n, j.minCount)]
}

func (s *simulation) promisedByLeaf(except *job) map[int32]core.Amounts {
	out := make(map[int32]core.Amounts)
	for _, j := range s.waiting {
		if leaf := s.books.tree.LeafOf(j.queue); len(j.promises) > 0 && j != except && leaf >= 0 && out[leaf] == nil {
			out[leaf] = s.promisedIn(leaf, except)
		}
	}
	return out
}

// books are the queues, and how they stood when that was worked out last.
type books struct {
	resources []string
	tree      *fairshare.Tree
	// counted counts what shares depend on.
	counted uint64
	last    *standing
}

func (b *books) changed() { b.counted++ }

// isBelow reports whether a leaf is a queue, or below it.
func (b *books) isBelow(leaf string, queue int32) bool {
	for q := b.tree.LeafOf(leaf); q >= 0; q = b.tree.Parent(q) {
		if q == queue {
			return true
		}
	}
	return false
}

// standing is how the queues stand at one moment, and since when they do.
type standing struct {
	fairshare.Standing
	at uint64
	// grown is, by queue, when its share last grew, and lent when some queue last came to have more beyond its own.
	grown []uint64
	lent  uint64
}

// standing works out how the queues stand, after something has changed.
func (s *simulation) standing() *standing {
	b := s.books
	if b.last != nil && b.last.at == b.counted {
		return b.last
	}
	dims := len(b.resources)
	next := &standing{Standing: fairshare.Standing{Tree: b.tree}, at: b.counted, grown: make([]uint64, b.tree.Len())}
	demand, capacity := make([]core.Amounts, b.tree.Len()), make(core.Amounts, dims)
	for q := range demand {
		demand[q] = make(core.Amounts, dims)
		next.Allocated = append(next.Allocated, make(core.Amounts, dims))
	}
	for _, n := range s.nodes {
		add(capacity, n.allocatable, 1)
	}
	for _, j := range s.jobs {
		leaf := b.tree.LeafOf(j.queue)
		for _, p := range j.pods {
			asks := p.charged && !p.terminating || j.phase == pending
			switch {
			case leaf < 0 && p.charged && asks:
				// What is outside the queues is not theirs to share.
				add(capacity, j.request, -1)
			case leaf >= 0 && asks:
				add(demand[leaf], j.request, 1)
			}
			if p.charged && leaf >= 0 {
				for _, q := range b.tree.Path(leaf) {
					add(next.Allocated[q], j.request, 1)
				}
			}
		}
	}
	next.Shares = b.tree.FairShares(capacity, demand)
	next.follow(b.last)
	b.last = next
	return next
}

// follow notes what has changed in favour of those who reclaim.
func (st *standing) follow(old *standing) {
	if old == nil {
		return
	}
	copy(st.grown, old.grown)
	st.lent = old.lent
	for q := range st.grown {
		for r, share := range st.Shares[q] {
			if share > old.Shares[q][r] {
				st.grown[q] = st.at
			}
			if over := st.Allocated[q][r] - share; over > 0 && over > old.Allocated[q][r]-old.Shares[q][r] {
				st.lent = st.at
			}
		}
	}
}

func add(to, amounts core.Amounts, sign int64) {
	for r, v := range amounts {
		to[r] += sign * v
	}
}

// shares are the books as the waiting list reads them.
type shares struct {
	*standing
	resources []string
	promised  map[int32]core.Amounts
}

var _ admission.Shares = (*shares)(nil)

func (s *simulation) shares() *shares {
	return &shares{standing: s.standing(), resources: s.books.resources, promised: s.promisedByLeaf(nil)}
}

// HasLeaf is part of admission.Shares.
func (s *shares) HasLeaf(queue string) bool { return s.Tree.LeafOf(queue) >= 0 }

// Next is part of admission.Shares.
func (s *shares) Next(waiting []string, underway map[string]admission.Request) (string, bool) {
	var leaves []int32
	for _, name := range waiting {
		leaves = append(leaves, s.Tree.LeafOf(name))
	}
	slices.Sort(leaves)
	all := make(map[int32]core.Amounts)
	for leaf, amounts := range s.promised {
		all[leaf] = slices.Clone(amounts)
	}
	for name, request := range underway {
		leaf := s.Tree.LeafOf(name)
		if all[leaf] == nil {
			all[leaf] = make(core.Amounts, len(s.resources))
		}
		add(all[leaf], s.amounts(request), 1)
	}
	next, ok := s.Standing.Next(leaves, all)
	if !ok {
		return "", false
	}
	return s.Tree.Queue(next).Name, true
}

// At is part of admission.Shares.
func (s *shares) At() uint64 { return s.at }

// Listed is part of admission.Shares: the queues stay.
func (s *shares) Listed() uint64 { return 1 }

// Eased is part of admission.Shares.
func (s *shares) Eased(queue string) uint64 {
	eased := s.lent
	for _, q := range s.Tree.Path(s.Tree.LeafOf(queue)) {
		eased = max(eased, s.grown[q])
	}
	return eased
}

// Entitled is part of admission.Shares.
func (s *shares) Entitled(queue string, request admission.Request) bool {
	return s.Standing.Entitled(s.Tree.LeafOf(queue), s.amounts(request))
}

func (s *shares) amounts(request admission.Request) core.Amounts {
	out := make(core.Amounts, len(s.resources))
	for r, name := range s.resources {
		out[r] = request[name]
	}
	return out
}
