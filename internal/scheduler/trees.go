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

// treed is a Derived that assigns the pods of a tree to the workload of the tree. The PodGroups of
// the tree are the roles of that workload.
type treed struct {
	Derived
	trees *gang.Trees
}

// GroupOf is part of gang.Membership.
func (d treed) GroupOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	return d.trees.Membership(d.Derived).GroupOf(pod)
}

// MinCount is part of Derived.
func (d treed) MinCount(key types.NamespacedName) (int, bool) {
	if !gang.IsTree(key) {
		return d.Derived.MinCount(key)
	}
	g, ok := d.trees.Group(key)
	if !ok {
		return 0, false
	}
	return g.MinCount, true
}

// RoleOf is part of Derived.
func (d treed) RoleOf(pod *corev1.Pod) (role string, needed int) {
	if name, minCount, ok := d.trees.PartOf(pod); ok {
		return name, minCount
	}
	return d.Derived.RoleOf(pod)
}

// MinGroupCount returns the minGroupCount that the owner of a derived tree demands now; false for a
// tree that is not derived.
func (d treed) MinGroupCount(key types.NamespacedName) (int, bool) { return d.Derived.MinCount(key) }

// roleInSeal returns the role that the seal of a pod records. If the PodGroup of the pod is derived
// from an object, it is the role that the object defines, even in a tree. Otherwise, it is the
// pod's part of the tree.
func (r *clusterIndex) roleInSeal(pod *corev1.Pod) string {
	if d, ok := r.derived.(treed); ok {
		if role, _ := d.Derived.RoleOf(pod); role != "" {
			return role
		}
	}
	role, _ := r.derived.RoleOf(pod)
	return role
}

// behindInTree returns the reason why a tree is behind its object; the zero Verdict if it is not. A
// derived tree is behind if it needs fewer groups, or one of its groups fewer members, than its
// owner demands now. The method behind calls it.
func (r *clusterIndex) behindInTree(g *gang.Group) gang.Verdict {
	d, ok := r.derived.(treed)
	if !ok {
		return gang.Verdict{}
	}
	if want, derived := d.MinGroupCount(g.Key); derived && g.Tree.Need < want {
		return gang.Verdict{
			Reason:  v1alpha1.ReasonBehindItsObject,
			Message: fmt.Sprintf("%s needs %d groups now, and is placed after Reprieve has raised this number to %d", gang.Title(g.Key), g.Tree.Need, want),
		}
	}
	for _, leaf := range g.Tree.Leaves() {
		if want, derived := d.MinCount(leaf); derived && g.Tree.NeedOf(leaf.Name) < want {
			return gang.Verdict{
				Reason:  v1alpha1.ReasonBehindItsObject,
				Message: fmt.Sprintf("PodGroup %s needs %d members now, and its tree is placed after Reprieve has raised this number to %d", leaf, g.Tree.NeedOf(leaf.Name), want),
			}
		}
	}
	return gang.Verdict{}
}

// partChanged handles a created, changed or deleted CompositePodGroup, or a PodGroup that has or
// had a parent. workloads and moves are the results of [gang.Trees.Changed]. Any goroutine may call
// it once the scheduler runs.
func (pw *podWatch) partChanged(key types.NamespacedName, workloads []types.NamespacedName, moves []gang.Move) {
	if !slices.Contains(workloads, key) {
		var disrupted []v1alpha1.DisruptedPod
		if g, ok := pw.index.groups.Group(key); ok {
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
// workload before, partMoved removes all state of that workload. No later event would do that,
// because the events of its pods now concern the tree.
func (pw *podWatch) partMoved(move gang.Move) {
	inTree := gang.IsTree(move.From)
	members := pw.index.lister.Members(move.PodGroup)
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

// workloadOf returns the group that the members of a group are scheduled with. For a group in a
// tree, it is the group of the tree's workload.
func (r *clusterIndex) workloadOf(key types.NamespacedName) (*gang.Group, bool) {
	if r.trees != nil {
		for _, leaf := range r.trees.Leaves(key) {
			return r.groups.Group(r.trees.WorkloadOf(leaf))
		}
	}
	return r.groups.Group(key)
}

// unitOf returns the group that a pod is evicted with; false for a pod without a group.
func (r *clusterIndex) unitOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	key, ok := r.groupOf(pod)
	if !ok || !gang.IsTree(key) {
		return key, ok
	}
	named, _ := r.trees.PodGroupOf(pod)
	return r.trees.UnitOf(named), true
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
