package scheduler

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// GateName is the name under which Reprieve holds pods back before the queue.
const GateName = "ReprieveGate"

// Gate is the PreEnqueue plugin of one profile that has [Plugin]. It is a plugin of its own because of what the queue asks
// those that it has gated at each event: whether the plugin that holds them back cares for it. What ends a hold of the gate,
// the [Hub] follows by itself, so it cares for nothing but the pod. As a part of Plugin, which cares for every pod that is
// deleted, each of thousands that wait for their turn would be looked at for each of thousands of victims.
type Gate struct{ hub *Hub }

var (
	_ fwk.PreEnqueuePlugin  = (*Gate)(nil)
	_ fwk.EnqueueExtensions = (*Gate)(nil)
)

// AddGate has each profile with [Plugin] use [Gate], so that no configuration has to name it. Call it on a configuration that is
// known to be sound, before the scheduler is made.
func AddGate(profiles []config.KubeSchedulerProfile) {
	for i := range profiles {
		plugins := profiles[i].Plugins
		if plugins == nil {
			continue
		}
		named := func(name string) func(config.Plugin) bool {
			return func(p config.Plugin) bool { return p.Name == name }
		}
		ours := slices.ContainsFunc(slices.Concat(plugins.MultiPoint.Enabled, plugins.PostFilter.Enabled), named(Name))
		// Plugin has been at this point itself, so there are configurations that name it here.
		plugins.PreEnqueue.Enabled = slices.DeleteFunc(plugins.PreEnqueue.Enabled, named(Name))
		if ours && !slices.ContainsFunc(plugins.PreEnqueue.Enabled, named(GateName)) {
			plugins.PreEnqueue.Enabled = append(plugins.PreEnqueue.Enabled, config.Plugin{Name: GateName})
		}
	}
}

// Name returns the plugin's name.
func (*Gate) Name() string { return GateName }

// EventsToRegister names updates of the pod itself, which may join or leave a group, or change what the gang asks for.
func (g *Gate) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event: fwk.ClusterEvent{
			Resource:   fwk.TargetPod,
			ActionType: fwk.UpdatePodLabel | fwk.UpdatePodScaleDown | fwk.UpdatePodToleration | fwk.UpdatePodSchedulingGatesEliminated,
		},
		QueueingHintFn: func(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
			before, ok := oldObj.(*corev1.Pod)
			if ok && before.UID == pod.UID && reconciled(before, pod) || g.hub.updated(pod, newObj) {
				return fwk.Queue, nil
			}
			return fwk.QueueSkip, nil
		},
	}}, nil
}

// PreEnqueue gates pods that there is no point in trying: members whose PodGroup or gang is not complete,
// members that another one plans for, and preemptors for which room is being made. The queue calls it under
// its own lock, so nothing here may call the queue.
func (g *Gate) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status { return g.hub.gatePod(pod) }

func (h *Hub) gatePod(pod *corev1.Pod) *fwk.Status {
	if v := h.derived.Hold(pod); v != (gang.Verdict{}) {
		return gated(v.Message)
	}
	key, ok := h.groupOf(pod)
	if !ok {
		if v := h.keptOffQueues(pod); v != (gang.Verdict{}) {
			return gated(v.Message)
		}
		return h.gateSingle(pod)
	}
	if v := gang.Contradiction(pod); v != (gang.Verdict{}) {
		return gated(v.Message)
	}
	if _, planned := h.registry.PlannedNode(key, pod.UID); planned {
		if h.registry.Next(key) != pod.UID {
			return gated(string(gang.HoldForOrder))
		}
		return nil
	}
	g, members, verdict := h.gate(key)
	if verdict != (gang.Verdict{}) {
		h.cannotCome(key, pod, verdict)
		return gated(verdict.Message)
	}
	h.notHeldAnyMore(key)
	if v := gang.Outranked(h.derived, h.groups, pod); v != (gang.Verdict{}) {
		return gated(v.Message)
	}
	if !g.IsGang() {
		return h.gateSingle(pod)
	}
	// Before its group was a gang, it may have stood in line by itself.
	h.waits.LeaveTurns(podKey(pod))
	if !h.entersQueue(pod) {
		// It is held back whatever is said here; leadership is for members that can go.
		return nil
	}
	if h.waits.StopForEviction(gangKey(key)) {
		return gated(holdForEviction)
	}
	if h.waitsForTurn(pod) {
		return gated(holdForTurn)
	}
	a := h.registry.Admit(key, pod.UID, h.canLead(&members))
	if a == gang.AdmitLeader && h.hasLeft(gangKey(key)) {
		// It has been forgotten already, and would not be again.
		h.registry.Drop(key)
	}
	if a == gang.AdmitPlanned || a == gang.AdmitLeader {
		return nil
	}
	return gated(string(a))
}

