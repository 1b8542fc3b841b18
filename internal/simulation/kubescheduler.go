package simulation

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// This is a model of kube-scheduler's preemption, which is the plugin DefaultPreemption with its
// default arguments. The model considers only room, and has no disruption budgets.
//
// On each node, all pods with a lower priority are removed. Then the pods that fit beside the
// preemptor are restored, the most important first. The remaining pods are the victims. Pods that
// already terminate are among the victims, but are not evicted again.
//
// Nodes are compared by these criteria; the lowest value is best, except for the last criterion:
//
//   - the highest priority of a victim
//   - the sum of the victims' priorities
//   - the number of victims
//   - the earliest start of a victim with the highest priority; the latest value is best
//
// Only nodes that are large enough for the preemptor are considered. The search begins at a random
// node and ends when it has found enough candidates. TestModelOfKubeScheduler compares the model
// with the code of the plugin.

const (
	// minCandidatesPercentage and minCandidates are the default arguments of DefaultPreemption. The
	// search ends after a number of candidates: a tenth of the nodes, but at least a hundred. See
	// enoughOf.
	minCandidatesPercentage, minCandidates = 10, 100
)

// decideByPod makes a decision for a single pod by kube-scheduler's rule. If the pod fits without
// evictions, the core places it.
func (s *simulation) decideByPod(j *job, p *core.Preemptor, held []core.Hold) (core.Decision, error) {
	alone := *p
	alone.Never = true
	d, err := core.Decide(s.cluster.Snapshot(held...), &alone, core.Arithmetic{})
	if err != nil || d.Outcome == core.Fits {
		return d, err
	}
	if n := s.waitsOn(j); n != nil {
		return decidedOn(p, j, n, nil, core.Waits), nil
	}
	if j.never {
		return infeasible(p, j), nil
	}
	best := s.bestCandidate(j, reservedOn(held))
	if best == nil {
		return infeasible(p, j), nil
	}
	if told := best.staying(); len(told) > 0 {
		return decidedOn(p, j, best.node, told, core.Preempts), nil
	}
	return decidedOn(p, j, best.node, nil, core.Waits), nil
}

// reservedOn returns the sum of the reserved room for each node.
func reservedOn(held []core.Hold) map[string]core.Amounts {
	out := make(map[string]core.Amounts)
	for _, h := range held {
		if out[h.Node] == nil {
			out[h.Node] = make(core.Amounts, len(h.Request))
		}
		add(out[h.Node], h.Request, 1)
	}
	return out
}

// waitsOn returns the node that the pod is nominated to, if pods of lower priority still terminate
// there. While they do, kube-scheduler does not preempt for the pod again. If none does, waitsOn
// returns nil.
func (s *simulation) waitsOn(j *job) *node {
	if len(j.promises) == 0 {
		return nil
	}
	n := j.promises[0].node
	if slices.ContainsFunc(n.pods, func(p *pod) bool { return p.leaving() && p.job.priority < j.priority }) {
		return n
	}
	return nil
}

// candidate is a node with its victims, the most important first. Pods that already terminate are
// among the victims.
type candidate struct {
	node    *node
	victims []*pod
}

// staying returns the victims that do not terminate yet.
func (c *candidate) staying() []*pod {
	return slices.DeleteFunc(slices.Clone(c.victims), (*pod).leaving)
}

// bestCandidate returns the best candidate, or nil if there is none.
func (s *simulation) bestCandidate(j *job, reserved map[string]core.Amounts) *candidate {
	potential := largeEnough(s.nodes, j)
	if len(potential) == 0 {
		return nil
	}
	var best *candidate
	for _, c := range candidates(potential, j, reserved, s.random.IntN(len(potential)), enoughOf(len(potential))) {
		if best == nil || c.compare(best) < 0 {
			best = c
		}
	}
	return best
}

// largeEnough returns the nodes that would have room for the job if they were empty. kube-scheduler
// ignores all other nodes.
func largeEnough(nodes []*node, j *job) []*node {
	out := make([]*node, 0, len(nodes))
	for _, n := range nodes {
		if fitsIn(j.requests[0], n.allocatable) {
			out = append(out, n)
		}
	}
	return out
}

