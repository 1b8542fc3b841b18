package scheduler

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/filters"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// seekerKey is the key in the cycle state for the seeker of the pod.
const seekerKey fwk.StateKey = Name + "/seeker"

// seeker holds the facts that Filter needs about the pod of a cycle.
type seeker struct {
	// confined is the planned node of the pod, or "".
	confined string
	// apart is true if the pod must avoid nodes with reservations for pods that claim devices or
	// local volumes.
	apart bool
	// kept is the room for lost members of gangs that this pod must not use.
	kept []*engine.Reservation
	workload.Standing
	request fwk.Resource
	// ignored are the requested resources that the profile's resource filter does not check.
	// delegated are the resources that the filter leaves to DynamicResources on nodes without them.
	ignored, delegated sets.Set[corev1.ResourceName]
}

// Clone is part of fwk.StateData. It returns the same seeker, because a seeker never changes.
func (s *seeker) Clone() fwk.StateData { return s }

// restrictFilter prepares Filter for a cycle of a pod. The options restrict the nodes that the pod
// may use.
func (p *Plugin) restrictFilter(state fwk.CycleState, pod *corev1.Pod, but ...func(*seeker)) *fwk.Status {
	pi, err := framework.NewPodInfo(pod)
	if err != nil {
		return fwk.AsStatus(err)
	}
	s := seekerOf(pi, p.sched.standingOf(pod), p.resources)
	for _, say := range but {
		say(s)
	}
	state.Write(seekerKey, s)
	return nil
}

// onlyOn confines a pod to the planned node.
func onlyOn(node string) func(*seeker) { return func(s *seeker) { s.confined = node } }

// apart makes a pod avoid nodes with reservations for pods that claim devices or local volumes.
func apart(s *seeker) { s.apart = true }

// beside makes a pod avoid the room that is reserved for lost members of gangs.
func beside(kept []*engine.Reservation) func(*seeker) { return func(s *seeker) { s.kept = kept } }

// wasKeptOut reports whether room for lost members of gangs excluded the pod of a cycle from any
// node.
func wasKeptOut(state fwk.CycleState) bool {
	data, err := state.Read(seekerKey)
	if err != nil {
		return false
	}
	s, ok := data.(*seeker)
	return ok && len(s.kept) > 0
}

// seekerOf returns the seeker for a pod. resources says which resources the profile's filter
// checks.
func seekerOf(pod fwk.PodInfo, standing workload.Standing, resources snapshot.ResourceFilter) *seeker {
	s := &seeker{
		Standing: standing, request: pod.CalculateResource().Resource,
		ignored: sets.New[corev1.ResourceName](), delegated: sets.New[corev1.ResourceName](),
	}
	for name := range s.request.GetScalarResources() {
		if resources.Ignores(name) {
			s.ignored.Insert(name)
		}
		if resources.Delegates(name) {
			s.delegated.Insert(name)
		}
	}
	return s
}

// confinedTo returns the planned node for the pod of a cycle, or "".
func confinedTo(state fwk.CycleState) string {
	data, err := state.Read(seekerKey)
	if err != nil {
		return ""
	}
	if s, ok := data.(*seeker); ok {
		return s.confined
	}
	return ""
}

// Filter rejects a node if reserved room there is closed to the pod. It also confines members to
// their planned nodes, even if the framework prefers a node from an earlier nomination.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	data, err := state.Read(seekerKey)
	if err != nil {
		return nil
	}
	s, ok := data.(*seeker)
	if !ok {
		return nil
	}
	name := node.Node().Name
	if s.confined != "" && s.confined != name {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) other than the one planned for this member")
	}
	reserved := p.sched.reserved.On(name)
	kept := keptOn(s.kept, name)
	if len(reserved)+len(kept) == 0 {
		return nil
	}
	held := append(heldFrom(reserved, node, s.Standing, pod.UID), kept...)
	if s.apart && slices.ContainsFunc(held, func(r *engine.Reservation) bool { return filters.IsClaimant(p.handle, podIn(r)) }) {
		return fwk.NewStatus(fwk.Unschedulable, "node(s) with devices or volumes that are kept for other pods")
	}
	if len(held) > 0 && !s.fitsBeside(node, held) {
		return fwk.NewStatus(fwk.Unschedulable, "node(s) with room that is kept for pods of another queue, or of the same or a higher priority")
	}
	return nil
}

// heldFrom returns the reservations on a node whose room is closed to a pod of the given standing.
// It omits the pod's own reservation, and reservations of pods that the NodeInfo counts already.
func heldFrom(reserved []*engine.Reservation, node fwk.NodeInfo, from workload.Standing, own types.UID) []*engine.Reservation {
	var held []*engine.Reservation
	for _, r := range reserved {
		if r.UID != string(own) && r.KeepsFrom(from) && !isUsedOn(r, node) {
			held = append(held, r)
		}
	}
	return held
}

// fitsBeside reports whether a node has room for the pod beside reservations. As in
// NodeResourcesFit, only the resources that the pod requests count.
func (s *seeker) fitsBeside(node fwk.NodeInfo, held []*engine.Reservation) bool {
	request := s.request
	room, used := node.GetAllocatable(), node.GetRequested()
	if len(node.GetPods())+len(held)+1 > room.GetAllowedPodNumber() {
		return false
	}
	fits := func(want int64, of func(fwk.Resource) int64) bool {
		if want == 0 {
			return true
		}
		left := of(room) - of(used)
		for _, s := range held {
			left -= of(podInfoIn(s).CalculateResource().Resource)
		}
		return want <= left
	}
	if !fits(request.GetMilliCPU(), fwk.Resource.GetMilliCPU) || !fits(request.GetMemory(), fwk.Resource.GetMemory) ||
		!fits(request.GetEphemeralStorage(), fwk.Resource.GetEphemeralStorage) {
		return false
	}
	for name, want := range request.GetScalarResources() {
		of := func(r fwk.Resource) int64 { return r.GetScalarResources()[name] }
		isLeft := s.ignored.Has(name) || s.delegated.Has(name) && of(room) == 0
		if !isLeft && !fits(want, of) {
			return false
		}
	}
	return true
}
