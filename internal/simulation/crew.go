package simulation

import (
	"slices"
	"time"
)

// crew is a gang whose members are scheduled one by one, because the simulation models
// kube-scheduler. The gang works while enough members run. While too few run, the running members
// stay on their nodes and wait for the other members.
type crew struct {
	need int
	// left is the running time until the work is done.
	left    time.Duration
	members []*job
	// began is the time when enough members began to run. It is zero while too few members run.
	// turn counts how often the gang has started or stopped working. An event that was scheduled at
	// an earlier value of turn has no effect.
	began time.Time
	turn  int
}

// there returns the running members.
func (c *crew) there() []*job {
	var out []*job
	for _, j := range c.members {
		if j.phase == running {
			out = append(out, j)
		}
	}
	return out
}

// joins records that a member runs now. If it was the last missing member, all members begin to
// work.
func (s *simulation) joins(j *job) {
	c := j.crew
	there := c.there()
	if !c.began.IsZero() || len(there) < c.need {
		return
	}
	for _, member := range there {
		p := member.pods[0]
		j.of.idles(p, s.now.Sub(p.since))
		p.since = s.now
	}
	j.of.starts(s.now)
	c.began = s.now
	c.turn++
	turn := c.turn
	s.after(c.left, func() {
		if c.turn == turn {
			s.finishAll(c, j.of)
		}
	})
}

// leaves records that a running member begins to terminate. If too few members remain, all members
// stop working.
func (s *simulation) leaves(j *job) {
	c, p := j.crew, j.pods[0]
	if c.began.IsZero() {
		j.of.idles(p, s.now.Sub(p.since))
		p.since = s.now
		return
	}
	there := c.there()
	if !slices.Contains(there, j) {
		there = append(there, j)
	}
	if len(there)-1 >= c.need {
		j.of.stopped(p, s.now.Sub(p.since), j.keeps(s.now.Sub(p.since)))
		return
	}
	ran := s.now.Sub(c.began)
	kept := j.keeps(ran)
	for _, member := range c.members {
		member.saved = 0
	}
	for _, member := range there {
		mine := member.pods[0]
		j.of.stopped(mine, s.now.Sub(mine.since), min(kept, s.now.Sub(mine.since)))
		mine.since = s.now
	}
	c.left = max(c.left-kept, time.Second)
	c.began = time.Time{}
	c.turn++
	j.of.waits(s.now)
}

// finishAll ends all members of the gang, because the work is done.
func (s *simulation) finishAll(c *crew, of *submission) {
	c.turn++
	of.ends(s.now)
	for _, member := range c.members {
		switch member.phase {
		case running:
			p := member.pods[0]
			of.works(p, s.now.Sub(p.since))
			p.since = s.now
			member.phase, p.finished = done, true
			s.depart(p)
		case pending:
			s.goesOn(member, done)
			s.left(member)
		case stopping:
			// A member that terminates already does not arrive again.
			member.phase = done
		case done:
		}
	}
}
