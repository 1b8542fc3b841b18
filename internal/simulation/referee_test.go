package simulation

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
	"github.com/reprieve-dev/reprieve/internal/engine"
)

// referee is an observer that checks the rules by direct computations. It also keeps statistics.
type referee struct {
	t testing.TB
	// log has one line for each decision.
	log bytes.Buffer
	// counted is the value of ledger.counted at the last call of room. rested identifies the state
	// of the simulation when the scheduler last had nothing to do.
	counted uint64
	rested  int
	// fair maps a leaf queue to its fair share and its usage of the first resource, both as amount
	// times seconds.
	fair map[string]*fairness
	// same counts the jobs that were refused because of another job's refusal; see toldTheSame.
	same int
	// outcomes counts the decisions by outcome, and rules counts the victims by rule.
	outcomes map[core.Outcome]int
	rules    map[core.Rule]int
	// waits counts, for each cause, how often a workload that waits for the cause was checked.
	waits [engine.Backoff + 1]int
}

const (
	// longestGrace is the longest time that pods take to terminate.
	longestGrace = time.Minute
	// longestLag is the maximum time between the deletion of a pod in the scheduler's queue and its
	// deletion in the quota ledger.
	longestLag = 500 * time.Millisecond
)

type fairness struct{ entitled, had float64 }

func newReferee(t testing.TB) *referee {
	t.Helper()
	return &referee{t: t, fair: make(map[string]*fairness), outcomes: make(map[core.Outcome]int), rules: make(map[core.Rule]int)}
}

func (r *referee) fail(s *simulation, format string, args ...any) {
	r.t.Helper()
	r.t.Fatalf("at "+s.clock()+": "+format, args...)
}

// passes adds the usage and the fair share of each queue for the time until the next event.
func (r *referee) passes(s *simulation, until time.Time) {
	seconds, st := until.Sub(s.now).Seconds(), s.standing()
	if slices.ContainsFunc(s.waiting, func(j *job) bool { return j.hopeless }) {
		// Work that can never run counts as demand, but cannot use its fair share.
		return
	}
	for q := range int32(st.Tree.Len()) {
		if !st.Tree.Leaf(q) {
			continue
		}
		name := st.Tree.Queue(q).Name
		if r.fair[name] == nil {
			r.fair[name] = &fairness{}
		}
		share := st.Shares[q][0]
		r.fair[name].entitled += float64(share) * seconds
		r.fair[name].had += float64(min(st.Allocated[q][0], share)) * seconds
	}
}

// settled checks the cluster after every change. It checks the waiting workloads whenever the
// scheduler has nothing to do.
func (r *referee) settled(s *simulation) {
	if now := s.ledger.counted; now != r.counted {
		r.counted = now
		r.room(s)
	}
	if now := r.log.Len() + int(s.ledger.counted); now != r.rested && !s.cycling && !s.engine.Turns.IsGathering(s.now) {
		r.rested = now
		for _, j := range s.waiting {
			r.waitsForSomething(s, j)
		}
	}
}

// room checks that nodes stay within their capacity and queues within their limits, and that gangs
// run together.
func (r *referee) room(s *simulation) {
	for _, n := range s.nodes {
		for i, free := range n.free() {
			if free < 0 {
				r.fail(s, "%s has %d %s too little", n.name, -free, s.ledger.resources[i])
			}
		}
	}
	st := s.standing()
	for q := range int32(st.Tree.Len()) {
		for i, limit := range st.Tree.Queue(q).Limit {
			if st.Allocated[q][i] > limit {
				r.fail(s, "queue %s has %d %s, its limit is %d", st.Tree.Queue(q).Name, st.Allocated[q][i], s.ledger.resources[i], limit)
			}
		}
	}
	for _, j := range s.jobs {
		r.whole(s, j)
	}
	r.conserved(s)
	r.booked(s)
}

