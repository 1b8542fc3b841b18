package simulation

import (
	"fmt"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

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
	job     *job
	uid     string
	request core.Amounts
	// node is where it runs; nil as long as it does not, and again when it has gone.
	node *node
	// charged is true as long as the books have it on a node.
	charged bool
	// taken is true while an eviction is under way that takes the pod, terminating once it has been told to end, and
	// finished where it ended by itself.
	taken, terminating, finished bool
	// since is when its time was accounted for last.
	since time.Time
	// booked is what the books have of it.
	booked booking
}

func (p *pod) leaving() bool { return p.taken || p.terminating }

// job is a pod, or a gang, that is submitted once, runs when it is let, and comes again when it is preempted.
type job struct {
	namespace, name, queue string
	priority               int32
	never                  bool
	// requests are those of its pods, of which minCount are needed; 1 of 1 for a single pod.
	gang, whole bool
	requests    []core.Amounts
	minCount    int
	// left is the work that is still to be done.
	left time.Duration
	// tolerates is for how long it is not preempted by priorities below tolerated; 0 for not at all.
	tolerates time.Duration
	tolerated int32
	// patience is how long its user waits for it before giving it up; 0 for ever.
	patience time.Duration
	// hopeless is true for a job that can never run: the cluster, or its queue's limit, is too small.
	hopeless bool
	// of is what has been submitted, and crew the other members where each is scheduled by itself; nil otherwise.
	of   *submission
	crew *crew

	// turn counts how often it came; key and since are new each time, as its pods are.
	turn  int
	key   workload.Key
	since time.Time
	pods  []*pod
	phase phase
	kin   *kin
	// queued is true in the scheduler's queue.
	queued bool
	// promises is the room that is promised to the job.
	promises []promise
	// awaited are the pods that the job waited for last.
	awaited []*pod
	// began is when it was placed, stopped when it was told to end.
	began, stopped time.Time
	// group, toleration and membership are how the core knows the group, or the pod, while it runs.
	group      *core.Group
	toleration *core.Toleration
	membership *core.QueueMembership
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

// jobsOf are the jobs that some work is for the scheduler: itself, or each of its pods where these are scheduled one by
// one.
func (s *simulation) jobsOf(w *Work) []*job {
	of := &submission{work: w, perGPU: s.books.gpus}
	s.submissions = append(s.submissions, of)
	whole := &job{
		namespace: w.Namespace, name: w.Name, queue: w.Queue, priority: w.Priority, never: w.Never, gang: w.Gang, whole: w.Whole,
		requests: w.Requests, minCount: w.MinCount, left: w.Runs, tolerates: w.Tolerates, tolerated: w.Tolerated,
		patience: w.patience, hopeless: w.hopeless, of: of,
	}
	if s.policy.IgnoresTolerations || s.policy.Rule == KubeScheduler {
		whole.tolerates = 0
	}
	if s.policy.Rule != KubeScheduler || !w.Gang {
		of.jobs = []*job{whole}
		return of.jobs
	}
	crew := &crew{need: w.MinCount, left: w.Runs}
	for i, request := range w.Requests {
		member := *whole
		member.name, member.gang, member.whole = fmt.Sprintf("%s-%d", w.Name, i), false, false
		member.requests, member.minCount, member.crew = []core.Amounts{request}, 1, crew
		crew.members = append(crew.members, &member)
	}
	of.jobs = crew.members
	return of.jobs
}

func (j *job) standing() workload.Standing {
	return workload.Standing{Priority: j.priority, Queue: j.queue}
}

// uid is what the core knows the job by.
func (j *job) uid() string { return fmt.Sprintf("%s.%d", j.name, j.turn) }

// podUID is that of one of its pods.
func (j *job) podUID(i int) string { return fmt.Sprintf("%s-%d", j.uid(), i) }

// identity is the key by which the waiting list knows the job.
func (j *job) identity() workload.Key {
	key := workload.Key{Gang: j.gang, Namespace: j.namespace, Name: j.name}
	if !j.gang {
		key.UID = j.uid()
	}
	return key
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

// describe has the core know a job that is placed.
func (j *job) describe(began time.Time) {
	j.began, j.toleration, j.group = began, nil, nil
	if j.tolerates > 0 {
		j.toleration = &core.Toleration{Below: j.tolerated, Until: began.Add(j.tolerates).UnixNano()}
	}
	j.membership = &core.QueueMembership{Queue: j.queue}
	if !j.gang {
		return
	}
	if !j.whole {
		j.membership.MinCount = int32(j.minCount)
	}
	j.group = &core.Group{
		Namespace: j.namespace, Name: j.name, UID: j.uid(), Priority: j.priority, Whole: j.whole,
		Start: began.UnixNano(), Since: began.UnixNano(), Toleration: j.toleration, Membership: j.membership,
	}
}
