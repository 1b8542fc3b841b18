package simulation

import (
	"cmp"
	"fmt"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// node is one node. Its pods are in the order of their arrival and include terminating pods.
type node struct {
	name        string
	allocatable core.Amounts
	pods        []*pod
	// changed is true if the core's cluster has an outdated state of the node.
	changed bool
}

// pod is one pod of a job.
type pod struct {
	job     *job
	uid     string
	request core.Amounts
	// node is the node of the pod; nil before the pod runs, and after it is gone.
	node *node
	// charged is true while the quota ledger counts the pod as running.
	charged bool
	// taken is true while an eviction of the pod is under way. terminating is true once the pod was
	// told to end, and finished if it ended by itself.
	taken, terminating, finished bool
	// since is the time when the GPU time of the pod was last added up.
	since time.Time
	// booked is the pod's entry in the quota ledger.
	booked booking
}

func (p *pod) leaving() bool { return p.taken || p.terminating }

// job is a pod or a gang. It is submitted once, runs when it is placed, and arrives again when it
// is preempted.
type job struct {
	namespace, name, queue string
	priority               int32
	raisedBy               int64
	never                  bool
	// requests has one entry for each pod; at least minCount pods must run. A single pod has one
	// request and minCount 1.
	gang, whole bool
	requests    []core.Amounts
	minCount    int
	// left is the running time until the job is done.
	left time.Duration
	// tolerates is the length of the job's protection from priorities below tolerated; 0 for none.
	tolerates time.Duration
	tolerated int32
	// patience is the time that the user waits before deleting the pending job; 0 for no limit.
	patience time.Duration
	// hopeless is true for a job that can never run. The cluster, or its queue's limit, is too
	// small.
	hopeless bool
	// saved is the part of the first run that was saved when the simulation began. It counts only
	// without an interval.
	saved time.Duration
	// interval is the time between two checkpoints of the job; 0 for no checkpoints. restart is the
	// run time that a restart costs.
	interval, restart time.Duration
	// stops has the preemptions that stopped the job.
	stops core.Stops
	// of is the submission of the job. crew is the gang of a member that is scheduled alone; nil
	// otherwise.
	of   *submission
	crew *crew

	// turn counts the arrivals. Each arrival sets a new key, since and pods.
	turn  int
	key   workload.Key
	since time.Time
	pods  []*pod
	phase phase
	kin   *kin
	// queued is true while the job is in the scheduler's queue.
	queued bool
	// promises are the reservations of the job.
	promises []reservation
	// awaited are the pods that the job last waited for.
	awaited []*pod
	// began is the time when the job was placed, and stopped the time when it was told to end.
	began, stopped time.Time
	// group, toleration and membership describe the running job to the core.
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

// reservation is a reservation: room on a node for a pod.
type reservation struct {
	pod  *pod
	node *node
}

// jobsOf returns the jobs that the scheduler sees for some work. This is one job for the whole
// work, or one for each pod if the policy schedules pods alone.
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

// victimPriority returns the priority of a job while it is a potential victim.
func (j *job) victimPriority() int32 { return int32(int64(j.priority) + j.raisedBy) }

func (j *job) standing() workload.Standing {
	return workload.Standing{Priority: j.priority, Queue: j.queue}
}

// uid returns the job's UID in the core.
func (j *job) uid() string { return fmt.Sprintf("%s.%d", j.name, j.turn) }

// podUID returns the UID of the job's i-th pod.
func (j *job) podUID(i int) string { return fmt.Sprintf("%s-%d", j.uid(), i) }

// identity returns the job's key in the engine.
func (j *job) identity() workload.Key {
	key := workload.Key{Gang: j.gang, Namespace: j.namespace, Name: j.name}
	if !j.gang {
		key.UID = j.uid()
	}
	return key
}

// staying returns the running pods of a job that were not told to end.
func (j *job) staying() []*pod {
	var out []*pod
	for _, p := range j.pods {
		if p.node != nil && !p.terminating {
			out = append(out, p)
		}
	}
	return out
}

// describe prepares the descriptions of a placed job for the core.
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

// countStop records that a preemption stops the running job.
func (j *job) countStop(now time.Time) {
	if now.Sub(j.began).Nanoseconds() >= core.ProgressTime {
		j.stops.Count = 0
	}
	j.stops.Count, j.stops.Last = j.stops.Count+1, now.UnixNano()
}