// conserved checks that all submitted work is done, running or waiting, and that waiting lists all
// pending jobs.
func (r *referee) conserved(s *simulation) {
	alive := make(map[*submission]bool)
	pendings := 0
	for _, j := range s.jobs {
		alive[j.of] = true
		if j.phase == pending {
			pendings++
		}
		if _, ok := s.find(j); ok != (j.phase == pending) {
			r.fail(s, "%s is in phase %d, and among those that wait: %t", j.name, j.phase, ok)
		}
	}
	kept := 0
	for _, k := range s.kinds {
		kept += len(k.jobs)
	}
	if pendings != len(s.waiting) || pendings != kept {
		r.fail(s, "%d jobs wait, %d are among those that do, and %d among their likes", pendings, len(s.waiting), kept)
	}
	for _, w := range s.submissions {
		if came := w.jobs[0].turn > 0; came && !w.over && !alive[w] {
			r.fail(s, "%s has come, is not done, and is nowhere", w.work.Name)
		}
	}
	on := 0
	for _, n := range s.nodes {
		for _, p := range n.pods {
			if on++; s.onNodes[p.uid] != p || p.node != n {
				r.fail(s, "%s is on %s, and not known to be", p.uid, n.name)
			}
		}
	}
	if on != len(s.onNodes) {
		r.fail(s, "%d pods are on nodes, and %d are known to be", on, len(s.onNodes))
	}
}

// booked checks that usage and demand in the quota ledger equal the sums over all pods.
func (r *referee) booked(s *simulation) {
	tree := s.ledger.tree
	demand, allocated := make([]core.Amounts, tree.Len()), make([]core.Amounts, tree.Len())
	for q := range demand {
		demand[q], allocated[q] = make(core.Amounts, tree.Dims()), make(core.Amounts, tree.Dims())
	}
	for _, j := range s.jobs {
		leaf := tree.LeafOf(j.queue)
		for _, p := range j.pods {
			if leaf >= 0 && (p.charged && !p.terminating || j.phase == pending) {
				add(demand[leaf], p.request, 1)
			}
			for q := leaf; q >= 0 && p.charged; q = tree.Parent(q) {
				add(allocated[q], p.request, 1)
			}
		}
	}
	if !slices.EqualFunc(demand, s.ledger.demand, slices.Equal) || !slices.EqualFunc(allocated, s.ledger.allocated, slices.Equal) {
		r.fail(s, "the books have demand %v and allocated %v, and it is %v and %v", s.ledger.demand, s.ledger.allocated, demand, allocated)
	}
}

// whole checks that either enough members of a gang run, or none. Terminating members do not count
// as running.
func (r *referee) whole(s *simulation, j *job) {
	there := 0
	for _, p := range j.pods {
		if p.node != nil {
			there++
		}
	}
	staying := len(j.staying())
	switch {
	case j.phase == pending && there > 0:
		r.fail(s, "%s waits, and %d of its pods run", j.name, there)
	case j.phase == running && staying < j.minCount:
		r.fail(s, "%s runs with %d of %d pods", j.name, staying, j.minCount)
	case j.phase == running && j.whole && staying < len(j.pods):
		r.fail(s, "%s goes whole, and %d of its %d pods run on", j.name, staying, len(j.pods))
	case j.phase == stopping && staying > 0:
		r.fail(s, "%s is to end, and %d of its pods run on", j.name, staying)
	case j.phase == stopping && s.now.Sub(j.stopped) > longestGrace+longestLag:
		r.fail(s, "%s was to end by %s", j.name, j.stopped.Add(longestGrace))
	}
}

