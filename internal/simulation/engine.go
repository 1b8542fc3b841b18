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
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// simulation is a cluster and its scheduler in virtual time: a heap of events, and after each of them what the scheduler
// does about it. Its steps are those of internal/scheduler, by the names that they have there. What decides is the real
// thing: core.Decide, the tree of queues, the waiting list.
//
// Make one with newSimulation, hand it jobs with submit, and run it.
type simulation struct {
	policy Policy
	opts   Options
	random *rand.Rand
	begins time.Time
	now    time.Time
	agenda agenda
	// seen is told of everything that is decided and of every moment that passes.
	seen observer
	// decisions counts the decisions of the core, and steps the steps that they took.
	decisions, steps int
	// failed is what has ended the simulation before its time.
	failed error

	list    *admission.List
	cluster *core.Cluster
	books   *books
	nodes   []*node
	byName  map[string]*node
	// changed are the nodes of which the core's cluster is behind, in the order in which they came to be.
	changed []*node
	// onNodes are the pods that are on nodes, by UID.
	onNodes map[string]*pod
	// jobs are those that are not done, by their present key, and waiting those of them that are pending, by key in order.
	// Those that are promised room are in promised, by key in order; alike has the others by what they ask for.
	jobs     map[workload.Key]*job
	waiting  []*job
	promised []*job
	alike    map[likeness]*kin
	kinds    []*kin
	// freed counts what may have made room for some. turnedDown are the kinds that have been told since refusedAt, as freed
	// counts, that there is none.
	freed, refusedAt uint64
	turnedDown       []*kin
	// ready are the jobs in the scheduler's queue. Its next cycle is on the agenda while cycling is true, and the next
	// tick of its clock while ticking is.
	ready            []*job
	cycling, ticking bool
	// easedAt is how the books stood when queues were last found to have nothing that shares have eased.
	easedAt uint64
	// nextLook is the earliest moment that the loop comes back at because the list has named it; zero for none.
	nextLook time.Time
	// submissions are all that has come, with what became of it.
	submissions []*submission
}

// observer watches a simulation.
type observer interface {
	// passes is told before time goes on.
	passes(s *simulation, until time.Time)
	// decided is told of a decision before it is carried out.
	decided(s *simulation, j *job, p *core.Preemptor, d *core.Decision)
	// toldTheSame is told of a job that is turned down without a decision, because one that asks for less has been.
	toldTheSame(s *simulation, j *job, p *core.Preemptor, held []core.Hold)
	// overLimit is told of a job that its queue leaves no room for.
	overLimit(s *simulation, j *job)
	// settled is told when the scheduler has nothing more to do at this moment.
	settled(s *simulation)
}

const (
	// cycleTime is how long the scheduler takes for one cycle, and callTime for the calls of an eviction.
	cycleTime, callTime = 5 * time.Millisecond, 40 * time.Millisecond
	// shortestGrace is how long pods take at least to end once they are told to.
	shortestGrace = time.Second
)

