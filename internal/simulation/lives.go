package simulation

import (
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
)

// The following functions apply a decision and its consequences until the end of a job.

// place starts a job on the nodes of its reservations.
func (s *simulation) place(j *job, promises []reservation) {
	s.promise(j, promises)
	s.step(engine.WorkloadPlaced{Key: j.key})
	s.dropPromises(j)
	s.goesOn(j, running)
	s.settle(j, promises, s.now)
	if j.gang {
		s.engine.Turns.TurnEnds(j.key)
	} else {
		s.step(engine.PodBinds{Pod: j.pods[0].uid, Key: j.key, Node: j.pods[0].node.name})
	}
}

// settle puts the pods of a job on nodes. began is the start of the job for the core.
func (s *simulation) settle(j *job, promises []reservation, began time.Time) {
	j.describe(began)
	// The gang runs without the members that found no room.
	spared := j.pods
	j.pods = nil
	for _, st := range promises {
		p := st.pod
		j.pods = append(j.pods, p)
		p.node, p.charged, p.since = st.node, true, s.now
		st.node.pods = append(st.node.pods, p)
		s.onNodes[p.uid] = p
		s.touch(st.node)
	}
	for _, p := range spared {
		if p.node == nil {
			s.ledger.forget(p)
		}
	}
	s.recount(j)
	if j.crew != nil {
		s.joins(j)
		return
	}
	j.of.starts(s.now)
	turn := j.turn
	s.after(j.left, func() {
		if j.phase == running && j.turn == turn {
			s.finish(j)
		}
	})
}

func (s *simulation) finish(j *job) {
	j.phase, j.left = done, 0
	j.of.ends(s.now)
	for _, p := range slices.Clone(j.pods) {
		if p.node != nil {
			p.finished = true
			s.depart(p)
		}
	}
}

// evict evicts victims for a job. The job stays out of the scheduler's queue until the API calls of
// the eviction are complete.
func (s *simulation) evict(j *job, d *core.Decision, promises []reservation, victims []*pod) {
	j.of.preempts()
	for _, v := range victims {
		v.taken = true
		s.frees(v.node)
	}
	s.await(j, d, promises, victims)
	underWay, key, turn := s.engine.Waits.StartEviction(j.key), j.key, j.turn
	fails := s.opts.faulty > 0 && s.random.IntN(100) < s.opts.faulty
	s.after(callTime+time.Duration(len(victims))*time.Millisecond, func() {
		remains := j.phase == pending && j.turn == turn
		if fails {
			s.evictionFailed(j, remains, victims)
		} else {
			before := s.evictedPods
			if s.evicted(victims); turn > 1 {
				s.byReplacements += s.evictedPods - before
			}
		}
		var delay time.Duration
		switch {
		case !fails:
			s.engine.Waits.Succeeded(key)
		case remains:
			delay = s.engine.Waits.Failed(key, engine.Backing{Initial: time.Second, Max: time.Minute})
		}
		if delay > 0 {
			s.engine.Waits.WaitUntil(key, engine.Backoff, s.now.Add(delay))
			s.engine.Waits.EndEviction(underWay)
			return
		}
		s.engine.Waits.EndEviction(underWay)
		if fails || !s.engine.Waits.LeaveToVictims(key, s.now) {
			s.wake(key)
		}
	})
}

// evictionFailed releases the preemptor's reservations and retries the jobs that wait for the
// victims. remains is true if the preemptor is still pending and has not arrived again since the
// decision.
func (s *simulation) evictionFailed(j *job, remains bool, victims []*pod) {
	if remains {
		s.engine.Waits.ResolveVictims(j.key)
		s.promise(j, nil)
	}
	for _, v := range victims {
		v.taken = false
		if v.node == nil || v.leaving() {
			continue
		}
		s.frees(v.node)
		s.step(engine.VictimStays{Pod: v.uid})
	}
}

// evicted starts the termination of the victims. A job with too few remaining pods is stopped as a
// whole.
func (s *simulation) evicted(victims []*pod) {
	for _, v := range victims {
		v.taken = false
		s.terminate(v)
	}
	for _, v := range victims {
		j := v.job
		if staying := len(j.staying()); j.phase != running || staying >= j.minCount && staying > 0 {
			continue
		}
		j.phase, j.stopped = stopping, s.now
		j.countStop(s.now)
		for _, p := range j.pods {
			s.terminate(p)
		}
		if j.crew == nil {
			kept := j.keeps(s.now.Sub(j.began))
			j.left = max(j.left-kept, time.Second)
			j.of.waits(s.now)
		}
	}
}

