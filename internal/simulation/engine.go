package simulation

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// simulation is a cluster and its scheduler in virtual time. It processes a heap of events, and
// after each event runs the scheduler. Many of its steps have the name of their counterpart in
// internal/scheduler. The decisions are the same as in production: core.Decide, the queue tree and
// the engine.
//
// Create one with newSimulation, add jobs with submit, and call run.
type simulation struct {
	policy Policy
	opts   Options
	random *rand.Rand
	begins time.Time
	now    time.Time
	agenda agenda
	// seen is called for every decision and whenever time advances.
	seen observer
	// decisions counts the decisions of the core, and steps the steps of their searches.
	decisions, steps int
	// evictedPods counts the pods that were evicted. byReplacements counts the pods among them
	// that were evicted for work that had been evicted itself before.
	evictedPods, byReplacements int
	// failed is the error that ended the simulation early.
	failed error

	engine  *engine.Engine
	cluster *core.Cluster
	ledger  *ledger
	nodes   []*node
	byName  map[string]*node
	// changed are the nodes whose state in the core's cluster is outdated, in the order of their
	// changes.
	changed []*node
	// onNodes has the pods on nodes, by UID.
	onNodes map[string]*pod
	// jobs are the jobs that are not done, by their present key. waiting are the pending jobs,
	// sorted by key.
	jobs    map[workload.Key]*job
	waiting []*job
	// promised are the jobs with a reservation, sorted by key.
	promised []*job
	// alike and kinds hold the kin of all jobs, by likeness and as a list.
	alike map[likeness]*kin
	kinds []*kin
	// freed counts changes that may free room for a job. turnedDown are the kin whose jobs were
	// refused since freed got the value refusedAt.
	freed, refusedAt uint64
	turnedDown       []*kin
	// ready are the jobs in the scheduler's queue. cycling is true while the next cycle is on the
	// agenda, and ticking while the next tick of the scheduler's loop is.
	ready            []*job
	cycling, ticking bool
	// easedAt is the version of the quota ledger when the waiting list last found no job to retry
	// for changed shares.
	easedAt uint64
	// nextLook is the earliest time when the loop runs again because the engine asked for it; zero
	// for none.
	nextLook time.Time
	// submissions are all submissions so far.
	submissions []*submission
}

// observer watches a simulation.
type observer interface {
	// passes is called before time advances.
	passes(s *simulation, until time.Time)
	// decided is called for a decision before it is carried out.
	decided(s *simulation, j *job, p *core.Preemptor, d *core.Decision)
	// toldTheSame is called when a job is refused without a decision because a job that asks for no
	// more was refused.
	toldTheSame(s *simulation, j *job, p *core.Preemptor, held []core.Hold)
	// overLimit is called for a job that does not fit in the limits of its queue.
	overLimit(s *simulation, j *job)
	// settled is called after an event, when the engine has no more work for the loop.
	settled(s *simulation)
}

const (
	// cycleTime is the length of a scheduling cycle. callTime is the base time of an eviction's
	// calls.
	cycleTime, callTime = 5 * time.Millisecond, 40 * time.Millisecond
	// shortestGrace is the shortest time that pods take to terminate.
	shortestGrace = time.Second
)

// newSimulation returns a cluster without jobs.
func newSimulation(in *Input, p Policy, o Options, seen observer) *simulation {
	queues := in.Queues
	if p.Rule != ByQueues {
		queues = nil
	}
	tree, _ := fairshare.NewTree(len(in.Resources), queues)
	s := &simulation{
		policy: p, opts: o, random: rand.New(rand.NewPCG(o.Seed, 1)), begins: in.Start, now: in.Start, agenda: newAgenda(), seen: seen,
		engine: engine.New(nil), cluster: core.NewCluster(in.Resources), ledger: newLedger(in, tree),
		byName: make(map[string]*node), onNodes: make(map[string]*pod),
		jobs: make(map[workload.Key]*job), alike: make(map[likeness]*kin),
	}
	for i := range in.Nodes {
		n := &node{name: in.Nodes[i].Name, allocatable: in.Nodes[i].Allocatable}
		s.nodes = append(s.nodes, n)
		s.byName[n.name] = n
		s.touch(n)
	}
	return s
}

