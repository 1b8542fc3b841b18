package simulation

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// likeness holds the properties of a job that its refusal depends on. If one job is refused, all
// jobs with an equal likeness are.
type likeness struct {
	queue              string
	priority           int32
	never, gang, whole bool
	minCount           int
	requests           string
}

// kin holds the pending jobs with one likeness, the most important first.
type kin struct {
	likeness
	least core.Amounts
	jobs  []*job
	// told is the last refusal of one of the jobs; nil for none.
	told *noRoom
	// probed is the value of simulation.freed at the last probe of this kin. A probe makes a
	// decision for the first job of the kin. Its result also applies to jobs that ask for more.
	probed uint64
}

// noRoom holds the causes that block a job without room.
type noRoom struct {
	// reserved is true if room is reserved for others. mayBeLifted is true if a protection applies
	// that an administrator may lift.
	reserved, mayBeLifted bool
	// retryAt is the end of a protection, in nanoseconds since 1970, if only the protection blocks
	// the job; 0 otherwise.
	retryAt int64
}

// before orders jobs that are alike, the most important first.
func before(a, b *job) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), a.since.Compare(b.since), a.key.Compare(b.key))
}

// kinOf returns the kin of a job. It creates the kin if the job is the first of its likeness.
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

// first returns the job to retry in place of all jobs of the kin. It returns nil if one of them is
// already in the scheduler's queue or waits for its turn. It skips jobs with a reservation or an
// eviction under way, because they are retried by themselves.
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

// leastOf returns, for each resource, the smallest request of any member.
func leastOf(requests []core.Amounts) core.Amounts {
	out := slices.Clone(requests[0])
	for _, request := range requests[1:] {
		for r, v := range request {
			out[r] = min(out[r], v)
		}
	}
	return out
}

// asksForLess reports whether a refusal of the jobs of k applies to the jobs of other as well. That
// is so if the jobs of k ask for no more, in the same queue, with at least the same priority. They
// must be single pods, or equal gangs with a minCount that is not larger.
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

// known returns the refusal of a job without a decision; nil if a decision is necessary. It uses
// the refusal of a job that asks for no more, if no room was freed since then. It first probes the
// pending job that asks for the least, so that the refusal applies to as many jobs as possible.
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

// probe decides for the first job of a kin and does not carry the decision out. It returns nil if
// there is room.
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

// turnedAway records the refusal of a job that has no room.
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
