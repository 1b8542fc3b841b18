package simulation

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// likeness is what two jobs have in common that are told the same.
type likeness struct {
	queue              string
	priority           int32
	never, gang, whole bool
	minCount           int
	requests           string
}

// kin are the jobs that wait and are alike, the most important first.
type kin struct {
	likeness
	least core.Amounts
	jobs  []*job
	// told is what one of them was told last for which there was no room.
	told *refusal
	// probed is what freed counted when it was last asked about on behalf of others.
	probed uint64
}

// refusal is what a job waits for that has no room.
type refusal struct {
	// reserved is true where room is kept for others, mayBeLifted where a protection that may be lifted keeps it.
	reserved, mayBeLifted bool
	// retryAt is when a protection ends that is all there is in the way, in nanoseconds since 1970; 0 for none.
	retryAt int64
}

// before is the order of those that are alike.
func before(a, b *job) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), a.since.Compare(b.since), a.key.Compare(b.key))
}

// kinOf finds those that a job belongs to.
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

// first is the one that tries for all: nil where one is in the scheduler's queue, or waits for its turn, or where there is
// none. What is promised room, and has others leave for it, goes its own way.
func (k *kin) first(s *simulation) *job {
	for _, j := range k.jobs {
		switch {
		case len(j.promises) > 0 || s.list.Evicting(j.key):
		case j.queued || s.list.Holds(j.key):
			return nil
		default:
			return j
		}
	}
	return nil
}

// leastOf is what every member asks for at least.
func leastOf(requests []core.Amounts) core.Amounts {
	out := slices.Clone(requests[0])
	for _, request := range requests[1:] {
		for r, v := range request {
			out[r] = min(out[r], v)
		}
	}
	return out
}

// asksForLess reports whether what is no room for these is none for others: they are single pods, or fewer, that ask for no
// more and stand no lower.
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

// known is what a job would be told, where one that asks for no more has been told so and nothing has made room since. One
// that asks for less and waits as well is asked about first, so that it is known for as many as possible.
func (s *simulation) known(j *job) *refusal {
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

// probe asks for a decision about some that are alike, of which nothing is carried out; nil where there is room.
func (s *simulation) probe(k *kin) *refusal {
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

// turnedAway takes note of a job for which there is no room.
func (s *simulation) turnedAway(j *job, d *core.Decision, held []core.Hold) *refusal {
	k := s.kinOf(j)
	k.told = &refusal{
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
