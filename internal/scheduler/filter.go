package scheduler

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// seekerKey is where a cycle keeps what Filter has to know of its pod.
const seekerKey fwk.StateKey = Name + "/seeker"

// seeker is the pod of a cycle as Filter sees it.
type seeker struct {
	// confined is the node that the plan has for the pod, or "".
	confined string
	rank
	request fwk.Resource
	// ignored are the resources of the request that the profile's filter leaves to others.
	ignored sets.Set[corev1.ResourceName]
}

// Clone is part of fwk.StateData; a seeker is never changed.
func (s *seeker) Clone() fwk.StateData { return s }

// seek prepares Filter for a cycle; confined is the planned node, if there is one.
func (p *Plugin) seek(state fwk.CycleState, pod *corev1.Pod, confined string) *fwk.Status {
	pi, err := framework.NewPodInfo(pod)
	if err != nil {
		return fwk.AsStatus(err)
	}
	request := pi.CalculateResource().Resource
	ignored := sets.New[corev1.ResourceName]()
	for name := range request.GetScalarResources() {
		if p.ignoresResource(name) {
			ignored.Insert(name)
		}
	}
	state.Write(seekerKey, &seeker{confined: confined, rank: p.hub.rankOf(pod), request: request, ignored: ignored})
	return nil
}

// Filter keeps seats from pods that do not stand above those whom they are kept for, and holds members to the
// plan even where the framework prefers a node that they were nominated to earlier.
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
	seats := p.hub.seats.on(name)
	if len(seats) == 0 {
		return nil
	}
	held := heldFrom(seats, node, s.rank, pod.UID)
	if len(held) > 0 && !s.fitsBeside(node, held) {
		return fwk.NewStatus(fwk.Unschedulable, "node(s) with room that is kept for pods of another queue, or of the same or a higher priority")
	}
	return nil
}

// heldFrom are the seats on a node that a pod of that rank has to respect. Its own seat, and those of pods
// that the NodeInfo counts already, are left out.
func heldFrom(seats []*seat, node fwk.NodeInfo, from rank, own types.UID) []*seat {
	var held []*seat
	for _, s := range seats {
		if s.uid != own && s.keepsFrom(from) && !s.takenOn(node) {
			held = append(held, s)
		}
	}
	return held
}

// takenOn reports whether a seat's pod is part of the NodeInfo already.
func (s *seat) takenOn(node fwk.NodeInfo) bool {
	return slices.ContainsFunc(node.GetPods(), func(pi fwk.PodInfo) bool { return pi.GetPod().UID == s.uid })
}

// fitsBeside reports whether a node has room for the request beside seats. As with NodeResourcesFit, only what
// it asks for counts.
func (s *seeker) fitsBeside(node fwk.NodeInfo, held []*seat) bool {
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
			left -= of(s.pod.CalculateResource().Resource)
		}
		return want <= left
	}
	if !fits(request.GetMilliCPU(), fwk.Resource.GetMilliCPU) || !fits(request.GetMemory(), fwk.Resource.GetMemory) ||
		!fits(request.GetEphemeralStorage(), fwk.Resource.GetEphemeralStorage) {
		return false
	}
	for name, want := range request.GetScalarResources() {
		if !s.ignored.Has(name) && !fits(want, func(r fwk.Resource) int64 { return r.GetScalarResources()[name] }) {
			return false
		}
	}
	return true
}
