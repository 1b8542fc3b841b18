package scheduler

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

const (
	// mostReservedNodes is the maximum number of nodes with reservations that one message examines.
	mostReservedNodes = 64
	// mostHolders is the maximum number of nodes in a message, and of workloads for each node.
	mostHolders = 3
)

// reservedSentence returns a sentence that names nodes where the preemptor would fit without the
// reserved room, and the workloads with these reservations; "" for none. Terminating pods count as
// gone, as in a decision.
func (p *Plugin) reservedSentence(pre *preemptor, kept []*engine.Reservation, classes []snapshot.Class) string {
	var said []string
	for _, node := range p.someReserved(kept) {
		if holders := p.holders(pre, kept, classes, node); len(holders) > 0 {
			said = append(said, fmt.Sprintf("room on node %s is reserved for %s", node, strings.Join(core.FewNames(holders, mostHolders), ", ")))
		}
	}
	return strings.Join(core.FewNames(said, mostHolders), "; ")
}

// someReserved returns up to mostReservedNodes nodes with reservations or with kept room for lost
// members, sorted by name.
func (p *Plugin) someReserved(kept []*engine.Reservation) []string {
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

// reportReserved changes the reported status of nodes where only reservations exclude a single pod.
// Without this change, the status would report an insufficient resource, because the framework
// counts nominated pods as pods on the node.
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

// holders returns the names of the workloads and lost members whose reserved room excludes the
// preemptor from a node; nil if none does.
func (p *Plugin) holders(pre *preemptor, kept []*engine.Reservation, classes []snapshot.Class, node string) []string {
	info := p.sched.placements.Staying(node)
	if info == nil {
		return nil
	}
	held := slices.DeleteFunc(heldFrom(p.sched.reserved.On(node), info, pre.standing(), ""), func(r *engine.Reservation) bool {
		return p.sched.index.Owns(pre.key, cluster.PodIn(r))
	})
	held = append(held, keptOn(kept, node)...)
	isKept := slices.ContainsFunc(classes, func(c snapshot.Class) bool {
		s := seekerOf(c.Pods[0], pre.standing(), p.resources)
		return s.fitsBeside(info, nil) && !s.fitsBeside(info, held) && p.sched.index.CouldRunOn(info.Node(), c.Pods[0].GetPod())
	})
	if !isKept {
		return nil
	}
	var names []string
	for _, r := range held {
		key, ok := p.sched.reserved.KeyOf(r.UID)
		if !ok && slices.Contains(kept, r) {
			key, ok = gangKey(p.sched.index.GroupKeyOf(cluster.PodIn(r))), true
		}
		if name := fmt.Sprintf("%s (priority %d)", key, r.Priority); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// reserveRooms replaces all reservations of a workload. It makes no reservation for pods that the
// engine does not know; see [stepper.ensurePresent].
func (s *stepper) reserveRooms(key workload.Key, rooms []*engine.Reservation) {
	for _, r := range rooms {
		// The first call of CalculateResource stores its result in the PodInfo. Make that call
		// here, because other goroutines read the PodInfo from now on.
		cluster.PodInfoIn(r).CalculateResource()
	}
	s.step(engine.Reserves{Key: key, Rooms: rooms})
}

// nodesByUID converts the UIDs in a sequence of pods and nodes to the engine's type.
func nodesByUID(nodes iter.Seq2[types.UID, string]) iter.Seq2[engine.UID, string] {
	return func(yield func(engine.UID, string) bool) {
		for uid, node := range nodes {
			if !yield(string(uid), node) {
				return
			}
		}
	}
}

// isUsedOn reports whether a NodeInfo already contains the pod of a reservation.
func isUsedOn(r *engine.Reservation, node fwk.NodeInfo) bool {
	return slices.ContainsFunc(node.GetPods(), func(pi fwk.PodInfo) bool { return string(pi.GetPod().UID) == r.UID })
}
