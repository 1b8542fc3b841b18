package admission_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// The jobs of a simulation, and the steps from a place to the end: what carries a decision out, and what it leads to.

// node is one node with its pods, leaving ones included, in the order in which they came.
type node struct {
	name        string
	allocatable core.Amounts
	pods        []*pod
	// changed is true where the core's cluster is behind.
	changed bool
}

// pod is one pod of a job.
type pod struct {
	job *job
	uid string
	// node is where it runs; nil as long as it does not, and again when it has gone.
	node *node
	// charged is true as long as the books have it on a node.
	charged bool
	// taken is true while an eviction is under way that takes the pod, terminating once it has been told to end.
	taken, terminating bool
}

func (p *pod) leaving() bool { return p.taken || p.terminating }

// job is a pod, or a gang, that is submitted once, runs when it is let, and comes again when it is preempted.
type job struct {
	name, queue string
	priority    int32
	// members is how many pods there are, of which minCount are needed; 1 of 1 for a single pod.
	gang, whole       bool
	members, minCount int
	request           core.Amounts
	// left is the work that is still to be done: a job goes on where it was stopped.
	left time.Duration
	// tolerates is for how long it is not preempted by priorities below tolerated; 0 for not at all.
	tolerates time.Duration
	tolerated int32
	// patience is how long its user waits for it before giving it up; 0 for ever.
	patience time.Duration
	// hopeless is true for a job that can never run: the cluster, or its queue's limit, is too small.
	hopeless bool

	// turn counts how often it came; key and since are new each time, as its pods are.
	turn  int
	key   workload.Key
	since time.Time
	pods  []*pod
	phase phase
	// queued is true in the scheduler's queue.
	queued bool
	// promises is the room that is promised to the job.
	promises []promise
	// awaited are the pods that the job waited for last.
	awaited []*pod
	// began is when it was placed, stopped when it was told to end.
	began, stopped time.Time
	// as is how the core knows the group, or the pod, while it runs.
	group      *core.Group
	toleration *core.Toleration
	tenure     *core.QueueMembership
}

type phase int

const (
	pending phase = iota
	running
	stopping
	done
)

// promise is room on a node that is promised to a pod.
type promise struct {
	pod  *pod
	node *node
}

func (j *job) standing() workload.Standing {
	return workload.Standing{Priority: j.priority, Queue: j.queue}
}

// uid is what the core knows the job by.
func (j *job) uid() string { return fmt.Sprintf("%s.%d", j.name, j.turn) }

// place has a job run.
func (s *simulation) place(j *job, promises []promise) {
	s.promise(j, promises)
	s.list.Placed(j.key)
	j.promises = nil
	s.goesOn(j, running)
	j.began = s.now
	if j.tolerates > 0 {
		j.toleration = &core.Toleration{Below: j.tolerated, Until: s.now.Add(j.tolerates).UnixNano()}
	}
	j.tenure = &core.QueueMembership{Queue: j.queue}
	if j.gang {
		if !j.whole {
			j.tenure.MinCount = int32(j.minCount)
		}
		j.group = &core.Group{
			Namespace: j.key.Namespace, Name: j.name, UID: j.uid(), Priority: j.priority, Whole: j.whole,
			Start: s.now.UnixNano(), Since: s.now.UnixNano(), Toleration: j.toleration, Membership: j.tenure,
		}
	}
	// What the gang found no room for now it does without.
	j.pods = j.pods[:0]
	for _, st := range promises {
		j.pods = append(j.pods, st.pod)
		st.pod.node, st.pod.charged = st.node, true
		st.node.pods = append(st.node.pods, st.pod)
		st.node.changed = true
	}
	s.books.changed()
	if j.gang {
		s.list.TurnOver(j.key)
	} else {
		s.list.Forget(j.key)
	}
	turn := j.turn
	s.after(j.left, func() {
		if j.phase == running && j.turn == turn {
			s.finish(j)
		}
	})
}

// finish ends a job that has done its work.
func (s *simulation) finish(j *job) {
	j.phase, j.left = done, 0
	for _, p := range slices.Clone(j.pods) {
		if p.node != nil {
			s.depart(p)
		}
	}
}

