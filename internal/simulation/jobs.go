package simulation

import (
	"cmp"
	"fmt"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// node is a node with its pods, in the order of their arrival on the node. Terminating pods are
// included.
type node struct {
	name        string
	allocatable core.Amounts
	pods        []*pod
	// changed is true if the state of the node in the core's cluster is outdated.
	changed bool
}

type pod struct {
	job     *job
	uid     string
	request core.Amounts
	// node is the node of the pod. It is nil before the pod runs and after it has ended.
	node *node
	// charged is true while the quota ledger counts the pod as usage.
	charged bool
	// taken is true while an eviction of the pod is under way. terminating is true from the start
	// of its grace period. finished is true if the pod has done its work.
	taken, terminating, finished bool
	// since is the time when the pod's GPU time was last counted.
	since time.Time
	// booked is the pod's entry in the quota ledger.
	booked booking
}

func (p *pod) leaving() bool { return p.taken || p.terminating }

// job is a pod or a gang, as the scheduler sees it. It is submitted once. After a preemption, it
// arrives again.
type job struct {
	namespace, name, queue string
	priority               int32
	raisedBy               int64
	never                  bool
	// gang and whole are explained in Work.
	gang, whole bool
	// requests has the request of each pod.
	requests []core.Amounts
	// minCount is the number of pods that must run. It is 1 for a single pod.
	minCount int
	// left is the remaining running time.
	left time.Duration
	// tolerates is the length of the job's protection, from its start, against preemptors with a
	// priority below tolerated. It is 0 for no protection.
	tolerates time.Duration
	tolerated int32
	// patience is the longest time that the job may be pending before a user deletes it. It is 0
	// for no limit.
	patience time.Duration
	// hopeless is true for a job that can never run, because the cluster or the limit of its queue
	// is too small.
	hopeless bool
	// saved is the part of the first run that was saved before the simulation began. It is used
	// only if interval is 0.
	saved time.Duration
	// interval is the time between two checkpoints, or 0 if there are none. restart is the running
	// time that a restart costs.
	interval, restart time.Duration
	// stops records the preemptions that stopped the job.
	stops core.Stops
	// of is the submission that the job belongs to. crew is set only if the policy schedules
	// members one by one. It is the gang that the job is a member of.
	of   *submission
	crew *crew

	// turn counts the arrivals of the job. Each arrival sets key, since and pods.
	turn  int
	key   workload.Key
	since time.Time
	pods  []*pod
	phase phase
	kin   *kin
	// queued is true while the job is in the scheduler's queue.
	queued bool
	// promises are the job's reservations.
	promises []reservation
	// awaited are the pods that the job last waited for.
	awaited []*pod
	// began is the time when the job was placed. stopped is the time when it began to terminate.
	began, stopped time.Time
	// The following three fields describe the running job to the core.
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

// reservation is room on a node that is reserved for a pod.
type reservation struct {
	pod  *pod
	node *node
}

// jobsOf creates the jobs that the scheduler sees for the work. This is one job for all its pods,
// or one job for each pod if the policy schedules pods alone.
func (s *simulation) jobsOf(w *Work) []*job {
	of := &submission{work: w, perGPU: s.ledger.gpus}
	s.submissions = append(s.submissions, of)
	whole := &job{
		namespace: w.Namespace, name: w.Name, queue: w.Queue, priority: w.Priority, raisedBy: w.RaisedBy, never: w.Never, gang: w.Gang, whole: w.Whole,
		requests: w.Requests, minCount: w.MinCount, left: w.Runs, tolerates: w.Tolerates, tolerated: w.Tolerated,
		patience: w.patience, hopeless: w.hopeless, saved: w.Saved, interval: cmp.Or(w.Interval, s.opts.Checkpoint), restart: w.Restart, of: of,
	}
	if s.policy.IgnoresTolerations || s.policy.Rule == KubeScheduler {
		whole.tolerates = 0
	}
	if s.policy.Rule == KubeScheduler {
		whole.raisedBy = 0
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

// victimPriority returns the priority that the job has as a potential victim.
func (j *job) victimPriority() int32 { return int32(int64(j.priority) + j.raisedBy) }

func (j *job) standing() workload.Standing {
	return workload.Standing{Priority: j.priority, Queue: j.queue}
}

// uid returns the job's UID, which changes with each arrival.
func (j *job) uid() string { return fmt.Sprintf("%s.%d", j.name, j.turn) }

// podUID returns the UID of the pod with the index i.
func (j *job) podUID(i int) string { return fmt.Sprintf("%s-%d", j.uid(), i) }

// identity returns the job's key in the engine.
func (j *job) identity() workload.Key {
	key := workload.Key{Gang: j.gang, Namespace: j.namespace, Name: j.name}
	if !j.gang {
		key.UID = j.uid()
	}
	return key
}

// staying returns the job's running pods that do not terminate.
func (j *job) staying() []*pod {
	var out []*pod
	for _, p := range j.pods {
		if p.node != nil && !p.terminating {
			out = append(out, p)
		}
	}
	return out
}

// describe sets the fields that describe the running job to the core. began is the start of the
// job.
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
		Namespace: j.namespace, Name: j.name, UID: j.uid(), Priority: j.victimPriority(), RaisedBy: j.raisedBy, Whole: j.whole,
		Start: began.UnixNano(), Since: began.UnixNano(), Toleration: j.toleration, Membership: j.membership, Stops: j.stops,
	}
}

// countStop records that a preemption stops the running job. If the job has run for at least
// core.ProgressTime, earlier stops no longer count.
func (j *job) countStop(now time.Time) {
	if now.Sub(j.began).Nanoseconds() >= core.ProgressTime {
		j.stops.Count = 0
	}
	j.stops.Count, j.stops.Last = j.stops.Count+1, now.UnixNano()
}
