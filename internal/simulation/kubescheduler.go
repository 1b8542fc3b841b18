package simulation

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// A model of kube-scheduler's preemption, where only room matters and there are no disruption budgets: the plugin
// DefaultPreemption with its default arguments. On each node it takes all pods of lower priority away, and puts those back
// that the preemptor has room beside, the most important first. Nodes are compared by the highest priority of their
// victims, then the sum of their priorities, their number, and the earliest start among the most important of them, of
// which the latest is best. It looks at nodes from a random one on until it has found enough.

const (
	// minCandidatesPercentage and minCandidates are the defaults of DefaultPreemption: of how many nodes it looks at a
	// tenth, but at a hundred at least.
	minCandidatesPercentage, minCandidates = 10, 100
)

// decideByPod decides for a single pod by kube-scheduler's rule. Where it fits as things are, it goes where Reprieve would
// put it.
func (s *simulation) decideByPod(j *job, p *core.Preemptor, held []core.Hold) (core.Decision, error) {
	alone := *p
	alone.Never = true
	d, err := core.Decide(s.cluster.Snapshot(held...), &alone, core.Arithmetic{})
	if err != nil || d.Outcome == core.Fits {
		return d, err
	}
	reserved := make(map[string]core.Amounts)
	for _, h := range held {
		if reserved[h.Node] == nil {
			reserved[h.Node] = make(core.Amounts, len(h.Request))
		}
		add(reserved[h.Node], h.Request, 1)
	}
	if n := s.waitsOn(j); n != nil {
		return decidedOn(p, j, n, nil, core.Waits), nil
	}
	if j.never {
		return infeasible(p, j), nil
	}
	if best := s.bestCandidate(j, reserved); best != nil && len(best.victims) > 0 {
		return decidedOn(p, j, best.node, best.victims, core.Preempts), nil
	} else if best != nil {
		return decidedOn(p, j, best.node, nil, core.Waits), nil
	}
	return infeasible(p, j), nil
}

// waitsOn is the node that a pod is nominated to where victims of lower priority are still on their way out; nil where it
// may preempt anew.
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

// candidate is a node with those that would have to go.
type candidate struct {
	node    *node
	victims []*pod
}

// bestCandidate looks for the node that costs least; nil where none helps.
func (s *simulation) bestCandidate(j *job, reserved map[string]core.Amounts) *candidate {
	enough := min(max(len(s.nodes)*minCandidatesPercentage/100, minCandidates), len(s.nodes))
	var best *candidate
	found, offset := 0, s.random.IntN(len(s.nodes))
	for i := range s.nodes {
		n := s.nodes[(offset+i)%len(s.nodes)]
		victims, ok := victimsOn(n, j, reserved[n.name])
		if !ok {
			continue
		}
		if c := (&candidate{n, victims}); best == nil || c.compare(best) < 0 {
			best = c
		}
		if found++; found >= enough {
			break
		}
	}
	return best
}

// victimsOn are the pods that have to leave a node for a job, the most important first; false where that is no help.
func victimsOn(n *node, j *job, reserved core.Amounts) ([]*pod, bool) {
	request := j.requests[0]
	if !fitsIn(request, n.allocatable) {
		return nil, false
	}
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
	if len(lower) == 0 || !fitsIn(request, free) {
		return nil, false
	}
	slices.SortStableFunc(lower, func(a, b *pod) int {
		return cmp.Or(cmp.Compare(b.job.priority, a.job.priority), a.job.began.Compare(b.job.began))
	})
	var victims []*pod
	for _, p := range lower {
		add(free, p.request, -1)
		if fitsIn(request, free) {
			continue
		}
		add(free, p.request, 1)
		// One that is on its way out already has to be told nothing.
		if !p.leaving() {
			victims = append(victims, p)
		}
	}
	return victims, true
}

func fitsIn(request, free core.Amounts) bool {
	for r, v := range request {
		if v > 0 && v > free[r] {
			return false
		}
	}
	return true
}

// compare is negative where a candidate is better than another one. Without victims it is better than any.
func (c *candidate) compare(other *candidate) int {
	if len(c.victims) == 0 || len(other.victims) == 0 {
		return cmp.Compare(len(c.victims), len(other.victims))
	}
	mine, theirs := c.victims[0].job.priority, other.victims[0].job.priority
	return cmp.Or(
		cmp.Compare(mine, theirs),
		cmp.Compare(c.sum(), other.sum()),
		cmp.Compare(len(c.victims), len(other.victims)),
		cmp.Compare(other.earliest(), c.earliest()),
	)
}

// sum adds up the priorities, each raised to be positive.
func (c *candidate) sum() int64 {
	sum := int64(0)
	for _, v := range c.victims {
		sum += int64(v.job.priority) + math.MaxInt32 + 1
	}
	return sum
}

// earliest is the first start among the most important victims.
func (c *candidate) earliest() int64 {
	first := int64(math.MaxInt64)
	for _, v := range c.victims {
		if v.job.priority == c.victims[0].job.priority {
			first = min(first, v.job.began.UnixNano())
		}
	}
	return first
}

// decidedOn is the decision for one pod and one node.
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
	return core.Decision{Outcome: core.Infeasible, Preemptor: *p, Message: fmt.Sprintf("no node has room for %s, whatever goes", j.name)}
}
