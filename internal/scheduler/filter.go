package scheduler

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/filters"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// seekerKey is the key of the seeker in the state of a cycle.
const seekerKey fwk.StateKey = Name + "/seeker"

// seeker holds the facts about the pod of a cycle that Filter needs.
type seeker struct {
	// confined is the planned node of the pod; "" for none.
	confined string
	// apart is true if the pod must avoid all nodes that have a reservation of a pod with device
	// claims or local volumes.
	apart bool
	// kept is the room for lost members of other gangs, which this pod must not use.
	kept []*engine.Reservation
	// mark is the state of the waiting list before Filter reads the reservations.
	mark engine.Mark
	workload.Standing
	request fwk.Resource
	// ignored are the requested resources that the profile's resource filter does not check.
	ignored sets.Set[corev1.ResourceName]
	// delegated are the requested resources that the profile's resource filter leaves to the plugin
	// DynamicResources, on nodes that do not offer them.
	delegated sets.Set[corev1.ResourceName]
}

// Clone returns the same seeker, because a seeker never changes.
func (s *seeker) Clone() fwk.StateData { return s }

// restrictFilter stores the seeker of a pod in the state of its cycle. The options restrict the
// nodes that the pod may use.
func (p *Plugin) restrictFilter(state fwk.CycleState, pod *corev1.Pod, but ...func(*seeker)) *fwk.Status {
	pi, err := framework.NewPodInfo(pod)
	if err != nil {
		return fwk.AsStatus(err)
	}
	s := seekerOf(pi, p.sched.ledger.StandingOf(pod), p.resources)
	s.mark = p.sched.waits.Mark()
	for _, say := range but {
		say(s)
	}
	state.Write(seekerKey, s)
	return nil
}

// onlyOn is an option of restrictFilter that confines a pod to its planned node.
func onlyOn(node string) func(*seeker) { return func(s *seeker) { s.confined = node } }

// apart is an option of restrictFilter that makes a pod avoid all nodes with a reservation of a pod
// with device claims or local volumes.
func apart(s *seeker) { s.apart = true }

// beside is an option of restrictFilter that makes a pod avoid the room for lost members of gangs.
func beside(kept []*engine.Reservation) func(*seeker) { return func(s *seeker) { s.kept = kept } }

// mayFitSoon reports whether the pod of a cycle may use room that the filters excluded, without an
// event that retries the pod. Such room is kept for lost members of gangs, or was reserved for
// other work until a moment ago.
func (p *Plugin) mayFitSoon(state fwk.CycleState) bool {
	data, err := state.Read(seekerKey)
	if err != nil {
		return false
	}
	s, ok := data.(*seeker)
	return ok && (len(s.kept) > 0 || p.sched.waits.HasEnded(engine.Reserved, s.mark))
}

// seekerOf returns the seeker of a pod. resources selects the resources that the profile's filter
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

// confinedTo returns the planned node of a cycle's pod; "" for none.
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

// Filter rejects a node if the pod does not fit beside the reservations that it must respect. It
// also rejects all nodes except the planned one for a member with a plan. The check of the planned
// node is needed because the framework may try the node of an earlier nomination first.
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
	if s.apart && slices.ContainsFunc(held, func(r *engine.Reservation) bool { return filters.IsClaimant(p.handle, cluster.PodIn(r)) }) {
		return fwk.NewStatus(fwk.Unschedulable, "node(s) with devices or volumes that are kept for other pods")
	}
	if len(held) > 0 && !s.fitsBeside(node, held) {
		return fwk.NewStatus(fwk.Unschedulable, "node(s) with room that is kept for pods of another queue, or of the same or a higher priority")
	}
	return nil
}

// heldFrom returns the reservations on a node that exclude a pod. The parameter from is the
// standing of the pod, and own is its UID. heldFrom omits the pod's own reservation, and
// reservations of pods that the NodeInfo already counts.
func heldFrom(reserved []*engine.Reservation, node fwk.NodeInfo, from workload.Standing, own types.UID) []*engine.Reservation {
	var held []*engine.Reservation
	for _, r := range reserved {
		if r.UID != string(own) && r.KeepsFrom(from) && !isUsedOn(r, node) {
			held = append(held, r)
		}
	}
	return held
}

// fitsBeside reports whether a node has room for the pod in addition to some reservations. It
// compares only resources that the pod requests, as NodeResourcesFit does.
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
			left -= of(cluster.PodInfoIn(s).CalculateResource().Resource)
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
