package controller

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// GroupsOf sets the trees of CompositePodGroups. The status of each group in a tree then shows why
// the tree waits.
func (s *Status) GroupsOf(trees *gang.Trees) { s.trees = trees }

// workloadOf returns, for a group that is a part of a workload in a tree, the group of the whole
// workload. It returns false for every other group.
func (s *Status) workloadOf(key types.NamespacedName) (*gang.Group, bool) {
	if s.trees == nil {
		return nil, false
	}
	leaves := s.trees.Leaves(key)
	if len(leaves) == 0 {
		return nil, false
	}
	if workload := s.trees.WorkloadOf(leaves[0]); workload != key {
		return s.source.Group(workload)
	}
	return nil, false
}

// partVerdict is like verdict, for a group that is a part of a tree.
func (s *Status) partVerdict(workload, part *gang.Group, m *gang.Members) (gang.Verdict, bool) {
	if part.IsPlaced(m) {
		msg := fmt.Sprintf("%d members have a node", m.Placed())
		if v := workload.Flaw; v != (gang.Verdict{}) {
			msg += "; " + v.Message
		}
		return gang.Verdict{Reason: v1alpha1.ReasonScheduled, Message: msg}, true
	}
	if workload.Flaw != (gang.Verdict{}) {
		return workload.Flaw, false
	}
	if part.Flaw != (gang.Verdict{}) {
		return part.Flaw, false
	}
	all := s.members.Members(workload.Key)
	v, scheduled := s.verdict(workload, &all)
	switch {
	case !scheduled:
		return v, false
	case !part.IsGang() && m.Placed() > 0:
		return gang.Verdict{Reason: v1alpha1.ReasonScheduled, Message: fmt.Sprintf("%d members have a node", m.Placed())}, true
	}
	return gang.Verdict{
		Reason:  v1alpha1.ReasonPending,
		Message: gang.Title(workload.Key) + " runs without this group, which is placed as soon as it fits as a whole",
	}, false
}

// runOf returns the run of a group. It is zero for a part of a tree, because only the whole
// workload has a run.
func (s *Status) runOf(g *gang.Group) engine.Run {
	if _, isPart := s.workloadOf(g.Key); isPart {
		return engine.Run{}
	}
	return s.runs.Look(s.knownAs(g), s.clock.Now())
}