// enoughOf returns the number of candidates that end kube-scheduler's search, for the given number
// of nodes.
func enoughOf(nodes int) int {
	return min(max(nodes*minCandidatesPercentage/100, minCandidates), nodes)
}

// candidates returns nodes with their victims, beginning at the node with the index offset. The
// search ends when the number enough is reached.
func candidates(nodes []*node, j *job, reserved map[string]core.Amounts, offset, enough int) []*candidate {
	var out []*candidate
	for i := range nodes {
		n := nodes[(offset+i)%len(nodes)]
		if victims := victimsOn(n, j, reserved[n.name]); len(victims) > 0 {
			out = append(out, &candidate{n, victims})
		}
		if len(out) >= enough {
			break
		}
	}
	return out
}

// victimsOn returns the victims on a node for a job, the most important first. It returns nil if
// there would be no room even without them.
func victimsOn(n *node, j *job, reserved core.Amounts) []*pod {
	request := j.requests[0]
	free := slices.Clone(n.allocatable)
	add(free, reserved, -1)
	var lower []*pod
	for _, p := range n.pods {
		if p.job.priority >= j.priority {
			add(free, p.request, -1)
		} else {
			lower = append(lower, p)
		}
	}
	if !fitsIn(request, free) {
		return nil
	}
	slices.SortStableFunc(lower, func(a, b *pod) int {
		return cmp.Or(cmp.Compare(b.job.priority, a.job.priority), a.job.began.Compare(b.job.began))
	})
	var victims []*pod
	for _, p := range lower {
		add(free, p.request, -1)
		if !fitsIn(request, free) {
			add(free, p.request, 1)
			victims = append(victims, p)
		}
	}
	return victims
}

func fitsIn(request, free core.Amounts) bool {
	for r, v := range request {
		if v > 0 && v > free[r] {
			return false
		}
	}
	return true
}

// compare returns a negative number if c is better than other, and a positive number if c is worse.
func (c *candidate) compare(other *candidate) int {
	mine, theirs := c.victims[0].job.priority, other.victims[0].job.priority
	return cmp.Or(
		cmp.Compare(mine, theirs),
		cmp.Compare(c.sum(), other.sum()),
		cmp.Compare(len(c.victims), len(other.victims)),
		cmp.Compare(other.earliest(), c.earliest()),
	)
}

// sum returns the sum of the victims' priorities. As in kube-scheduler, a constant makes each
// summand positive.
func (c *candidate) sum() int64 {
	sum := int64(0)
	for _, v := range c.victims {
		sum += int64(v.job.priority) + math.MaxInt32 + 1
	}
	return sum
}

// earliest returns the earliest start of a victim with the highest priority, in nanoseconds since
// 1970.
func (c *candidate) earliest() int64 {
	first := int64(math.MaxInt64)
	for _, v := range c.victims {
		if v.job.priority == c.victims[0].job.priority {
			first = min(first, v.job.began.UnixNano())
		}
	}
	return first
}

// decidedOn returns the decision to place the job's pod on a node. The victims must end before
// that.
func decidedOn(p *core.Preemptor, j *job, n *node, victims []*pod, outcome core.Outcome) core.Decision {
	d := core.Decision{
		Outcome: outcome, Preemptor: *p, Placements: []core.Placement{{Member: j.pods[0].uid, UID: j.pods[0].uid, Node: n.name}},
		Message: fmt.Sprintf("pod fits on %s once %d pods are gone", n.name, len(victims)),
	}
	for _, v := range victims {
		d.Victims = append(d.Victims, core.Victim{
			Namespace: v.job.namespace, Name: v.uid, UID: v.uid, Priority: v.job.priority, Rule: core.RuleLowerPriority, Queue: v.job.queue,
			Pods: []core.VictimPod{{Namespace: v.job.namespace, Name: v.uid, UID: v.uid, Node: n.name}},
		})
	}
	return d
}

func infeasible(p *core.Preemptor, j *job) core.Decision {
	return core.Decision{Outcome: core.Infeasible, Preemptor: *p, Message: fmt.Sprintf("no node has room for %s, even if all potential victims are evicted", j.name)}
}
