package simulation

import (
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// The steps of a simulation that have to do with room: the core's picture of it, what is promised, what queues may have.

// preemptor describes some pods of a job to the core.
func (s *simulation) preemptor(j *job, pods []*pod) *core.Preemptor {
	p := &core.Preemptor{
		Namespace: j.namespace, Name: j.name, UID: j.uid(), Gang: j.gang, Priority: j.priority, Queue: j.queue,
		Never: j.never || s.policy.Rule == NoPreemption, IgnoresTolerations: s.policy.IgnoresTolerations,
		MinCount: j.minCount, Now: s.now.UnixNano(), MinRuntime: s.policy.MinRuntime, Limits: s.policy.Limits,
	}
	if j.gang {
		p.PodGroup = j.uid()
	}
	for i, pod := range pods {
		at := slices.IndexFunc(p.Classes, func(c core.Class) bool { return slices.Equal(c.Request, pod.request) })
		if at < 0 {
			at = len(p.Classes)
			p.Classes = append(p.Classes, core.Class{Request: pod.request})
		}
		p.Classes[at].Members = append(p.Classes[at].Members, core.Member{Name: pod.uid, UID: pod.uid, Rank: i})
	}
	return p
}

// decide brings the core's cluster up to date, and asks for a decision.
func (s *simulation) decide(j *job, p *core.Preemptor, held []core.Hold) (core.Decision, error) {
	for _, n := range s.changed {
		if err := s.cluster.SetNode(n.state()); err != nil {
			return core.Decision{}, err
		}
		n.changed = false
	}
	s.changed = s.changed[:0]
	if s.books.tree.Len() > 0 {
		standing := s.standing()
		s.cluster.SetQueues(standing.Tree, standing.Shares)
	}
	if s.policy.Rule == KubeScheduler {
		return s.decideByPod(j, p, held)
	}
	d, steps, err := core.DecideCounting(s.cluster.Snapshot(held...), p, core.Arithmetic{})
	s.decisions++
	s.steps += steps
	return d, err
}

// state is the node as the core knows it.
func (n *node) state() *core.NodeState {
	st := &core.NodeState{Node: core.Node{Name: n.name, Allocatable: n.allocatable, Free: n.free()}}
	for _, p := range n.pods {
		j := p.job
		described := core.Pod{Namespace: j.namespace, Name: p.uid, UID: p.uid, Request: p.request, Start: j.began.UnixNano()}
		if p.leaving() {
			st.Leaving = append(st.Leaving, described)
			continue
		}
		st.Pods = append(st.Pods, core.RunningPod{
			Pod: described, Priority: j.priority, Toleration: j.toleration, Membership: j.membership, Since: j.began.UnixNano(),
			Running: true, Group: j.group,
		})
	}
	return st
}

// free is what the node's pods leave over.
func (n *node) free() core.Amounts {
	free := slices.Clone(n.allocatable)
	for _, p := range n.pods {
		add(free, p.request, -1)
	}
	return free
}

// promisesOf are the places that a decision has for pods.
func (s *simulation) promisesOf(pods []*pod, d *core.Decision) []promise {
	if len(d.Placements) == 0 {
		return nil
	}
	byUID := make(map[string]*pod, len(pods))
	for _, p := range pods {
		byUID[p.uid] = p
	}
	promises := make([]promise, 0, len(d.Placements))
	for _, pl := range d.Placements {
		promises = append(promises, promise{pod: byUID[pl.UID], node: s.byName[pl.Node]})
	}
	return promises
}

// victimsOf finds the pods that a decision takes.
func (s *simulation) victimsOf(d *core.Decision) []*pod {
	var out []*pod
	for i := range d.Victims {
		for _, v := range d.Victims[i].Pods {
			if p := s.onNodes[v.UID]; p != nil {
				out = append(out, p)
			}
		}
	}
	return out
}

// await has a job wait for victims, and for the pods that are leaving the nodes that it is to go to.
func (s *simulation) await(j *job, d *core.Decision, promises []promise, victims []*pod) {
	var uids []string
	j.awaited = slices.Clone(victims)
	seen := make(map[string]bool)
	for _, v := range victims {
		uids = append(uids, v.uid)
		seen[v.uid] = true
	}
	for _, st := range promises {
		for _, p := range st.node.pods {
			if p.leaving() && !seen[p.uid] {
				seen[p.uid] = true
				uids = append(uids, p.uid)
				j.awaited = append(j.awaited, p)
			}
		}
	}
	// Without what is promised to others, fewer are needed.
	s.list.WaitForVictims(j.key, uids, s.cluster.Snapshot().Needed(d))
}

// promise keeps exactly this room for a job. What it had besides goes to others, who are told.
func (s *simulation) promise(j *job, promises []promise) {
	old := j.promises
	s.dropPromises(j)
	if j.promises = promises; len(promises) > 0 {
		at, _ := place(s.promised, j)
		s.promised = slices.Insert(s.promised, at, j)
	}
	if len(old) > 0 || len(promises) > 0 && s.books.tree.Len() > 0 {
		s.freed++
	}
	if slices.ContainsFunc(old, func(st promise) bool { return !slices.Contains(promises, st) }) {
		s.tryAgain(s.list.End(admission.Reserved)...)
		s.ended(admission.Queue)
	}
}

// dropPromises has a job be promised nothing, of which others need not hear.
func (s *simulation) dropPromises(j *job) {
	j.promises = nil
	if at, ok := place(s.promised, j); ok {
		s.promised = slices.Delete(s.promised, at, at+1)
	}
}

// displace takes back what is promised on nodes to jobs that do not keep it from this one.
func (s *simulation) displace(j *job, promises []promise) {
	for _, other := range slices.Clone(s.promised) {
		yields := slices.ContainsFunc(other.promises, func(theirs promise) bool {
			return slices.ContainsFunc(promises, func(st promise) bool { return st.node == theirs.node })
		})
		if other == j || !yields || s.keepsFrom(other, j) || s.list.Evicting(other.key) {
			continue
		}
		s.promise(other, nil)
		s.list.ResolveVictims(other.key)
		s.wake(other.key)
	}
}

// keepsFrom reports whether what one job has been promised is not free for another.
func (s *simulation) keepsFrom(one, other *job) bool {
	if s.books.tree.Len() == 0 {
		return one.priority >= other.priority
	}
	return one.standing().KeepsFrom(other.standing())
}

// promises is the room that others have been promised: what the job has to leave to them, and what only counts for the
// queues.
func (s *simulation) promises(j *job) []core.Hold {
	var out []core.Hold
	for _, other := range s.promised {
		if other == j {
			continue
		}
		keeps := s.keepsFrom(other, j)
		for _, st := range other.promises {
			switch {
			case keeps:
				out = append(out, core.Hold{Node: st.node.name, Request: st.pod.request, Queue: other.queue})
			case other.queue != "":
				out = append(out, core.Hold{Request: st.pod.request, Queue: other.queue})
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
	tree := s.books.tree
	leaf := tree.LeafOf(j.queue)
	if leaf < 0 || !s.books.limited {
		return len(j.pods)
	}
	allocated := s.standing().Allocated
	var levels []fairshare.Level
	for _, q := range tree.Path(leaf) {
		used := s.promisedIn(q, j)
		add(used, allocated[q], 1)
		levels = append(levels, fairshare.Level{Limit: tree.Queue(q).Limit, Used: used})
	}
	requests := make([]core.Amounts, len(j.pods))
	for i, p := range j.pods {
		requests[i] = p.request
	}
	n, _ := fairshare.Room(levels, requests)
	return n
}

// promisedIn is what is promised in a queue and below it, to others than one job.
func (s *simulation) promisedIn(q int32, except *job) core.Amounts {
	out := make(core.Amounts, s.books.tree.Dims())
	for _, j := range s.promised {
		if j != except && s.books.isBelow(j.queue, q) {
			for _, st := range j.promises {
				add(out, st.pod.request, 1)
			}
		}
	}
	return out
}

// leaveToOthers leaves the surplus of a gang out that its queue's fair share has no room for, as long as work of other
// queues waits for its turn.
func (s *simulation) leaveToOthers(j *job, promises []promise) []promise {
	leaf := s.books.tree.LeafOf(j.queue)
	if leaf < 0 || len(promises) <= j.minCount || !s.list.OthersWait(j.queue, s.now) {
		return promises
	}
	requests := make([]core.Amounts, len(promises))
	for i, st := range promises {
		requests[i] = st.pod.request
	}
	n := s.standing().Within(leaf, requests, s.promisedByLeaf(j))
	return promises[:max(n, j.minCount)]
}

func (s *simulation) promisedByLeaf(except *job) map[int32]core.Amounts {
	out := make(map[int32]core.Amounts)
	for _, j := range s.promised {
		leaf := s.books.tree.LeafOf(j.queue)
		if j == except || leaf < 0 {
			continue
		}
		if out[leaf] == nil {
			out[leaf] = make(core.Amounts, s.books.tree.Dims())
		}
		for _, st := range j.promises {
			add(out[leaf], st.pod.request, 1)
		}
	}
	return out
}

// atStart has work run that ran before the simulation began.
func (s *simulation) atStart(j *job, on []string, ran time.Duration) {
	j.turn++
	j.key, j.since = j.identity(), s.now
	s.jobs[j.key] = j
	var promises []promise
	for i, request := range j.requests {
		p := &pod{job: j, uid: j.podUID(i), request: request}
		j.pods = append(j.pods, p)
		if n := s.byName[on[i]]; n != nil {
			promises = append(promises, promise{pod: p, node: n})
		}
	}
	j.phase = running
	s.settle(j, promises, s.now.Add(-ran))
	// What it has done is to be done again where it is evicted.
	switch c := j.crew; {
	case c == nil:
		j.left += ran
	case c.began.Equal(s.now):
		c.began, c.left = s.now.Add(-ran), c.left+ran
	}
}
