package scheduler

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/reservation"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

const (
	// mostReservedNodes is the largest number of nodes with reservations that are examined for a
	// message.
	mostReservedNodes = 64
	// mostHolders is the largest number of nodes in a message, and of workloads for each node.
	mostHolders = 3
)

// reservedSentence returns a sentence about nodes where the preemptor would fit if no room were
// reserved, with the workloads of these reservations; "" for none. Terminating pods count as gone,
// as in a decision.
func (p *Plugin) reservedSentence(pre *preemptor, kept []*reservation.Reservation, classes []snapshot.Class) string {
	var said []string
	for _, node := range p.someReserved(kept) {
		if holders := p.holders(pre, kept, classes, node); len(holders) > 0 {
			said = append(said, fmt.Sprintf("room on node %s is reserved for %s", node, strings.Join(core.FewNames(holders, mostHolders), ", ")))
		}
	}
	return strings.Join(core.FewNames(said, mostHolders), "; ")
}

// someReserved lists up to mostReservedNodes nodes with reservations, or with room that is kept for
// lost members of gangs, sorted by name.
func (p *Plugin) someReserved(kept []*reservation.Reservation) []string {
	nodes := sets.New[string]()
	for _, r := range kept {
		nodes.Insert(r.Node)
	}
	for node := range p.sched.reserved.Nodes() {
		nodes.Insert(node)
	}
	names := sets.List(nodes)
	return names[:min(len(names), mostReservedNodes)]
}

// reportReserved replaces the status of nodes where only reservations block a single pod. The
// framework counts nominated pods as pods on the node, so its filters would report that a resource
// is insufficient.
func (p *Plugin) reportReserved(made *cycleDecision, statuses fwk.NodeToStatusReader) {
	told, ok := statuses.(*framework.NodeToStatus)
	if !ok || !made.view.HasPromised() {
		return
	}
	classes, err := p.classesOf(&made.pre)
	if err != nil {
		return
	}
	kept := made.view.kept
	for _, node := range p.someReserved(kept) {
		if told.Get(node).Code() == fwk.Unschedulable && len(p.holders(&made.pre, kept, classes, node)) > 0 {
			told.Set(node, fwk.NewStatus(fwk.Unschedulable, "node(s) "+core.ReservedRoom))
		}
	}
}

// holders returns the names of the workloads, or lost members, whose reserved room blocks a node
// for the preemptor.
func (p *Plugin) holders(pre *preemptor, kept []*reservation.Reservation, classes []snapshot.Class, node string) []string {
	info := p.sched.staying(node)
	if info == nil {
		return nil
	}
	held := slices.DeleteFunc(heldFrom(p.sched.reserved.On(node), info, pre.standing(), ""), func(r *reservation.Reservation) bool {
		return p.sched.owns(pre, r.Pod.GetPod())
	})
	held = append(held, keptOn(kept, node)...)
	isKept := slices.ContainsFunc(classes, func(c snapshot.Class) bool {
		s := seekerOf(c.Pods[0], pre.standing(), p.resources)
		return s.fitsBeside(info, nil) && !s.fitsBeside(info, held) && p.sched.couldRunOn(info.Node(), c.Pods[0].GetPod())
	})
	if !isKept {
		return nil
	}
	var names []string
	for _, r := range held {
		key, ok := p.sched.reserved.KeyOf(r.UID)
		if !ok && slices.Contains(kept, r) {
			key, ok = gangKey(p.sched.groupKeyOf(r.Pod.GetPod())), true
		}
		if name := fmt.Sprintf("%s (priority %d)", key, r.Priority); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
