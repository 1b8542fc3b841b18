package simulation

import (
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
	"github.com/reprieve-dev/reprieve/internal/engine"
)

// The following functions handle room: the core's snapshot, reservations, and the limits of queues.

// preemptor describes a job to the core, with only the given pods.
func (s *simulation) preemptor(j *job, pods []*pod) *core.Preemptor {
	p := &core.Preemptor{
		Namespace: j.namespace, Name: j.name, UID: j.uid(), Gang: j.gang, Priority: j.priority, Queue: j.queue,
		Never: j.never || s.policy.Rule == NoPreemption, IgnoresTolerations: s.policy.IgnoresTolerations,
		MinCount: j.minCount, Now: s.now.UnixNano(), MinRuntime: s.policy.MinRuntime, Limits: s.policy.Limits, Order: s.policy.Order,
		CountsStops: s.policy.CountsStops, Bands: s.policy.Bands, Restart: s.policy.Restart, Step: s.policy.Step, PodCost: s.policy.PodCost,
		Cascade: s.policy.Cascade,
	}
	if j.gang {
		p.PodGroup = j.uid()
	}
	if gpu := s.ledger.gpus; gpu.resource >= 0 && gpu.per > 0 {
		p.Devices = make(core.Amounts, len(s.ledger.resources))
		p.Devices[gpu.resource] = max(core.MilliDevices/gpu.per, 1)
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

// decide updates the core's cluster and returns a decision for a job. held is the room that is
// reserved for other jobs.
func (s *simulation) decide(j *job, p *core.Preemptor, held []core.Hold) (core.Decision, error) {
	for _, n := range s.changed {
		if err := s.cluster.SetNode(n.state()); err != nil {
			return core.Decision{}, err
		}
		n.changed = false
	}
	s.changed = s.changed[:0]
	if s.ledger.tree.Len() > 0 {
		standing := s.standing()
		s.cluster.SetQueues(standing.Tree, standing.Shares)
	}
	if s.policy.Rule == KubeScheduler {
		return s.decideByPod(j, p, held)
	}
	d, steps, err := core.DecideCounting(s.cluster.Snapshot(held...), p, recreating{})
	s.decisions++
	s.steps += steps
	return d, err
}

// recreating is the core.Oracle of the simulation. Room is the only filter, and evicted work
// arrives again.
type recreating struct{ core.Arithmetic }

var _ core.Replacer = recreating{}

// Replacement implements core.Replacer. It returns core.ReplacementPreempts for every unit, even
// for work that must not preempt.
func (recreating) Replacement(int) core.Replacement { return core.ReplacementPreempts }

// state returns the node in the form of the core.
func (n *node) state() *core.NodeState {
	st := &core.NodeState{Node: core.Node{Name: n.name, Allocatable: n.allocatable, Free: n.free()}}
	for _, p := range n.pods {
		j := p.job
		described := core.Pod{Namespace: j.namespace, Name: p.uid, UID: p.uid, Request: p.request, Start: j.began.UnixNano(), Progress: j.progress()}
		if p.leaving() {
			st.Leaving = append(st.Leaving, described)
			continue
		}
		st.Pods = append(st.Pods, core.RunningPod{
			Pod: described, Priority: j.victimPriority(), Toleration: j.toleration, Membership: j.membership, Since: j.began.UnixNano(),
			Running: true, Group: j.group,
		})
	}
	return st
}

func (n *node) free() core.Amounts {
	free := slices.Clone(n.allocatable)
	for _, p := range n.pods {
		add(free, p.request, -1)
	}
	return free
}

// promisesOf returns the reservations for the placements of a decision.
func (s *simulation) promisesOf(pods []*pod, d *core.Decision) []reservation {
	if len(d.Placements) == 0 {
		return nil
	}
	byUID := make(map[string]*pod, len(pods))
	for _, p := range pods {
		byUID[p.uid] = p
	}
	promises := make([]reservation, 0, len(d.Placements))
	for _, pl := range d.Placements {
		promises = append(promises, reservation{pod: byUID[pl.UID], node: s.byName[pl.Node]})
	}
	return promises
}

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

// await registers the pods that a job waits for: the victims, and all pods that terminate on the
// nodes of its reservations.
func (s *simulation) await(j *job, d *core.Decision, promises []reservation, victims []*pod) {
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
	// The snapshot lacks the reservations of other jobs. So Shortages may return too few pods.
	s.engine.Waits.WaitForVictims(j.key, uids, s.cluster.Snapshot().Shortages(d))
}

// promise replaces the reservations of a job. If that frees room, it retries the jobs that are
// blocked by reserved room or by their queue.
func (s *simulation) promise(j *job, promises []reservation) {
	old := j.promises
	s.dropPromises(j)
	if j.promises = promises; len(promises) > 0 {
		at, _ := place(s.promised, j)
		s.promised = slices.Insert(s.promised, at, j)
	}
	if len(old) > 0 || len(promises) > 0 && s.ledger.tree.Len() > 0 {
		s.freed++
	}
	if slices.ContainsFunc(old, func(st reservation) bool { return !slices.Contains(promises, st) }) {
		s.step(engine.CauseEnds{Cause: engine.Reserved})
		s.step(engine.CauseEnds{Cause: engine.Queue})
	}
}

// dropPromises removes the reservations of a job. It does not retry other jobs.
func (s *simulation) dropPromises(j *job) {
	j.promises = nil
	if at, ok := place(s.promised, j); ok {
		s.promised = slices.Delete(s.promised, at, at+1)
	}
}

// displace releases the reservations of other jobs on the nodes of a job's new reservations. It
// keeps reservations that take precedence over the job, and reservations of jobs with an eviction
// under way.
func (s *simulation) displace(j *job, promises []reservation) {
	for _, other := range slices.Clone(s.promised) {
		yields := slices.ContainsFunc(other.promises, func(theirs reservation) bool {
			return slices.ContainsFunc(promises, func(st reservation) bool { return st.node == theirs.node })
		})
		if other == j || !yields || s.keepsFrom(other, j) || s.engine.Waits.Evicting(other.key) {
			continue
		}
		s.promise(other, nil)
		s.engine.Waits.ResolveVictims(other.key)
		s.wake(other.key)
	}
}

// keepsFrom reports whether the reservations of the first job take precedence over the second job.
func (s *simulation) keepsFrom(one, other *job) bool {
	if s.ledger.tree.Len() == 0 {
		return one.priority >= other.priority
	}
	return one.standing().KeepsFrom(other.standing())
}

// promises returns the reservations of all jobs except j. A reservation that takes precedence over
// j has its node in the result; see keepsFrom. Any other reservation has no node: j may use the
// room, but the reservation still counts as usage of the queue of its job.
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

// withinLimits returns the first pods of a job that fit together into the limits of its queue. If
// these are fewer than minCount, the job is blocked by its queue.
func (s *simulation) withinLimits(j *job) []*pod {
	n := s.allowed(j)
	if n < j.minCount {
		s.engine.Waits.Wait(j.key, engine.Queue, s.engine.Waits.Mark())
	} else {
		s.engine.Waits.Resolve(j.key, engine.Queue)
	}
	return j.pods[:n]
}

// allowed returns the number of a job's pods that fit into the limits of its queues.
func (s *simulation) allowed(j *job) int {
	tree := s.ledger.tree
	leaf := tree.LeafOf(j.queue)
	if leaf < 0 || !s.ledger.limited {
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

// promisedIn returns the room that is reserved for work in a queue and in the queues below it. It
// omits the reservations of the job except.
func (s *simulation) promisedIn(q int32, except *job) core.Amounts {
	out := make(core.Amounts, s.ledger.tree.Dims())
	for _, j := range s.promised {
		if j != except && s.ledger.isBelow(j.queue, q) {
			for _, st := range j.promises {
				add(out, st.pod.request, 1)
			}
		}
	}
	return out
}

// leaveToOthers drops the reservations of a gang's surplus members that exceed the fair share of
// its queue. It does that only while work of other queues waits for its turn.
func (s *simulation) leaveToOthers(j *job, promises []reservation) []reservation {
	leaf := s.ledger.tree.LeafOf(j.queue)
	if leaf < 0 || len(promises) <= j.minCount || !s.engine.Turns.OthersWait(j.queue, s.now) {
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
		leaf := s.ledger.tree.LeafOf(j.queue)
		if j == except || leaf < 0 {
			continue
		}
		if out[leaf] == nil {
			out[leaf] = make(core.Amounts, s.ledger.tree.Dims())
		}
		for _, st := range j.promises {
			add(out[leaf], st.pod.request, 1)
		}
	}
	return out
}

// atStart starts a job that runs when the simulation begins. on has the node of each pod. ran is
// the time that the job has run before.
func (s *simulation) atStart(j *job, on []string, ran time.Duration) {
	j.turn++
	j.key, j.since = j.identity(), s.now
	s.jobs[j.key] = j
	var promises []reservation
	for i, request := range j.requests {
		p := &pod{job: j, uid: j.podUID(i), request: request}
		j.pods = append(j.pods, p)
		if n := s.byName[on[i]]; n != nil {
			promises = append(promises, reservation{pod: p, node: n})
		}
	}
	j.phase = running
	s.settle(j, promises, s.now.Add(-ran))
	// left includes the running time before the start, because an eviction can lose that progress
	// too.
	switch c := j.crew; {
	case c == nil:
		j.left += ran
	case c.began.Equal(s.now):
		c.began, c.left = s.now.Add(-ran), c.left+ran
	}
}
