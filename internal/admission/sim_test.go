package admission_test

import (
	"bytes"
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// simulation is a cluster and its scheduler in virtual time: a heap of events, and after each of them what the scheduler
// does about it. Its steps are those of internal/scheduler, by the names that they have there. What decides is the real
// thing: core.Decide, the tree of queues, the waiting list.
//
// Make one with newSimulation, hand it jobs with submit, and run it.
type simulation struct {
	random *rand.Rand
	now    time.Time
	agenda agenda
	// seen is told of everything that is decided and of every moment that passes.
	seen observer

	list    *admission.List
	cluster *core.Cluster
	books   *books
	nodes   []*node
	// jobs are those that are not done, by their present key, and waiting those of them that are pending, by key in order.
	jobs    map[workload.Key]*job
	waiting []*job
	// ready are the jobs in the scheduler's queue. Its next cycle is on the agenda while cycling is true, and the next
	// tick of its clock while ticking is.
	ready            []*job
	cycling, ticking bool
	// nextLook is the earliest moment that the loop comes back at because the list has named it; zero for none.
	nextLook time.Time
	// faulty is how many of a hundred evictions come to nothing because their calls fail.
	faulty int
	// log has a line for each decision.
	log bytes.Buffer
}

// observer watches a simulation.
type observer interface {
	// passes is told before time goes on.
	passes(s *simulation, until time.Time)
	// decided is told of a decision before it is carried out.
	decided(s *simulation, j *job, p *core.Preemptor, d *core.Decision)
	// settled is told when the scheduler has nothing more to do at this moment.
	settled(s *simulation)
}

const (
	// cycleTime is how long the scheduler takes for one cycle, and callTime for the calls of an eviction.
	cycleTime, callTime = 5 * time.Millisecond, 40 * time.Millisecond
	// longestGrace is how long pods take at most to end once they are told to.
	longestGrace = time.Minute
	// longestLag is how much later than the scheduler's queue the books hear of a pod that has gone.
	longestLag = 500 * time.Millisecond
)

// event is something that happens at a moment; those of one moment happen in the order in which they were put down.
type event struct {
	at    time.Time
	order int
	do    func()
}

// agenda is a heap of events.
type agenda struct {
	events []event
	count  int
}

// Len is part of heap.Interface.
func (a *agenda) Len() int { return len(a.events) }

// Less is part of heap.Interface.
func (a *agenda) Less(i, k int) bool {
	x, y := &a.events[i], &a.events[k]
	return cmp.Or(x.at.Compare(y.at), cmp.Compare(x.order, y.order)) < 0
}

// Swap is part of heap.Interface.
func (a *agenda) Swap(i, k int) { a.events[i], a.events[k] = a.events[k], a.events[i] }

// Push is part of heap.Interface.
func (a *agenda) Push(x any) {
	if e, ok := x.(event); ok {
		a.events = append(a.events, e)
	}
}

// Pop is part of heap.Interface.
func (a *agenda) Pop() any {
	last := a.events[len(a.events)-1]
	a.events = a.events[:len(a.events)-1]
	return last
}

// at puts something on the agenda.
func (s *simulation) at(when time.Time, do func()) {
	s.agenda.count++
	heap.Push(&s.agenda, event{at: when, order: s.agenda.count, do: do})
}

func (s *simulation) after(d time.Duration, do func()) { s.at(s.now.Add(d), do) }

// newSimulation makes a cluster of equal nodes, which is empty.
func newSimulation(seed uint64, start time.Time, nodes int, allocatable core.Amounts, b *books, seen observer) *simulation {
	s := &simulation{
		random: rand.New(rand.NewPCG(seed, 1)), now: start, seen: seen, list: admission.NewList(),
		cluster: core.NewCluster(b.resources), books: b, jobs: make(map[workload.Key]*job),
	}
	for i := range nodes {
		s.nodes = append(s.nodes, &node{name: fmt.Sprintf("node-%02d", i), allocatable: allocatable, changed: true})
	}
	return s
}

// run has events happen until there are none, or until a moment.
func (s *simulation) run(until time.Time) {
	for s.agenda.Len() > 0 && !s.agenda.events[0].at.After(until) {
		e, _ := heap.Pop(&s.agenda).(event)
		s.seen.passes(s, e.at)
		s.now = e.at
		e.do()
		for s.isWanted() {
			s.look()
		}
		s.seen.settled(s)
	}
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
	j.key = workload.Key{Gang: j.gang, Namespace: "ns", Name: j.name}
	if !j.gang {
		j.key.UID = j.uid()
	}
	for i := range j.members {
		j.pods = append(j.pods, &pod{job: j, uid: fmt.Sprintf("%s-%d", j.uid(), i)})
	}
	s.jobs[j.key] = j
	at, _ := s.find(j)
	s.waiting = slices.Insert(s.waiting, at, j)
	s.books.changed()
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
	s.left(j)
}

// goesOn has a job be pending no more.
func (s *simulation) goesOn(j *job, to phase) {
	if at, ok := s.find(j); ok {
		s.waiting = slices.Delete(s.waiting, at, at+1)
	}
	j.phase = to
	s.books.changed()
}

// find is where a job stands, or would stand, among those that wait.
func (s *simulation) find(j *job) (int, bool) {
	return slices.BinarySearchFunc(s.waiting, j, func(a, b *job) int { return a.key.Compare(b.key) })
}

// enqueue is what PreEnqueue does: a job for which room is being made, or whose turn it is not, stays out of the
// scheduler's queue.
func (s *simulation) enqueue(j *job) {
	if s.list.Evicting(j.key) {
		return
	}
	if j.queue != "" {
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
	for r, v := range j.request {
		request[s.books.resources[r]] = v * int64(j.minCount)
	}
	return admission.Waiter{Key: j.key, Queue: j.queue, Priority: j.priority, Since: j.since, Request: request}
}

// look is one round of the scheduler's loop.
func (s *simulation) look() {
	// 1. Those that have waited for this moment.
	for _, due := range s.list.Due(s.now) {
		s.wake(due.Key)
	}
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
	for _, key := range s.list.Eased(s.shares()) {
		s.wake(key)
	}
	s.list.Untold(s.now)
	s.look()
	s.tickAgain()
}

// tickAgain has the next tick come, as long as anything waits.
func (s *simulation) tickAgain() {
	if s.ticking || s.list.Len() == 0 {
		return
	}
	s.ticking = true
	s.after(admission.Interval, s.tick)
}

// wake has a workload try again because something has changed for it.
func (s *simulation) wake(key workload.Key) {
	s.list.Rouse(key)
	s.tryAgain(key)
}

// tryAgain has workloads try again; one whose turn came to nothing waits for another one first.
func (s *simulation) tryAgain(keys ...workload.Key) {
	for _, key := range keys {
		if j := s.jobs[key]; j != nil && j.phase == pending && !j.queued {
			s.enqueue(j)
		}
	}
}

// ended wakes the workloads that waited for something which has ended.
func (s *simulation) ended(c admission.Cause) {
	for _, key := range s.list.End(c) {
		s.wake(key)
	}
}

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
	for i, j := range s.ready {
		first, seat := s.seat(s.ready[next]), s.seat(j)
		if cmp.Or(cmp.Compare(first.Priority, seat.Priority), seat.Time.Compare(first.Time), j.key.Compare(s.ready[next].key)) < 0 {
			next = i
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

// try decides for one job, and carries that out.
func (s *simulation) try(j *job) {
	// 1. What the limits of its queue leave room for.
	pods := s.withinLimits(j)
	if len(pods) < j.minCount {
		s.turnDown(j)
		return
	}
	// 2. The decision, in a picture of the cluster.
	mark := s.list.Mark()
	held := s.promises(j)
	p := s.preemptor(j, pods)
	d := s.decide(p, held)
	s.write(j, &d)
	s.seen.decided(s, j, p, &d)
	promises := s.promisesOf(pods, &d)
	// 3. Carry it out.
	switch d.Outcome {
	case core.Fits:
		s.place(j, s.leaveToOthers(j, promises))
	case core.Infeasible:
		s.promise(j, nil)
		s.list.Resolve(j.key, admission.Reserved, admission.Protection, admission.ProtectionEnds)
		s.list.CameToNothing(j.key)
		s.list.ResolveVictims(j.key)
		s.tryLater(j, &d, mark, held)
	case core.Waits, core.Preempts:
		news := slices.ContainsFunc(promises, func(st promise) bool { return !slices.Contains(j.promises, st) })
		s.promise(j, promises)
		s.list.Resolve(j.key, admission.Reserved, admission.Protection, admission.ProtectionEnds)
		s.list.Decided(j.key)
		if news {
			s.displace(j, promises)
		}
		if d.Outcome == core.Preempts {
			s.evict(j, promises, s.victimsOf(&d))
		} else {
			s.await(j, promises, nil)
		}
	}
}

// turnDown has a job wait that its queue leaves no room for. What it was promised before goes to others.
func (s *simulation) turnDown(j *job) {
	fmt.Fprintf(&s.log, "%s %s/%s is over a limit\n", s.clock(), j.key, j.uid())
	s.list.CameToNothing(j.key)
	s.promise(j, nil)
	s.list.ResolveVictims(j.key)
}

// tryLater has a job for which there is no room wait for what may change that and is no event of the cluster.
func (s *simulation) tryLater(j *job, d *core.Decision, mark admission.Mark, held []core.Hold) {
	missed := false
	if slices.ContainsFunc(held, func(h core.Hold) bool { return h.Node != "" }) {
		missed = !s.list.Wait(j.key, admission.Reserved, mark)
	}
	if d.RetryAt != 0 {
		s.list.WaitUntil(j.key, admission.ProtectionEnds, time.Unix(0, d.RetryAt))
	}
	tolerated := slices.ContainsFunc(d.Protected, func(c core.RuleCount) bool { return c.Rule == core.RuleToleration })
	if d.RetryAt != 0 || tolerated {
		missed = !s.list.Wait(j.key, admission.Protection, mark) || missed
	}
	if missed {
		s.tryAgain(j.key)
	}
}

func (s *simulation) clock() string { return s.now.Format("02T15:04:05.000") }

// write puts a decision in the log.
func (s *simulation) write(j *job, d *core.Decision) {
	fmt.Fprintf(&s.log, "%s %s/%s %s: %s", s.clock(), j.key, j.uid(), d.Outcome, d.Message)
	var on []string
	for _, pl := range d.Placements {
		on = append(on, pl.Node)
	}
	fmt.Fprintf(&s.log, "; on [%s]", strings.Join(on, " "))
	for i := range d.Victims {
		fmt.Fprintf(&s.log, "; %s by %s", d.Victims[i].UID, d.Victims[i].Rule)
	}
	s.log.WriteByte('\n')
}
