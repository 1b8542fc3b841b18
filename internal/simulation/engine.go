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
// runs the scheduler after each event. The package comment explains which code it shares with the
// scheduler.
//
// Create one with newSimulation, add jobs with submit, and call run.
type simulation struct {
	policy Policy
	opts   Options
	random *rand.Rand
	begins time.Time
	now    time.Time
	agenda agenda
	// seen is informed of every decision, and whenever time advances.
	seen observer
	// decisions is the number of decisions of the core. steps is the number of steps of their
	// searches.
	decisions, steps int
	// evictedPods is the number of evicted pods. byReplacements is the number of these pods whose
	// preemptor had itself been evicted before.
	evictedPods, byReplacements int
	// failed is the first error. It ends the simulation.
	failed error

	engine  *engine.Engine
	cluster *core.Cluster
	ledger  *ledger
	nodes   []*node
	byName  map[string]*node
	// changed lists the nodes whose state in cluster is outdated, in the order of their changes.
	changed []*node
	// onNodes maps a UID to the pod, for pods on nodes.
	onNodes map[string]*pod
	// jobs maps a key to the job, for jobs that are not done.
	jobs map[workload.Key]*job
	// waiting lists the pending jobs, sorted by key.
	waiting []*job
	// promised lists the jobs that have a reservation, sorted by key.
	promised []*job
	// alike maps a likeness to its kin. kinds lists the same kin.
	alike map[likeness]*kin
	kinds []*kin
	// freed counts the changes that may free room for a job.
	freed, refusedAt uint64
	// turnedDown lists the kin that were refused while freed had the value refusedAt.
	turnedDown []*kin
	// ready lists the jobs in the scheduler's queue.
	ready []*job
	// cycling is true while the agenda has the next scheduling cycle. ticking is true while it has
	// the next tick of the scheduler's loop.
	cycling, ticking bool
	// easedAt is the version of the quota ledger at the last tick that found no job to retry.
	easedAt uint64
	// nextLook is the time of the next round of the scheduler's loop that the engine requested. It
	// is zero if there is none.
	nextLook time.Time
	// submissions lists all submissions so far.
	submissions []*submission
}

// observer is informed of the steps of a simulation.
type observer interface {
	// passes is called before time advances.
	passes(s *simulation, until time.Time)
	// decided is called for a decision before it is carried out.
	decided(s *simulation, j *job, p *core.Preemptor, d *core.Decision)
	// toldTheSame is called when a job is refused without a decision, because the refusal of
	// another job also applies to the job. See known.
	toldTheSame(s *simulation, j *job, p *core.Preemptor, held []core.Hold)
	// overLimit is called for a job that does not fit into the limits of its queue.
	overLimit(s *simulation, j *job)
	// settled is called after each event, when the scheduler's loop has nothing left to do.
	settled(s *simulation)
}

const (
	// cycleTime is the duration of a scheduling cycle. callTime is the base duration of the calls
	// of an eviction.
	cycleTime, callTime = 5 * time.Millisecond, 40 * time.Millisecond
	// shortestGrace is the shortest time that a pod takes to terminate.
	shortestGrace = time.Second
)

// newSimulation returns a simulation without jobs.
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

// touch marks a node as changed. Before the next decision, its state in the core's cluster is
// updated.
func (s *simulation) touch(n *node) {
	if !n.changed {
		n.changed = true
		s.changed = append(s.changed, n)
	}
}

// frees marks a node as changed, like touch, and records that room may have become free.
func (s *simulation) frees(n *node) {
	s.freed++
	s.touch(n)
}

func (s *simulation) fail(err error) {
	if s.failed == nil {
		s.failed = err
	}
}

// run processes events up to a time, or until there are no more events.
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

// isWanted reports whether the engine has requested a round of the scheduler's loop.
func (s *simulation) isWanted() bool {
	select {
	case <-s.engine.Wanted():
		return true
	default:
		return false
	}
}

// submit schedules the arrival of a job at a time.
func (s *simulation) submit(j *job, at time.Time) { s.at(at, func() { s.arrive(j) }) }

// arrive creates the pods of a job, which is pending from now on.
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

// goesOn moves a pending job to another phase.
func (s *simulation) goesOn(j *job, to phase) {
	if at, ok := s.find(j); ok {
		s.waiting = slices.Delete(s.waiting, at, at+1)
	}
	s.kinOf(j).remove(j)
	j.phase = to
	s.recount(j)
}

// find looks for a job in the list waiting. It returns the job's index and true, or the insertion
// point and false.
func (s *simulation) find(j *job) (int, bool) { return place(s.waiting, j) }

// place looks for a job in a list that is sorted by key. It returns the job's index and true, or
// the insertion point and false.
func place(jobs []*job, j *job) (int, bool) {
	return slices.BinarySearchFunc(jobs, j, func(a, b *job) int { return a.key.Compare(b.key) })
}

// enqueue does the work of PreEnqueue: it puts a job into the scheduler's queue. A job that has an
// eviction under way or has no turn stays out of the queue.
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
	// 1. Retry the workloads whose time to retry has come.
	s.step(engine.TimePasses{})
	// 2. Begin the next turns. Delay this while one event may still retry further workloads,
	// because their order counts (see admission.List.IsGathering).
	if !s.engine.Turns.IsGathering(s.now) && s.engine.Turns.AnyQueued() {
		for _, key := range s.engine.Turns.Admit(s.shares(), s.now) {
			s.wake(key)
		}
	}
	// 3. Schedule the next round at the time that the engine requests.
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

// tick does the work of the scheduler's loop that is necessary at regular intervals.
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

// tickAgain schedules the next tick, if there are queues and the engine has workloads.
func (s *simulation) tickAgain() {
	if s.ticking || s.ledger.tree.Len() == 0 || s.engine.Len() == 0 {
		return
	}
	s.ticking = true
	s.after(admission.Interval, s.tick)
}

// wake ends the back-off of workloads and retries them, because a change may help them.
func (s *simulation) wake(keys ...workload.Key) {
	for _, key := range keys {
		s.engine.Turns.EndBackoff(key)
	}
	s.tryAgain(keys...)
}

// tryAgain retries workloads. A workload whose turn failed must wait for another turn first. Of the
// jobs with an equal likeness, only the first one is retried.
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

// step passes an event to the engine and carries out the effects that the engine returns.
func (s *simulation) step(ev engine.Event) {
	var keys []workload.Key
	for _, effect := range s.engine.Step(s.now, ev) {
		switch effect := effect.(type) {
		case engine.Retry:
			keys = append(keys, effect.Key)
		case engine.Review:
			// Review asks the caller to check the job's reservations before the retry. In a
			// simulation, nothing outside the engine makes a reservation invalid, so only retry the
			// job.
			s.engine.Turns.EndBackoff(effect.Key)
			keys = append(keys, effect.Key)
		case engine.Withdraw:
			// The simulation has no nominations, so there is nothing else to remove.
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

// cycle runs a scheduling cycle for the most important job in the scheduler's queue.
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

// seat returns the position of a job in the scheduler's queue.
func (s *simulation) seat(j *job) admission.Position {
	if seat, ok := s.engine.Turns.Position(j.key); ok {
		return seat
	}
	return admission.Position{Priority: j.priority, Time: j.since}
}
