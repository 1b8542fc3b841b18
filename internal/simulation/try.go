package simulation

import (
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
)

// try makes a decision for a job and carries it out.
func (s *simulation) try(j *job) {
	// 1. Select the pods that fit into the limits of the job's queue.
	pods := s.withinLimits(j)
	if len(pods) < j.minCount {
		s.turnDown(j)
		return
	}
	// 2. Make a decision on a snapshot of the cluster.
	mark := s.engine.Waits.Mark()
	held := s.promises(j)
	p := s.preemptor(j, pods)
	if told := s.known(j); told != nil {
		s.seen.toldTheSame(s, j, p, held)
		s.refuse(j, told, mark)
		return
	}
	d, err := s.decide(j, p, held)
	if err != nil {
		s.fail(err)
		return
	}
	s.seen.decided(s, j, p, &d)
	promises := s.promisesOf(pods, &d)
	// 3. Apply the decision.
	if d.Outcome == core.Infeasible {
		s.refuse(j, s.turnedAway(j, &d, held), mark)
		return
	}
	k := s.kinOf(j)
	if d.Outcome == core.Fits {
		s.place(j, s.leaveToOthers(j, promises))
	} else {
		s.makeRoom(j, &d, promises)
	}
	// A job of the same likeness may find room too, so try the first such job next.
	if next := k.first(s); next != nil {
		s.enqueue(next)
	}
}

// makeRoom reserves room for a job and evicts the decision's victims. The job then waits for
// terminating pods.
func (s *simulation) makeRoom(j *job, d *core.Decision, promises []reservation) {
	news := slices.ContainsFunc(promises, func(st reservation) bool { return !slices.Contains(j.promises, st) })
	s.promise(j, promises)
	s.engine.Waits.Resolve(j.key, engine.Reserved, engine.Protection, engine.ProtectionEnds)
	s.engine.Turns.Decided(j.key)
	if news {
		s.displace(j, promises)
	}
	if d.Outcome == core.Preempts {
		s.evict(j, d, promises, s.victimsOf(d))
	} else {
		s.await(j, d, promises, nil)
	}
}

// turnDown records that the limits of its queue block the job. It releases the job's reservations.
func (s *simulation) turnDown(j *job) {
	s.seen.overLimit(s, j)
	s.engine.Turns.TurnFailed(j.key)
	s.promise(j, nil)
	s.engine.Waits.ResolveVictims(j.key)
}

// refuse records that there is no room for the job. It releases the job's reservations.
func (s *simulation) refuse(j *job, told *noRoom, mark engine.Mark) {
	s.promise(j, nil)
	s.engine.Waits.Resolve(j.key, engine.Reserved, engine.Protection, engine.ProtectionEnds)
	s.engine.Turns.TurnFailed(j.key)
	s.engine.Waits.ResolveVictims(j.key)
	s.tryLater(j, told, mark)
}

// tryLater registers the events that retry a job without room: the release of reserved room, and
// the end of protections. In addition, every pod that leaves a node retries the job.
func (s *simulation) tryLater(j *job, told *noRoom, mark engine.Mark) {
	missed := false
	if told.reserved {
		missed = !s.engine.Waits.Wait(j.key, engine.Reserved, mark)
	}
	if told.retryAt != 0 {
		s.engine.Waits.WaitUntil(j.key, engine.ProtectionEnds, time.Unix(0, told.retryAt))
	}
	if told.retryAt != 0 || told.mayBeLifted {
		missed = !s.engine.Waits.Wait(j.key, engine.Protection, mark) || missed
	}
	if missed {
		s.tryAgain(j.key)
	}
}
