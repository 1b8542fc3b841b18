package scheduler

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// partChanged handles a created, changed or deleted CompositePodGroup, or a PodGroup that has or
// had a parent. workloads and moves are the results of [gang.Trees.Changed]. Any goroutine may call
// it once the scheduler runs.
func (pw *podWatch) partChanged(key types.NamespacedName, workloads []types.NamespacedName, moves []gang.Move) {
	if !slices.Contains(workloads, key) {
		var disrupted []v1alpha1.DisruptedPod
		if g, ok := pw.index.Groups.Group(key); ok {
			disrupted = g.Disrupted
		}
		pw.departures.disrupted(key, disrupted)
		pw.cluster.GroupChanged(key)
	}
	for _, move := range moves {
		pw.partMoved(move)
	}
	for _, workload := range workloads {
		pw.groupWatch.changed(workload)
	}
}

// partMoved handles a PodGroup whose pods now belong to another workload. If the PodGroup was a
// workload before, partMoved removes all state of that workload. Later events cannot do that,
// because the events of its pods now concern the workload of the tree.
func (pw *podWatch) partMoved(move gang.Move) {
	inTree := gang.IsTree(move.From)
	members := pw.index.Lister.Members(move.PodGroup)
	for _, pods := range [][]*corev1.Pod{members.Pending, members.Gated, members.Refused, members.Assigned, members.Terminating, members.Succeeded, members.Finished} {
		for _, pod := range pods {
			pw.workloadChanged(pod, move.From, inTree)
		}
	}
	if !inTree {
		pw.steps.step(engine.GroupLeaves{Group: gangKey(move.From)})
		pw.recorded.end(gangKey(move.From), decisionlog.Gone)
	}
}

// enter restricts a preemptor to the pods of a round.
func (pre *preemptor) enter(r gang.Round) {
	pre.pods, pre.minCount, pre.further, pre.never = r.Pods, r.MinCount, r.Further, pre.never || r.Further
}

// decideRounds makes decisions for the rounds of a tree until one fits. The preemptor then has the
// pods of the last round that was decided.
func (p *Plugin) decideRounds(ctx context.Context, pre *preemptor) (*cycleDecision, gang.Verdict, error) {
	rounds := pre.rounds
	pre.rounds = nil
	for i, r := range rounds {
		one := *pre
		one.enter(r)
		made, v, err := p.decideGang(ctx, &one)
		if err != nil || i == len(rounds)-1 || v == (gang.Verdict{}) && made.decision.Outcome == core.Fits {
			*pre = one
			return made, v, err
		}
	}
	return p.decideGang(ctx, pre)
}

// noPart returns the verdict on a tree if all waiting members belong to groups that lack members;
// the zero Verdict otherwise.
func noPart(pre *preemptor) gang.Verdict {
	if pre.group == nil || pre.group.Tree == nil || len(pre.pods) > 0 {
		return gang.Verdict{}
	}
	return gang.Verdict{
		Reason:  v1alpha1.ReasonNotEnoughGroups,
		Message: joined(fmt.Sprintf("no group of %s with waiting members has as many as it needs", gang.Title(pre.group.Key)), pre.keptOut),
	}
}