// newSimulation makes a cluster in which nothing runs, and to which nothing comes yet.
func newSimulation(in *Input, p Policy, o Options, seen observer) *simulation {
	queues := in.Queues
	if p.Rule != ByQueues {
		queues = nil
	}
	tree, _ := fairshare.NewTree(len(in.Resources), queues)
	s := &simulation{
		policy: p, opts: o, random: rand.New(rand.NewPCG(o.Seed, 1)), begins: in.Start, now: in.Start, agenda: newAgenda(), seen: seen,
		list: admission.NewList(), cluster: core.NewCluster(in.Resources), books: newBooks(in, tree),
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

// touch has the core hear of a node before the next decision.
func (s *simulation) touch(n *node) {
	if !n.changed {
		n.changed = true
		s.changed = append(s.changed, n)
	}
}

// frees is touch for a change that may make room.
func (s *simulation) frees(n *node) {
	s.freed++
	s.touch(n)
}

// fail ends the simulation.
func (s *simulation) fail(err error) {
	if s.failed == nil {
		s.failed = err
	}
}

// run has events happen until there are none, or until a moment.
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

// isWanted reports whether the list has something to say.
func (s *simulation) isWanted() bool {
	select {
	case <-s.list.Wanted():
		return true
	default:
		return false
	}
}

// submit has a job come at a moment.
func (s *simulation) submit(j *job, at time.Time) { s.at(at, func() { s.arrive(j) }) }

// arrive has a job's pods created.
func (s *simulation) arrive(j *job) {
	j.turn++
	j.phase, j.since, j.pods, j.began, j.stopped = pending, s.now, nil, time.Time{}, time.Time{}
	j.key = j.identity()
	for i, request := range j.requests {
		j.pods = append(j.pods, &pod{job: j, uid: j.podUID(i), request: request})
	}
	s.jobs[j.key] = j
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

// withdraw has a job that is pending deleted.
func (s *simulation) withdraw(j *job) {
	if j.phase != pending {
		return
	}
	s.goesOn(j, done)
	j.of.ends(s.now)
	s.left(j)
}

// goesOn has a job be pending no more.
func (s *simulation) goesOn(j *job, to phase) {
	if at, ok := s.find(j); ok {
		s.waiting = slices.Delete(s.waiting, at, at+1)
	}
	s.kinOf(j).remove(j)
	j.phase = to
	s.recount(j)
}

// find is where a job stands, or would stand, among those that wait.
func (s *simulation) find(j *job) (int, bool) { return place(s.waiting, j) }

// place is where a job stands, or would stand, among some by key.
func place(jobs []*job, j *job) (int, bool) {
	return slices.BinarySearchFunc(jobs, j, func(a, b *job) int { return a.key.Compare(b.key) })
}

// enqueue is what PreEnqueue does: a job for which room is being made, or whose turn it is not, stays out of the
// scheduler's queue.
func (s *simulation) enqueue(j *job) {
	if s.list.Evicting(j.key) {
		return
	}
	if s.books.tree.Len() > 0 && j.queue != "" {
		switch s.list.TurnOf(j.key, j.queue) {
		case admission.Held:
			return
		case admission.NotEntered:
			s.list.Enter(s.waiter(j), s.now)
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
			request[s.books.resources[r]] += v
		}
	}
	return admission.Waiter{Key: j.key, Queue: j.queue, Priority: j.priority, Since: j.since, Request: request}
}

// look is one round of the scheduler's loop.
func (s *simulation) look() {
	// 1. Those that have waited for this moment.
	due := s.list.Due(s.now)
	keys := make([]workload.Key, len(due))
	for i := range due {
		keys[i] = due[i].Key
	}
	s.wake(keys...)
	// 2. The next turns, unless workloads are still arriving that one event has woken.
	if !s.list.Lull(s.now) && s.list.AnyHeld() {
		for _, key := range s.list.LetThrough(s.shares(), s.now) {
			s.wake(key)
		}
	}
	// 3. Wait until something happens, or the next moment comes.
	if at, ok := s.list.NextLook(s.now); ok && (s.nextLook.IsZero() || at.Before(s.nextLook)) {
		s.nextLook = at
		s.at(at, func() {
			if s.nextLook.Equal(s.now) {
				s.nextLook = time.Time{}
			}
			s.look()
		})
	}
}

// tick is what the loop does besides at regular intervals.
func (s *simulation) tick() {
	s.ticking = false
	if shares := s.shares(); shares.At() != s.easedAt {
		eased := s.list.Eased(shares)
		s.wake(eased...)
		if len(eased) == 0 {
			s.easedAt = shares.At()
		}
	}
	s.look()
	s.tickAgain()
}

// tickAgain has the next tick come, as long as anything waits for its turn.
func (s *simulation) tickAgain() {
	if s.ticking || s.books.tree.Len() == 0 || s.list.Len() == 0 {
		return
	}
	s.ticking = true
	s.after(admission.Interval, s.tick)
}

// wake has workloads try again because something has changed for them.
func (s *simulation) wake(keys ...workload.Key) {
	for _, key := range keys {
		s.list.Rouse(key)
	}
	s.tryAgain(keys...)
}

// tryAgain has workloads try again; one whose turn came to nothing waits for another one first. Of those that are alike
// the first one tries for all of them.
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

// ended wakes the workloads that waited for something which has ended.
func (s *simulation) ended(c admission.Cause) { s.wake(s.list.End(c)...) }

func (s *simulation) cycleAgain() {
	if !s.cycling && len(s.ready) > 0 {
		s.cycling = true
		s.after(cycleTime, s.cycle)
	}
}

// cycle is one cycle of the scheduler, for the most important job in its queue.
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
	if !s.list.TurnAway(j.key) {
		s.try(j)
	}
	s.cycleAgain()
}

// seat is the place of a job in the scheduler's queue.
func (s *simulation) seat(j *job) admission.Seat {
	if seat, ok := s.list.Seat(j.key); ok {
		return seat
	}
	return admission.Seat{Priority: j.priority, Time: j.since}
}