// waitsForSomething checks that no job is forgotten. Each pending job must wait for a cause that
// the engine or a future event will end.
func (r *referee) waitsForSomething(s *simulation, j *job) {
	for c := range r.waits {
		if s.engine.Waits.WaitsFor(j.key, engine.Cause(c)) {
			r.waits[c]++
		}
	}
	anyone := func(what func(p *pod) bool) bool {
		return slices.ContainsFunc(s.nodes, func(n *node) bool { return slices.ContainsFunc(n.pods, what) })
	}
	next, timed := s.engine.NextLook(s.now)
	switch {
	case j.queued:
		if !s.cycling {
			r.fail(s, "%s is in the scheduler's queue, and no cycle comes", j.name)
		}
	case s.engine.Turns.Holds(j.key):
		if !s.ticking && !timed {
			r.fail(s, "%s waits for its turn, and the list is not looked at", j.name)
		}
	case s.engine.Waits.WaitsForVictims(j.key):
		if !slices.ContainsFunc(j.awaited, func(p *pod) bool { return p.charged && p.leaving() }) {
			r.fail(s, "%s waits for victims, and none of them is leaving", j.name)
		}
		if len(j.promises) == 0 {
			r.fail(s, "%s waits for victims, and no room is promised to it", j.name)
		}
	case s.engine.Waits.Evicting(j.key):
	case s.engine.Waits.WaitsFor(j.key, engine.Queue) && s.allowed(j) >= j.minCount:
		r.fail(s, "%s waits for its queue, which leaves room for it", j.name)
	case s.engine.Waits.WaitsFor(j.key, engine.ProtectionEnds):
		if !timed || s.nextLook.IsZero() || s.nextLook.After(next) {
			r.fail(s, "%s waits for a protection to end, and the list is not looked at then", j.name)
		}
	case len(j.promises) > 0:
		r.fail(s, "%s is promised room, and waits for no victim", j.name)
	case s.engine.Waits.WaitsFor(j.key, engine.Queue), s.engine.Waits.WaitsFor(j.key, engine.Reserved):
		if !anyone(func(*pod) bool { return true }) && !slices.ContainsFunc(s.waiting, func(other *job) bool { return len(other.promises) > 0 }) && !j.hopeless {
			r.fail(s, "%s waits for room in an empty cluster", j.name)
		}
	default:
		// The job is retried whenever a pod leaves a node, so a pod must be on some node.
		if !anyone(func(*pod) bool { return true }) && !j.hopeless {
			r.fail(s, "%s waits in an empty cluster", j.name)
		}
	}
}

// toldTheSame checks that a decision for the job would also find no room.
func (r *referee) toldTheSame(s *simulation, j *job, p *core.Preemptor, held []core.Hold) {
	d, err := s.decide(j, p, held)
	if err != nil || d.Outcome != core.Infeasible {
		r.fail(s, "%s is told that there is no room, and the decision is %s, %s (%v)", j.name, d.Outcome, d.Message, err)
	}
	r.same++
	r.outcomes[d.Outcome]++
}

func (r *referee) overLimit(s *simulation, j *job) {
	fmt.Fprintf(&r.log, "%s %s/%s is over a limit\n", s.clock(), j.key, j.uid())
}

// inWords returns a description of a decision for the log.
func (s *simulation) inWords(j *job, d *core.Decision) string {
	var on []string
	for _, pl := range d.Placements {
		on = append(on, pl.Node)
	}
	var victims strings.Builder
	for i := range d.Victims {
		fmt.Fprintf(&victims, "; %s by %s", d.Victims[i].UID, d.Victims[i].Rule)
	}
	return fmt.Sprintf("%s %s/%s %s: %s; on [%s]%s\n", s.clock(), j.key, j.uid(), d.Outcome, d.Message, strings.Join(on, " "), victims.String())
}

func (s *simulation) clock() string { return s.now.Format("02T15:04:05.000") }

func (r *referee) decided(s *simulation, j *job, p *core.Preemptor, d *core.Decision) {
	r.log.WriteString(s.inWords(j, d))
	r.outcomes[d.Outcome]++
	if d.Outcome != core.Infeasible && len(d.Placements) < j.minCount {
		r.fail(s, "%s is placed with %d of %d pods", j.name, len(d.Placements), j.minCount)
	}
	if (len(d.Victims) > 0) != (d.Outcome == core.Preempts) {
		r.fail(s, "%s has the outcome %s with %d victims", j.name, d.Outcome, len(d.Victims))
	}
	victims := s.victimsOf(d)
	r.leavesPromises(s, j, d, victims)
	for i := range d.Victims {
		r.rules[d.Victims[i].Rule]++
	}
	c := &contest{referee: r, s: s, j: j, p: p, used: s.stayingByQueue(j)}
	c.after = slices.Clone(c.used)
	for i, a := range c.after {
		c.after[i] = slices.Clone(a)
	}
	for _, v := range victims {
		if v.leaving() {
			r.fail(s, "%s takes %s, which is leaving already", j.name, v.uid)
		}
		c.judge(v, ruleOf(d, v), victims)
	}
	c.quotas(victims)
}