// keeps returns the part of a running time that an eviction does not lose, because checkpoints have
// saved it.
func (j *job) keeps(ran time.Duration) time.Duration {
	if j.interval > 0 {
		return ran.Truncate(j.interval)
	}
	return min(j.saved, ran)
}

// progress describes to the core how much work of a running job an eviction would lose.
func (j *job) progress() core.Progress {
	p := core.Progress{Interval: int64(j.interval), Restart: int64(j.restart)}
	if j.interval == 0 && j.saved > 0 {
		p.Saved = j.began.Add(j.saved).UnixNano()
	}
	return p
}

// terminate starts the grace period of a pod. The pod leaves its node after a random time.
func (s *simulation) terminate(p *pod) {
	if p.node == nil || p.terminating {
		return
	}
	p.terminating = true
	s.frees(p.node)
	s.recount(p.job)
	p.job.of.evictedPods++
	s.evictedPods++
	if p.job.crew != nil {
		s.leaves(p.job)
	} else {
		ran := s.now.Sub(p.job.began)
		p.job.of.stopped(p, ran, p.job.keeps(ran))
	}
	p.since = s.now
	grace := shortestGrace
	if s.opts.Grace > grace {
		grace += time.Duration(s.random.Int64N(int64(s.opts.Grace - grace)))
	}
	s.after(grace, func() {
		if p.node != nil {
			s.depart(p)
		}
	})
}

// depart removes a pod from its node. The scheduler's queue and the quota ledger are informed of
// the deletion in random order, with a short delay between them.
func (s *simulation) depart(p *pod) {
	s.account(p)
	p.node.pods = slices.DeleteFunc(p.node.pods, func(other *pod) bool { return other == p })
	s.frees(p.node)
	p.node = nil
	delete(s.onNodes, p.uid)
	if s.opts.longestLag == 0 || s.random.IntN(2) == 0 {
		s.deleted(p)
		s.roomFreed(p)
		return
	}
	s.roomFreed(p)
	s.after(time.Duration(s.random.Int64N(int64(s.opts.longestLag))), func() { s.deleted(p) })
}

// account adds the GPU time of a pod since the last call, either as used or as idle.
func (s *simulation) account(p *pod) {
	switch {
	case p.terminating:
		p.job.of.idles(p, s.now.Sub(p.since))
	case p.job.crew == nil:
		p.job.of.works(p, s.now.Sub(p.since))
	}
}

// deleted removes a pod from the quota ledger. It retries workloads that are blocked by their
// queue, and workloads that wait for the pod.
func (s *simulation) deleted(p *pod) {
	p.charged = false
	s.recount(p.job)
	if p.job.queue != "" {
		s.step(engine.CauseEnds{Cause: engine.Queue})
	}
	s.step(engine.VictimGone{Pod: p.uid})
	if !slices.ContainsFunc(p.job.pods, func(other *pod) bool { return other.charged }) {
		s.left(p.job)
	}
}

// roomFreed does the work of the scheduler's queue after a pod has left its node. It retries all
// workloads that found no room, except workloads that another workload of equal likeness
// represents.
func (s *simulation) roomFreed(p *pod) {
	for _, j := range slices.Clone(s.promised) {
		if j.phase != pending || j.queued || s.engine.Turns.Holds(j.key) || s.engine.Waits.Evicting(j.key) {
			continue
		}
		if awaited, worthIt := s.engine.Waits.GoneFor(j.key, p.uid); !awaited || worthIt {
			s.enqueue(j)
		}
	}
	for _, k := range s.kinds {
		if first := k.first(s); first != nil {
			s.enqueue(first)
		}
	}
}

// left removes a job that has no pods on nodes any more. A preempted job arrives again.
func (s *simulation) left(j *job) {
	if j.gang {
		s.step(engine.GroupLeaves{Group: j.key})
	} else {
		s.step(engine.PodLeaves{Pod: j.podUID(0), Key: j.key})
	}
	s.promise(j, nil)
	delete(s.jobs, j.key)
	for _, p := range j.pods {
		s.ledger.forget(p)
	}
	if j.queued {
		j.queued = false
		s.ready = slices.DeleteFunc(s.ready, func(other *job) bool { return other == j })
	}
	if j.phase == stopping {
		s.arrive(j)
		return
	}
	if first := s.kinOf(j).first(s); first != nil {
		s.enqueue(first)
	}
}