// evict has victims told to go. The preemptor is gated until the calls are over.
func (s *simulation) evict(j *job, promises []promise, victims []*pod) {
	for _, v := range victims {
		v.taken, v.node.changed = true, true
	}
	s.await(j, promises, victims)
	underWay, key, turn := s.list.StartEviction(j.key), j.key, j.turn
	fails := s.random.IntN(100) < s.faulty
	s.after(callTime+time.Duration(len(victims))*time.Millisecond, func() {
		remains := j.phase == pending && j.turn == turn
		if fails {
			s.evictionFailed(j, remains, victims)
		} else {
			s.evicted(victims)
		}
		var delay time.Duration
		switch {
		case !fails:
			s.list.Succeeded(key)
		case remains:
			delay = s.list.Failed(key, admission.Backing{Initial: time.Second, Max: time.Minute})
		}
		if delay > 0 {
			s.list.WaitUntil(key, admission.Backoff, s.now.Add(delay))
			s.list.EndEviction(underWay)
			return
		}
		s.list.EndEviction(underWay)
		s.wake(key)
	})
}

// evictionFailed takes back what was promised to a preemptor, and lets those look again that count on the victims.
func (s *simulation) evictionFailed(j *job, remains bool, victims []*pod) {
	if remains {
		s.list.ResolveVictims(j.key)
		s.promise(j, nil)
	}
	for _, v := range victims {
		v.taken = false
		if v.node == nil || v.leaving() {
			continue
		}
		v.node.changed = true
		for _, key := range s.list.Stays(v.uid) {
			s.wake(key)
		}
	}
}

// evicted has victims end, and with them the rest of gangs that cannot go on without them.
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
		j.phase, j.stopped, j.left = stopping, s.now, max(j.left-s.now.Sub(j.began), time.Second)
		for _, p := range j.pods {
			s.terminate(p)
		}
	}
}

// staying are the pods of a job that run and have not been told to end.
func (j *job) staying() []*pod {
	var out []*pod
	for _, p := range j.pods {
		if p.node != nil && !p.terminating {
			out = append(out, p)
		}
	}
	return out
}

// terminate tells a pod to end, which takes it some time.
func (s *simulation) terminate(p *pod) {
	if p.node == nil || p.terminating {
		return
	}
	p.terminating, p.node.changed = true, true
	s.books.changed()
	grace := time.Second + time.Duration(s.random.Int64N(int64(longestGrace-time.Second)))
	s.after(grace, func() {
		if p.node != nil {
			s.depart(p)
		}
	})
}

// depart has a pod gone. The scheduler's queue and those who keep the books hear of it in any order, a moment apart.
func (s *simulation) depart(p *pod) {
	p.node.pods = slices.DeleteFunc(p.node.pods, func(other *pod) bool { return other == p })
	p.node.changed, p.node = true, nil
	if s.random.IntN(2) == 0 {
		s.deleted(p)
		s.roomFreed(p)
		return
	}
	s.roomFreed(p)
	s.after(time.Duration(s.random.Int64N(int64(longestLag))), func() { s.deleted(p) })
}

// deleted takes a pod off the books, and wakes those who have waited for that, or for the pod.
func (s *simulation) deleted(p *pod) {
	p.charged = false
	s.books.changed()
	if p.job.queue != "" {
		s.ended(admission.Queue)
	}
	for _, key := range s.list.Gone(p.uid) {
		s.wake(key)
	}
	if !slices.ContainsFunc(p.job.pods, func(other *pod) bool { return other.charged }) {
		s.left(p.job)
	}
}

// roomFreed is what the scheduler's queue does when a pod has gone: all try again who have found no room, but for those
// that wait for others to follow.
func (s *simulation) roomFreed(p *pod) {
	for _, j := range slices.Clone(s.waiting) {
		if j.queued || s.list.Holds(j.key) || s.list.Evicting(j.key) {
			continue
		}
		if awaited, worthIt := s.list.GoneFor(j.key, p.uid); !awaited || worthIt {
			s.tryAgain(j.key)
		}
	}
}

// left forgets a job of which nothing is left. One that was preempted comes again.
func (s *simulation) left(j *job) {
	s.list.Forget(j.key)
	s.promise(j, nil)
	delete(s.jobs, j.key)
	j.queued = false
	s.ready = slices.DeleteFunc(s.ready, func(other *job) bool { return other == j })
	if j.phase == stopping {
		s.arrive(j)
	}
}