// cannotCome says why a group that a pod is a member of cannot be placed. Others need not wait for it.
func (h *Hub) cannotCome(key types.NamespacedName, pod *corev1.Pod, verdict gang.Verdict) {
	h.registry.SetVerdict(key, verdict)
	h.waits.LeaveTurns(gangKey(key))
	h.waits.LeaveTurns(podKey(pod))
}

func (h *Hub) gateSingle(pod *corev1.Pod) *fwk.Status {
	if h.waits.StopForEviction(podKey(pod)) {
		return gated(holdForEviction)
	}
	if v := h.barSingleDriver(pod); v != (gang.Verdict{}) {
		return gated(v.Message)
	}
	if h.entersQueue(pod) && h.waitsForTurn(pod) {
		return gated(holdForTurn)
	}
	return nil
}

const (
	// holdForTurn is why work of a queue is not tried yet.
	holdForTurn = "other work of the queues comes first"
	// holdForEviction is why a preemptor is not tried while its victims are being told to go.
	holdForEviction = "room is being made for it"
)

// gate looks at a group and its members as they are now, and has it wait for its queue where that has something against it.
func (h *Hub) gate(key types.NamespacedName) (*gang.Group, gang.Members, gang.Verdict) {
	members := h.members(key)
	g, verdict := h.lacks(key, &members)
	if verdict == (gang.Verdict{}) && h.asksForQueues() {
		claim := func() gang.Verdict { return h.claimOfGroup(g, &members).Bar }
		if claim() != (gang.Verdict{}) {
			verdict = h.ask(gangKey(key), admission.Access, claim)
		}
	}
	if verdict == (gang.Verdict{}) && g.IsGang() {
		verdict = h.barGang(&members)
	}
	return g, members, verdict
}

// lacks looks at a group as it is now, and says what keeps its members from being tried, but for what their queue does.
func (h *Hub) lacks(key types.NamespacedName, members *gang.Members) (*gang.Group, gang.Verdict) {
	g, ok := h.groups.Group(key)
	if !ok {
		g = nil
	}
	verdict := gang.Gate(key, g, members)
	if g == nil {
		verdict = cmp.Or(h.registry.Unresolved(key), verdict)
	}
	if verdict == (gang.Verdict{}) && g != nil {
		verdict = h.behind(g, members)
	}
	return g, verdict
}

// canLead tells which members are able to plan for the others.
func (h *Hub) canLead(members *gang.Members) func(types.UID) bool {
	return func(uid types.UID) bool {
		for _, pod := range members.Pending {
			if pod.UID == uid {
				return h.entersQueue(pod)
			}
		}
		return false
	}
}

// gated keeps a pod out of the active queue until an event or an Activate.
func gated(why string) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
}

// speaks reports whether it is this pod that is tried again on behalf of itself or its gang.
func (h *Hub) speaks(pod *corev1.Pod) bool {
	if h.board.Used() && h.waits.Holds(h.keyOf(pod)) {
		return false
	}
	key, ok := h.groupOf(pod)
	if !ok || h.gangOf(pod) == nil {
		return !h.isEvictingFor(pod)
	}
	leader := h.registry.Leader(key)
	return leader == "" || leader == pod.UID
}

// updated has the gang planned again when one of its members has changed. It reports whether this pod is to be tried again.
func (h *Hub) updated(pod *corev1.Pod, newObj any) bool {
	if h.speaks(pod) {
		return true
	}
	if changed, ok := newObj.(*corev1.Pod); ok && changed.UID == pod.UID {
		if key, ok := h.groupOf(pod); ok {
			h.wakeSoon(key)
		}
	}
	return false
}
