package simulation

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// likeness holds the properties of a job that a refusal depends on. A refusal is a decision that
// there is no room. If one job is refused, all jobs with an equal likeness would be refused too.
type likeness struct {
	queue              string
	priority           int32
	never, gang, whole bool
	minCount           int
	requests           string
}

// kin holds the pending jobs that have an equal likeness. The most important job is first.
type kin struct {
	likeness
	// least is, for each resource, the smallest request of a pod of these jobs.
	least core.Amounts
	jobs  []*job
	// told is the last refusal of any of these jobs. It is nil if there was none.
	told *noRoom
	// probed is the value of simulation.freed at the last probe of this kin. A probe makes a
	// decision for the first job of the kin. If there is no room, the result also applies to jobs
	// that request more.
	probed uint64
}

// noRoom is a refusal: the reasons why there is no room for a job.
type noRoom struct {
	// reserved is true if room is reserved for other jobs. mayBeLifted is true if a protection
	// applies that an administrator could lift.
	reserved, mayBeLifted bool
	// retryAt is the time when a protection ends, in nanoseconds since 1970, if the job has no room
	// only because of that protection. Otherwise it is 0.
	retryAt int64
}

// before compares two jobs of equal likeness. The more important job is first.
func before(a, b *job) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), a.since.Compare(b.since), a.key.Compare(b.key))
}

// kinOf returns the kin of a job. If the job is the first with its likeness, kinOf creates the kin.
func (s *simulation) kinOf(j *job) *kin {
	if j.kin != nil {
		return j.kin
	}
	like := likeness{
		queue: j.queue, priority: j.priority, never: j.never, gang: j.gang, whole: j.whole, minCount: j.minCount, requests: fmt.Sprint(j.requests),
	}
	j.kin = s.alike[like]
	if j.kin == nil {
		j.kin = &kin{likeness: like, least: leastOf(j.requests)}
		s.alike[like] = j.kin
		s.kinds = append(s.kinds, j.kin)
	}
	return j.kin
}

func (k *kin) add(j *job) {
	at, _ := slices.BinarySearchFunc(k.jobs, j, before)
	k.jobs = slices.Insert(k.jobs, at, j)
}

func (k *kin) remove(j *job) {
	if at, ok := slices.BinarySearchFunc(k.jobs, j, before); ok {
		k.jobs = slices.Delete(k.jobs, at, at+1)
	}
}

// first returns the job that is retried on behalf of all jobs of the kin. It skips jobs with a
// reservation or an eviction under way, because other events retry them. It returns nil if a job of
// the kin is in the scheduler's queue or waits for its turn already.
func (k *kin) first(s *simulation) *job {
	for _, j := range k.jobs {
		switch {
		case len(j.promises) > 0 || s.engine.Waits.Evicting(j.key):
		case j.queued || s.engine.Turns.Holds(j.key):
			return nil
		default:
			return j
		}
	}
	return nil
}

// leastOf returns, for each resource, the smallest request of any pod.
func leastOf(requests []core.Amounts) core.Amounts {
	out := slices.Clone(requests[0])
	for _, request := range requests[1:] {
		for r, v := range request {
			out[r] = min(out[r], v)
		}
	}
	return out
}

// asksForLess reports whether a refusal of the jobs of k also applies to the jobs of other. All of
// these conditions must be true:
//
//   - Both are in one queue, and k has at least the priority of other.
//   - The jobs of k request no more than the jobs of other, and may preempt if the jobs of other
//     may.
//   - The jobs of k are single pods. Or all are gangs with equal requests, and minCount of k is not
//     larger.
func (k *kin) asksForLess(other *kin) bool {
	if k.queue != other.queue || k.priority < other.priority || k.never && !other.never || k.gang && (!other.gang || k.minCount > other.minCount) {
		return false
	}
	if k.gang && (k.whole != other.whole || k.requests != other.requests) {
		return false
	}
	for r, v := range k.least {
		if v > other.least[r] {
			return false
		}
	}
	return true
}

// known returns the refusal that applies to a job without a decision for it. It returns nil if a
// decision is necessary.
//
// The refusal of a job also applies to jobs that request as much or more, until room is freed. If
// there is no such refusal, known probes the pending job with the smallest request, so that its
// refusal applies to as many jobs as possible.
func (s *simulation) known(j *job) *noRoom {
	if s.refusedAt != s.freed {
		s.refusedAt, s.turnedDown = s.freed, s.turnedDown[:0]
	}
	if len(j.promises) > 0 {
		return nil
	}
	mine := s.kinOf(j)
	for _, k := range s.turnedDown {
		if (k == mine || k.asksForLess(mine)) && (k.told.retryAt == 0 || s.now.UnixNano() < k.told.retryAt) {
			return k.told
		}
	}
	least := mine
	for _, k := range s.kinds {
		if k != least && len(k.jobs) > 0 && k.asksForLess(least) && len(k.jobs[0].promises) == 0 {
			least = k
		}
	}
	if least == mine || least.probed == s.freed {
		return nil
	}
	least.probed = s.freed
	return s.probe(least)
}

// probe makes a decision for the first job of a kin without carrying it out. It returns the
// refusal, or nil if there is room.
func (s *simulation) probe(k *kin) *noRoom {
	j := k.jobs[0]
	held := s.promises(j)
	d, err := s.decide(j, s.preemptor(j, j.pods), held)
	if err != nil {
		s.fail(err)
		return nil
	}
	if d.Outcome != core.Infeasible {
		return nil
	}
	return s.turnedAway(j, &d, held)
}

// turnedAway records the refusal of a job that has no room, and returns it. held is the room that
// is reserved for other jobs.
func (s *simulation) turnedAway(j *job, d *core.Decision, held []core.Hold) *noRoom {
	k := s.kinOf(j)
	k.told = &noRoom{
		reserved:    slices.ContainsFunc(held, func(h core.Hold) bool { return h.Node != "" }),
		mayBeLifted: slices.ContainsFunc(d.Protected, func(c core.RuleCount) bool { return c.Rule.MayBeLifted() }),
		retryAt:     d.RetryAt,
	}
	if s.refusedAt != s.freed {
		s.refusedAt, s.turnedDown = s.freed, s.turnedDown[:0]
	}
	if !slices.Contains(s.turnedDown, k) {
		s.turnedDown = append(s.turnedDown, k)
	}
	return k.told
}