// touch marks a node as changed, so that the core's cluster is updated before the next decision.
func (s *simulation) touch(n *node) {
	if !n.changed {
		n.changed = true
		s.changed = append(s.changed, n)
	}
}

// frees is touch for a change that may free room for pending jobs.
func (s *simulation) frees(n *node) {
	s.freed++
	s.touch(n)
}

// fail ends the simulation with an error.
func (s *simulation) fail(err error) {
	if s.failed == nil {
		s.failed = err
	}
}

// run processes events until a time, or until no event is left.
func (s *simulation) run(ctx context.Context, until time.Time) error {
	for len(s.agenda.Items) > 0 && !s.agenda.Items[0].at.After(until) {
		e := s.agenda.Pop()
		s.seen.passes(s, e.at)
		s.now = e.at
		e.do()
		for s.isWanted() {
			s.look()
		}
		s.seen.settled(s)
		if s.failed != nil {
			return s.failed
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	s.seen.passes(s, until)
	s.now = until
	return nil
}

// isWanted reports whether the engine has work for the loop.
func (s *simulation) isWanted() bool {
	select {
	case <-s.engine.Wanted():
		return true
	default:
		return false
	}
}

// submit schedules the arrival of a job.
func (s *simulation) submit(j *job, at time.Time) { s.at(at, func() { s.arrive(j) }) }

// arrive creates the pods of a job.
func (s *simulation) arrive(j *job) {
	j.turn++
	j.phase, j.since, j.pods, j.began, j.stopped, j.saved = pending, s.now, nil, time.Time{}, time.Time{}, 0
	j.key = j.identity()
	for i, request := range j.requests {
		j.pods = append(j.pods, &pod{job: j, uid: j.podUID(i), request: request})
	}
	s.jobs[j.key] = j
	if j.gang {
		s.step(engine.GroupArrives{Group: j.key})
	} else {
		s.step(engine.PodArrives{Pod: j.pods[0].uid, Key: j.key})
	}
	at, _ := s.find(j)
	s.waiting = slices.Insert(s.waiting, at, j)
	s.kinOf(j).add(j)
	s.recount(j)
	if j.crew == nil || j.crew.began.IsZero() {
		j.of.waits(s.now)
	}
	s.enqueue(j)
	s.tickAgain()
	if turn := j.turn; j.patience > 0 {
		s.after(j.patience, func() {
			if j.turn == turn {
				s.withdraw(j)
			}
		})
	}
}

// withdraw deletes a pending job.
func (s *simulation) withdraw(j *job) {
	if j.phase != pending {
		return
	}
	s.goesOn(j, done)
	j.of.ends(s.now)
	s.left(j)
}

// goesOn moves a job to another phase; the job is no longer pending.
func (s *simulation) goesOn(j *job, to phase) {
	if at, ok := s.find(j); ok {
		s.waiting = slices.Delete(s.waiting, at, at+1)
	}
	s.kinOf(j).remove(j)
	j.phase = to
	s.recount(j)
}

// find returns the index of a job in waiting, or its insertion point, and whether it is there.
func (s *simulation) find(j *job) (int, bool) { return place(s.waiting, j) }

// place returns the index of a job among jobs sorted by key, or its insertion point, and whether it
// is there.
func place(jobs []*job, j *job) (int, bool) {
	return slices.BinarySearchFunc(jobs, j, func(a, b *job) int { return a.key.Compare(b.key) })
}

// enqueue does the work of PreEnqueue. A job with an eviction under way, or without a turn, stays
// gated.
func (s *simulation) enqueue(j *job) {
	if s.engine.Waits.Evicting(j.key) {
		return
	}
	if s.ledger.tree.Len() > 0 && j.queue != "" {
		switch s.engine.Turns.TurnOf(j.key, j.queue) {
		case admission.Held:
			return
		case admission.NotEntered:
			s.engine.Turns.Enter(s.waiter(j), s.now)
			return
		case admission.Admitted:
		}
	}
	j.queued = true
	s.ready = append(s.ready, j)
	s.cycleAgain()
}

func (s *simulation) waiter(j *job) admission.Waiter {
	request := make(admission.Request)
	for _, p := range j.pods[:j.minCount] {
		for r, v := range p.request {
			request[s.ledger.resources[r]] += v
		}
	}
	return admission.Waiter{Key: j.key, Queue: j.queue, Priority: j.priority, Since: j.since, Request: request}
}

// look runs one round of the scheduler's loop.
func (s *simulation) look() {
	// 1. Retry the workloads whose time has come.
	s.step(engine.TimePasses{})
	// 2. Begin the next turns, unless workloads retried by one event still arrive.
	if !s.engine.Turns.IsGathering(s.now) && s.engine.Turns.AnyQueued() {
		for _, key := range s.engine.Turns.Admit(s.shares(), s.now) {
			s.wake(key)
		}
	}
	// 3. Wait until something happens, or the next time comes.
	if at, ok := s.engine.NextLook(s.now); ok && (s.nextLook.IsZero() || at.Before(s.nextLook)) {
		s.nextLook = at
		s.at(at, func() {
			if s.nextLook.Equal(s.now) {
				s.nextLook = time.Time{}
			}
			s.look()
		})
	}
}

// tick runs the part of the scheduler's loop that is due at regular intervals.
func (s *simulation) tick() {
	s.ticking = false
	if shares := s.shares(); shares.At() != s.easedAt {
		eased := s.engine.Turns.RetryForShares(shares)
		s.wake(eased...)
		if len(eased) == 0 {
			s.easedAt = shares.At()
		}
	}
	s.look()
	s.tickAgain()
}

// tickAgain schedules the next tick if there are queues and the engine has workloads.
func (s *simulation) tickAgain() {
	if s.ticking || s.ledger.tree.Len() == 0 || s.engine.Len() == 0 {
		return
	}
	s.ticking = true
	s.after(admission.Interval, s.tick)
}

// wake retries workloads because a change may help them. It ends their back-off.
func (s *simulation) wake(keys ...workload.Key) {
	for _, key := range keys {
		s.engine.Turns.EndBackoff(key)
	}
	s.tryAgain(keys...)
}

// tryAgain retries workloads. A workload whose turn failed waits for another turn first. Among jobs
// that are alike, the first one tries for all of them.
func (s *simulation) tryAgain(keys ...workload.Key) {
	tried := make(map[*kin]bool)
	for _, key := range keys {
		j := s.jobs[key]
		if j == nil || j.phase != pending || j.queued {
			continue
		}
		if len(keys) > 1 && len(j.promises) == 0 {
			if k := s.kinOf(j); tried[k] {
				continue
			} else if first := k.first(s); first != nil {
				tried[k], j = true, first
			}
		}
		s.enqueue(j)
	}
}

// step reports an event to the engine, and carries out the effects.
func (s *simulation) step(ev engine.Event) {
	var keys []workload.Key
	for _, effect := range s.engine.Step(s.now, ev) {
		switch effect := effect.(type) {
		case engine.Retry:
			keys = append(keys, effect.Key)
		case engine.Review:
			// Nothing but the engine's own events makes a reservation invalid.
			s.engine.Turns.EndBackoff(effect.Key)
			keys = append(keys, effect.Key)
		case engine.Withdraw:
			// The simulation has no nominations.
			s.step(engine.RoomFreed(effect))
		}
	}
	s.tryAgain(keys...)
}

func (s *simulation) cycleAgain() {
	if !s.cycling && len(s.ready) > 0 {
		s.cycling = true
		s.after(cycleTime, s.cycle)
	}
}

// cycle runs one scheduling cycle, for the most important job in the scheduler's queue.
func (s *simulation) cycle() {
	s.cycling = false
	if len(s.ready) == 0 {
		return
	}
	next := 0
	first := s.seat(s.ready[0])
	for i, j := range s.ready[1:] {
		seat := s.seat(j)
		if cmp.Or(cmp.Compare(first.Priority, seat.Priority), seat.Time.Compare(first.Time), j.key.Compare(s.ready[next].key)) < 0 {
			next, first = i+1, seat
		}
	}
	j := s.ready[next]
	s.ready = slices.Delete(s.ready, next, next+1)
	j.queued = false
	if !s.engine.Turns.TurnAway(j.key) {
		s.try(j)
	}
	s.cycleAgain()
}

// seat returns the rank of a job in the scheduler's queue.
func (s *simulation) seat(j *job) admission.Position {
	if seat, ok := s.engine.Turns.Position(j.key); ok {
		return seat
	}
	return admission.Position{Priority: j.priority, Time: j.since}
}