// leavesPromises checks that a decision does not use room that is reserved for other jobs. The
// reserved room must be free now, or after terminating pods and victims have left.
func (r *referee) leavesPromises(s *simulation, j *job, d *core.Decision, victims []*pod) {
	held := s.promises(j)
	for _, n := range s.nodes {
		left, goes := n.free(), 0
		for _, p := range n.pods {
			if d.Outcome != core.Fits && p.leaving() || slices.Contains(victims, p) {
				add(left, p.request, 1)
			}
		}
		for _, h := range held {
			if h.Node == n.name {
				add(left, h.Request, -1)
			}
		}
		for _, pl := range d.Placements {
			if pl.Node == n.name {
				goes++
				add(left, j.requests[0], -1)
			}
		}
		for i, v := range left {
			if goes > 0 && j.requests[0][i] > 0 && v < 0 {
				r.fail(s, "%s (%s) goes to %s, which is %d %s short of what has been promised there", j.name, d.Outcome, n.name, -v, s.ledger.resources[i])
			}
		}
	}
}

// ruleOf returns the rule by which a decision evicts a pod.
func ruleOf(d *core.Decision, p *pod) core.Rule {
	for i := range d.Victims {
		if slices.ContainsFunc(d.Victims[i].Pods, func(v core.VictimPod) bool { return v.UID == p.uid }) {
			return d.Victims[i].Rule
		}
	}
	return ""
}

// stayingByQueue returns the usage of each queue. It omits terminating pods and includes the
// reservations of all jobs except one.
func (s *simulation) stayingByQueue(except *job) []core.Amounts {
	tree := s.ledger.tree
	out := make([]core.Amounts, tree.Len())
	for q := range out {
		out[q] = s.promisedIn(int32(q), except)
	}
	for _, n := range s.nodes {
		for _, p := range n.pods {
			for q := tree.LeafOf(p.job.queue); q >= 0 && !p.leaving(); q = tree.Parent(q) {
				add(out[q], p.request, 1)
			}
		}
	}
	return out
}

// contest is a decision that the referee checks, with its preemptor.
type contest struct {
	*referee
	s *simulation
	j *job
	p *core.Preemptor
	// used is the usage of each queue before the decision. after is the usage of each queue without
	// the victims of reclaim.
	used, after []core.Amounts
}

// judge checks that the decision's rule permits the eviction of the pod v.
func (c *contest) judge(v *pod, rule core.Rule, victims []*pod) {
	s, j, tree := c.s, c.j, c.s.ledger.tree
	mine, theirs := tree.LeafOf(j.queue), tree.LeafOf(v.job.queue)
	between := mine >= 0 && theirs >= 0 && mine != theirs
	switch {
	case between && rule != core.RuleReclaim || !between && rule != core.RuleLowerPriority:
		c.fail(s, "%s of %q takes %s of %q by %q", j.name, j.queue, v.uid, v.job.queue, rule)
	case !between && v.job.priority >= j.priority:
		c.fail(s, "%s of priority %d takes %s of %d", j.name, j.priority, v.uid, v.job.priority)
	case v.job == j:
		c.fail(s, "%s takes a pod of its own", j.name)
	}
	if v.job.whole && !slices.Equal(ofJob(victims, v.job), v.job.staying()) {
		c.fail(s, "%s takes %d of the %d pods of %s, which goes whole", j.name, len(ofJob(victims, v.job)), len(v.job.staying()), v.job.name)
	}
	if ends := v.job.began.Add(v.job.tolerates); v.job.tolerates > 0 && j.priority < v.job.tolerated && !s.now.After(ends) {
		c.fail(s, "%s takes %s, which tolerates that until %s", j.name, v.uid, ends)
	}
	from, setting := theirs, func(q *fairshare.Queue) int64 { return q.PreemptMinRuntime }
	if between {
		from, setting = c.side(theirs), func(q *fairshare.Queue) int64 { return q.ReclaimMinRuntime }
	}
	_, runtime := tree.MinRuntime(from, 0, setting)
	if ends := v.job.began.Add(time.Duration(runtime)); runtime > 0 && !s.now.After(ends) {
		elastic := v.job.gang && !v.job.whole
		if surplus := len(v.job.unmoved()) - v.job.minCount; !elastic || len(ofJob(victims, v.job)) > surplus {
			c.fail(s, "%s takes %s, which is inside its min-runtime until %s", j.name, v.uid, ends)
		}
	}
	if between {
		c.reclaim(v)
	}
}

