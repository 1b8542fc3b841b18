package scheduler

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
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
func (p *Plugin) reservedSentence(pre *preemptor, kept []*engine.Reservation, classes []snapshot.Class) string {
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
func (p *Plugin) holders(pre *preemptor, kept []*engine.Reservation, classes []snapshot.Class, node string) []string {
	info := p.sched.staying(node)
	if info == nil {
		return nil
	}
	held := slices.DeleteFunc(heldFrom(p.sched.reserved.On(node), info, pre.standing(), ""), func(r *engine.Reservation) bool {
		return p.sched.owns(pre, podIn(r))
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
			key, ok = gangKey(p.sched.groupKeyOf(podIn(r))), true
		}
		if name := fmt.Sprintf("%s (priority %d)", key, r.Priority); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// podInfoIn returns the pod of a reservation, with its request.
func podInfoIn(r *engine.Reservation) fwk.PodInfo {
	info, _ := r.Pod.(fwk.PodInfo)
	return info
}

// podIn returns the pod of a reservation. The informer may have a newer version.
func podIn(r *engine.Reservation) *corev1.Pod { return podInfoIn(r).GetPod() }

// reserveRooms replaces the reservations of a workload. Pods that are not present get none; see
// [Scheduler.ensurePresent].
func (h *Scheduler) reserveRooms(key workload.Key, rooms []*engine.Reservation) {
	for _, r := range rooms {
		// The framework computes a pod's request at the first call and stores it in the PodInfo.
		// From here on, other goroutines read it.
		podInfoIn(r).CalculateResource()
	}
	h.step(engine.Reserves{Key: key, Rooms: rooms})
}

// nodesByUID converts the nodes of pods for the engine.
func nodesByUID(nodes iter.Seq2[types.UID, string]) iter.Seq2[engine.UID, string] {
	return func(yield func(engine.UID, string) bool) {
		for uid, node := range nodes {
			if !yield(string(uid), node) {
				return
			}
		}
	}
}

// isUsedOn reports whether a NodeInfo includes the pod of a reservation already.
func isUsedOn(r *engine.Reservation, node fwk.NodeInfo) bool {
	return slices.ContainsFunc(node.GetPods(), func(pi fwk.PodInfo) bool { return string(pi.GetPod().UID) == r.UID })
}
