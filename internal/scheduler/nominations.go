package scheduler

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
	"github.com/reprieve-dev/reprieve/internal/reservation"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// nominations say where the pods of a preemptor are expected. What the framework writes at the end of the cycle
// is the nomination of the pod that is in it; nil for none.
func (p *Plugin) nominations(pre *preemptor, nodes map[types.UID]string, inCycle *corev1.Pod) []podstatus.Nomination {
	var out []podstatus.Nomination
	for _, pod := range pre.pods {
		// Newer than what the cycle started with.
		now, err := p.hub.pods.Pods(pod.Namespace).Get(pod.Name)
		if err != nil || now.UID != pod.UID || now.Spec.NodeName != "" {
			continue
		}
		out = append(out, podstatus.Nomination{
			Pod: now, Node: nodes[pod.UID],
			ByFramework: inCycle != nil && inCycle.UID == pod.UID && (nodes[pod.UID] == "" || !p.hub.inflates(pod)),
		})
	}
	return out
}

// nominated has the framework say at the end of a cycle where the pod in it is expected, by the book. Left to itself it would go
// on with what the pod said when it was looked up, which may have been taken back since.
func (p *Plugin) nominated(pod *corev1.Pod) *fwk.PostFilterResult {
	return p.show(p.hub.keyOf(pod), pod, p.hub.reserved.NodeOf(pod.UID))
}

// inflates reports whether a pod's own priority is above the one that counts for it. The framework compares nominations
// by the pods' own: it would keep the room from pods that may have it.
func (r *roster) inflates(pod *corev1.Pod) bool {
	return corev1helpers.PodPriority(pod) > r.priorityOf(pod)
}

// dropInflated takes back in memory the nominations that inflate a priority, which the framework takes over from the API
// whenever a pod changes. Reservations keep the room. It reports whether there were any.
func (h *Hub) dropInflated() (found bool) {
	for uid, node := range h.nominees.Inflated() {
		for _, nominated := range h.handle.NominatedPodsForNode(node) {
			if pod := nominated.GetPod(); pod.UID == uid {
				h.handle.DeleteNominatedPodIfExists(pod)
				found = true
			}
		}
	}
	return found
}

// dropInTheWay takes back in memory the nominations of other pods to a node that the framework would count as pods there, and that
// are not in the pod's way: it reports whether there were any. They are of two kinds.
//   - The plan of the pod's gang, or the book, says otherwise: what the API says of a pod is taken over by the framework whenever the
//     pod changes, and it may be of a plan before this one.
//   - They do not keep from the pod: the framework goes by the pods' own priorities, and that of its group may be higher. The book
//     keeps their room from others.
func (h *Hub) dropInTheWay(pod *corev1.Pod, node string) (found bool) {
	own, standing := h.gangOf(pod), h.standingOf(pod)
	for _, nominated := range h.handle.NominatedPodsForNode(node) {
		other := nominated.GetPod()
		if other.UID == pod.UID {
			continue
		}
		// Members that come later are not there yet; their reservations keep the room.
		key, grouped := h.groupOf(other)
		promised := h.reserved.NodeOf(other.UID)
		outdated := own != nil && grouped && key == own.Key || promised != "" && promised != node
		counts := corev1helpers.PodPriority(other) >= corev1helpers.PodPriority(pod)
		if outdated || !h.awaitsPlace(other) || counts && !h.promisedTo(other, node).KeepsFrom(standing) {
			h.handle.DeleteNominatedPodIfExists(other)
			found = true
		}
	}
	return found
}

// promisedTo is how a pod stands with what it has been promised on a node: as its reservation does, where there is one. A group whose
// members have priorities of their own stands as the lowest of them.
func (h *Hub) promisedTo(pod *corev1.Pod, node string) workload.Standing {
	if r := h.reservedOn(node, pod.UID); r != nil {
		return r.Standing
	}
	return h.standingOf(pod)
}

func (h *Hub) reservedOn(node string, uid types.UID) *reservation.Reservation {
	reserved := h.reserved.On(node)
	at := slices.IndexFunc(reserved, func(r *reservation.Reservation) bool { return r.UID == uid })
	if at < 0 {
		return nil
	}
	return reserved[at]
}

// hide takes back in memory, for the cycle of a pod with spread constraints that is held to a node, the nominations there of other pods that
// the book has promised room: the decision has reckoned with them as there and as not there, and Filter keeps their room. The framework
// would count those of this node alone, which for such constraints is neither.
func (h *Hub) hide(pod *corev1.Pod, node string) {
	if !slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == corev1.DoNotSchedule }) {
		return
	}
	for _, nominated := range h.handle.NominatedPodsForNode(node) {
		if other := nominated.GetPod(); other.UID != pod.UID && h.reservedOn(node, other.UID) != nil {
			h.handle.DeleteNominatedPodIfExists(other)
			h.records.Hides(string(pod.UID), node, string(other.UID))
		}
	}
}

// reveal restores the nominations of some pods to a node in the framework, as far as they are still reserved.
func (h *Hub) reveal(node string, pods []engine.UID) {
	for _, hidden := range pods {
		uid := types.UID(hidden)
		r := h.reservedOn(node, uid)
		if r == nil || h.records.IsAssumed(hidden) || !h.awaitsPlace(r.Pod.GetPod()) || h.inflates(r.Pod.GetPod()) {
			continue
		}
		h.handle.AddNominatedPod(klog.Background(), r.Pod, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node})
		if h.reservedOn(node, uid) == nil {
			// It has been withdrawn meanwhile, and found nothing to take back.
			h.handle.DeleteNominatedPodIfExists(r.Pod.GetPod())
		}
	}
}