// ofJob returns the pods in the list that belong to a job, in the order of the job's pods.
func ofJob(pods []*pod, j *job) []*pod {
	var out []*pod
	for _, p := range j.pods {
		if slices.Contains(pods, p) {
			out = append(out, p)
		}
	}
	return out
}

// unmoved returns the running pods of a job that neither terminate nor are being evicted.
func (j *job) unmoved() []*pod {
	return slices.DeleteFunc(j.staying(), func(p *pod) bool { return p.taken })
}

// side returns the victim's queue on the level just below the lowest common ancestor of the
// preemptor's and the victim's leaf queues. The argument is the victim's leaf queue.
func (c *contest) side(theirs int32) int32 {
	tree := c.s.ledger.tree
	mine, top := tree.Path(tree.LeafOf(c.j.queue)), theirs
	for _, q := range tree.Path(theirs) {
		if slices.Contains(mine, q) {
			break
		}
		top = q
	}
	return top
}

// reclaim checks that reclaim permits the eviction of v. Let P and V be the queues of the preemptor
// and of the victim, on the level just below their lowest common ancestor. P must stay within its
// fair share, and V must be above its fair share. Alternatively, P must stay within its quota, and
// V must be above its quota, in all resources that the preemptor's leaf queue has a quota for.
//
// The check does not cover a job that preempts in its own queue and reclaims in one decision. No
// simulated day so far had such a job.
func (c *contest) reclaim(v *pod) {
	tree, shares := c.s.ledger.tree, c.s.standing().Shares
	mine, theirs := tree.LeafOf(c.j.queue), tree.LeafOf(v.job.queue)
	top := c.side(theirs)
	share := func(q int32, r int) int64 { return shares[q][r] }
	quota := func(q int32, r int) int64 { return min(tree.Queue(q).Quota[r], shares[q][r]) }
	allowed := func(named bool, entitled func(q int32, r int) int64) bool {
		above := false
		for r, want := range c.j.requests[0] {
			if want == 0 {
				continue
			}
			to := entitled
			if named && tree.Queue(mine).Quota[r] == 0 {
				to = share
			} else {
				above = above || c.used[top][r] > to(top, r)
			}
			for q := mine; q >= 0 && q != tree.Parent(top); q = tree.Parent(q) {
				if c.used[q][r]+want*int64(c.j.minCount) > to(q, r) {
					return false
				}
			}
		}
		return above
	}
	if !allowed(false, share) && !allowed(true, quota) {
		c.fail(c.s, "%s of %s reclaims from %s, and is entitled to that neither by fair share nor by quota", c.j.name, c.j.queue, tree.Queue(top).Name)
	}
	for q := theirs; q >= 0; q = tree.Parent(q) {
		add(c.after[q], v.request, -1)
	}
}

// holding returns the index of the resource with the highest ratio of the victim's request to the
// quota, or -1 if there is none. It considers devices first, then other kinds of resources.
func (c *contest) holding(quota core.Amounts, v *pod) int {
	for _, kind := range []fairshare.Kind{fairshare.Device, fairshare.Basic, fairshare.Bound} {
		best, most := -1, 0.0
		for r, name := range c.s.ledger.resources {
			if quota[r] == 0 || fairshare.KindOf(name) != kind {
				continue
			}
			if part := float64(v.request[r]) / float64(quota[r]); part > most {
				best, most = r, part
			}
		}
		if best >= 0 {
			return best
		}
	}
	return -1
}

// quotas checks that reclaim by other queues leaves no queue below its quota.
func (c *contest) quotas(victims []*pod) {
	tree, shares := c.s.ledger.tree, c.s.standing().Shares
	for _, v := range victims {
		theirs := tree.LeafOf(v.job.queue)
		if mine := tree.LeafOf(c.j.queue); mine < 0 || theirs < 0 || mine == theirs {
			continue
		}
		for q, past := theirs, tree.Parent(c.side(theirs)); q != past; q = tree.Parent(q) {
			r := c.holding(tree.Queue(q).Quota, v)
			if r < 0 {
				continue
			}
			if quota := min(tree.Queue(q).Quota[r], shares[q][r]); c.after[q][r] < quota {
				c.fail(c.s, "%s leaves %s with %d of its quota of %d", c.j.name, tree.Queue(q).Name, c.after[q][r], quota)
			}
		}
	}
}