// inherit takes over what the scheduler before this one has promised: that stands in the API, and the framework takes it over
// from there, with no end to it. A reservation ends with its reason; it counts until the pod, or its gang, is decided on. For
// what is held back there is none.
func (h *Hub) inherit() {
	all, err := h.pods.List(labels.Everything())
	if err != nil {
		klog.Background().Error(err, "List pods to take over their nominations")
		return
	}
	promised, unfounded := make(map[workload.Key][]*reservation.Reservation), []*corev1.Pod(nil)
	for _, pod := range all {
		if pod.Status.NominatedNodeName == "" || h.profiles.of(pod.Spec.SchedulerName) == nil || !h.awaitsPlace(pod) {
			continue
		}
		if h.isHeldBack(pod) {
			unfounded = append(unfounded, pod)
			continue
		}
		pi, err := framework.NewPodInfo(pod)
		if err != nil {
			klog.Background().Error(err, "Take over the nomination of a pod", "pod", klog.KObj(pod))
			continue
		}
		key := h.keyOf(pod)
		promised[key] = append(promised[key], &reservation.Reservation{
			Pod: pi, UID: pod.UID, Node: pod.Status.NominatedNodeName, Standing: h.standingOf(pod),
		})
	}
	for key, reserved := range promised {
		h.reserved.Keep(key, reserved)
		logOf(context.Background(), key).V(2).Info("Took over what was promised", "pods", len(reserved))
	}
	(&bookkeeper{h}).Withdraw(unfounded)
	h.takeBackBarred()
}

// displace takes back what has been promised on the preemptor's nodes to workloads that do not
// stand above it, so that they look for another place at once. Where calls are under way for one,
// it does so when these are over; see releaseCrowded.
func (p *Plugin) displace(ctx context.Context, pre *preemptor, nodes map[types.UID]string) {
	used := sets.New[string]()
	for _, node := range nodes {
		used.Insert(node)
	}
	for _, key := range p.hub.reserved.Yielding(used, pre.standing()) {
		if key != pre.key && !p.hub.waits.Evicting(key) {
			p.hub.displace(key, "a preemptor of a higher priority takes a node of its plan")
		}
	}
	for node := range p.hub.nominees.Nodes(p.hub.reserved).Intersection(used) {
		for _, nominated := range p.handle.NominatedPodsForNode(node) {
			pod := nominated.GetPod()
			if p.hub.reserved.Has(pod.UID) || p.hub.owns(pre, pod) || p.hub.standingOf(pod).KeepsFrom(pre.standing()) {
				continue
			}
			p.handle.DeleteNominatedPodIfExists(pod)
			p.hub.evictor.Nominate(ctx, []podstatus.Nomination{{Pod: pod}})
			p.hub.wake(p.hub.keyOf(pod))
		}
	}
}

// displace gives up all that is promised to a workload, and has it try again.
func (h *Hub) displace(key workload.Key, why string) {
	h.takeBack(key, why)
	h.wake(key)
}

// takeBack gives up all that is promised to a workload.
func (h *Hub) takeBack(key workload.Key, why string) {
	if key.Gang && h.registry.Planned(nameOf(key)) > 0 {
		h.release(nameOf(key), nil, why)
	}
	h.reserved.Release(key)
	h.waits.ResolveVictims(key)
}

// unpromised has gangs say no more that room is being made for them when the last of what they were promised has been taken
// back. The next decision says what is in the way, and without any node there is none.
func (b *books) unpromised(pods []*corev1.Pod) {
	keys := sets.New[types.NamespacedName]()
	for _, pod := range pods {
		if key, ok := b.groupOf(pod); ok {
			keys.Insert(key)
		}
	}
	for key := range keys {
		if b.registry.Verdict(key).Reason == v1alpha1.ReasonPreempting && len(b.reserved.Of(gangKey(key))) == 0 {
			b.registry.SetVerdict(key, gang.Verdict{
				Reason: v1alpha1.ReasonUnschedulable, Message: "the room that it was promised has been taken back; it is planned again",
			})
		}
	}
}

// bookkeeper is the scheduler as reservations see it.
type bookkeeper struct{ hub *Hub }

var _ reservation.Scheduler = (*bookkeeper)(nil)

// Awaits reports whether a pod still waits for its place.
func (b *bookkeeper) Awaits(pod *corev1.Pod) bool { return b.hub.awaitsPlace(pod) }

// Withdraw takes back nominations, the framework's and those in the API.
func (b *bookkeeper) Withdraw(pods []*corev1.Pod) {
	none := make([]podstatus.Nomination, 0, len(pods))
	for _, pod := range pods {
		if b.hub.reserved.Has(pod.UID) {
			// It has been promised room anew since.
			continue
		}
		b.hub.records.HasLookedElsewhere(string(pod.UID))
		b.hub.handle.DeleteNominatedPodIfExists(pod)
		if now, ok := b.hub.podOf(podKey(pod)); ok && now.Spec.NodeName == "" {
			none = append(none, podstatus.Nomination{Pod: now})
		}
	}
	b.hub.evictor.Nominate(context.Background(), none)
	b.hub.unpromised(pods)
}

// Freed lets workloads try again that found no room because of what was reserved. Room is given up often, so work whose turn
// came to nothing goes on backing off: it would stand in the way of others each time.
func (b *bookkeeper) Freed(queues []string) {
	b.hub.tryAgain(b.hub.waits.End(admission.Reserved)...)
	// Room that was promised counted for a queue.
	b.hub.eased(b.hub.board.LimitsOn(queues...))
}
