package scheduler

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/logging"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// nominations keeps the framework's nominations in agreement with the reservations, which the
// framework does not know. It deletes or hides a nomination that would keep room from other work,
// and turns nominations of an earlier leader into reservations. The plugin calls it in each cycle.
// [releases] deletes the nominations of reservations that end. It is safe for concurrent use.
type nominations struct {
	index      *cluster.Index
	placements *cluster.Placements
	ledger     *cluster.Ledger
	handle     framework.Framework
	records    *engine.Pods
	reserved   *engine.Reservations
	steps      *stepper
	releases   *releases
}

// nominations returns the nominations of all pods of a preemptor that have no node. nodes maps pods
// to their planned nodes. inCycle is the pod whose cycle runs; nil for none. It gets no nomination
// here, because the framework writes it at the end of the cycle.
func (p *Plugin) nominations(pre *preemptor, nodes map[types.UID]string, inCycle *corev1.Pod) []podstatus.Nomination {
	var out []podstatus.Nomination
	for _, pod := range pre.pods {
		// The informer may have a newer version of the pod than the cycle.
		now, err := p.sched.index.Pods.Pods(pod.Namespace).Get(pod.Name)
		if err != nil || now.UID != pod.UID || now.Spec.NodeName != "" {
			continue
		}
		out = append(out, podstatus.Nomination{
			Pod: now, Node: nodes[pod.UID],
			ByFramework: inCycle != nil && inCycle.UID == pod.UID && (nodes[pod.UID] == "" || !p.sched.index.Inflates(pod)),
		})
	}
	return out
}

// nominated returns a PostFilter result with the reserved node of a pod. Without this result, the
// framework would keep the nomination that the pod had at the start of the cycle. But the
// reservation behind that nomination may have been released since.
func (p *Plugin) nominated(pod *corev1.Pod) *fwk.PostFilterResult {
	return p.show(p.sched.index.KeyOf(pod), pod, p.sched.reserved.NodeOf(string(pod.UID)))
}

// nominates records the nomination of a pod. If this ends an earlier nomination of a pod without a
// reservation, the workloads that waited for its room are retried. The framework retries only some
// of them, because it compares own priorities and keeps nominations of terminating pods.
func (nm *nominations) nominates(pod *corev1.Pod, n engine.Nomination) {
	ended := nm.records.Nominates(string(pod.UID), n)
	if ended != "" && ended != pod.Spec.NodeName && !nm.reserved.Has(string(pod.UID)) {
		nm.steps.step(engine.RoomFreed{})
	}
}

// nominatedOn returns the pods that are nominated to a node, have no reservation, and still wait
// for a place. The framework also has nominations of deleted pods.
func (nm *nominations) nominatedOn(node string) []fwk.PodInfo {
	return slices.DeleteFunc(nm.handle.NominatedPodsForNode(node), func(pi fwk.PodInfo) bool {
		return nm.reserved.Has(string(pi.GetPod().UID)) || !nm.index.AwaitsPlace(pi.GetPod())
	})
}

// dropInflated deletes the nominations of pods whose own priority is above their effective
// priority, from the framework's memory. It reports whether there were any. Reservations keep the
// room instead. The framework copies such nominations from the API again whenever a pod changes.
func (nm *nominations) dropInflated() (found bool) {
	for uid, node := range nm.records.Inflated() {
		for _, nominated := range nm.handle.NominatedPodsForNode(node) {
			if pod := nominated.GetPod(); string(pod.UID) == uid {
				nm.handle.DeleteNominatedPodIfExists(pod)
				found = true
			}
		}
	}
	return found
}

// dropInTheWay deletes nominations of other pods to a node from the framework's memory, if they
// must not block the pod. It reports whether it deleted any. The framework counts nominated pods as
// if they were on the node. dropInTheWay deletes three kinds:
//
//   - Nominations that contradict the plan of the pod's gang, or the reservations. The framework
//     copies a nomination from the API whenever the pod changes, so it may come from an earlier
//     plan.
//   - Nominations of pods that no longer wait for a place.
//   - Nominations whose room need not be kept from the pod. The framework compares the pods' own
//     priorities, and the priority of the pod's group may be higher. Reservations keep the room
//     from other pods.
func (nm *nominations) dropInTheWay(pod *corev1.Pod, node string) (found bool) {
	own, standing := nm.index.GangOf(pod), nm.ledger.StandingOf(pod)
	for _, nominated := range nm.handle.NominatedPodsForNode(node) {
		other := nominated.GetPod()
		if other.UID == pod.UID {
			continue
		}
		// The later members of the gang are not on the node yet. Their reservations keep the room.
		key, grouped := nm.index.GroupOf(other)
		promised := nm.reserved.NodeOf(string(other.UID))
		outdated := own != nil && grouped && key == own.Key || promised != "" && promised != node
		counts := corev1helpers.PodPriority(other) >= corev1helpers.PodPriority(pod)
		if outdated || !nm.index.AwaitsPlace(other) || counts && !nm.standing(other, node).KeepsFrom(standing) {
			nm.handle.DeleteNominatedPodIfExists(other)
			found = true
		}
	}
	return found
}

// standing returns the standing of a pod's nomination to a node. If the pod has a reservation on
// the node, it is the standing of the reservation. A gang without a priority gets reservations with
// the priority of its lowest member.
func (nm *nominations) standing(pod *corev1.Pod, node string) workload.Standing {
	if r := nm.reservedOn(node, pod.UID); r != nil {
		return r.Standing
	}
	return nm.ledger.StandingOf(pod)
}

func (nm *nominations) reservedOn(node string, uid types.UID) *engine.Reservation {
	reserved := nm.reserved.On(node)
	at := slices.IndexFunc(reserved, func(r *engine.Reservation) bool { return r.UID == string(uid) })
	if at < 0 {
		return nil
	}
	return reserved[at]
}

// hide prepares the cycle of a pod with spread constraints that is confined to a node. In the
// framework's memory, it deletes the nominations to that node of other pods with reservations.
//
// The plan satisfies the constraints both with all reserved pods and without them. With the
// nominations, the framework would count the reserved pods of the node, but not the reserved pods
// of other nodes. Then the spread might seem more skewed than it is. Filter keeps the room of the
// other pods.
func (nm *nominations) hide(pod *corev1.Pod, node string) {
	if !slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == corev1.DoNotSchedule }) {
		return
	}
	for _, nominated := range nm.handle.NominatedPodsForNode(node) {
		if other := nominated.GetPod(); other.UID != pod.UID && nm.reservedOn(node, other.UID) != nil {
			nm.handle.DeleteNominatedPodIfExists(other)
			nm.records.Hides(string(pod.UID), node, string(other.UID))
		}
	}
}

// restore adds the hidden nominations of pods to a node to the framework's memory again, for pods
// that still have their reservations.
func (nm *nominations) restore(node string, pods []engine.UID) {
	for _, hidden := range pods {
		uid := types.UID(hidden)
		r := nm.reservedOn(node, uid)
		if r == nil || nm.records.IsAssumed(hidden) || !nm.index.AwaitsPlace(cluster.PodIn(r)) || nm.index.Inflates(cluster.PodIn(r)) {
			continue
		}
		nm.handle.AddNominatedPod(klog.Background(), cluster.PodInfoIn(r), &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node})
		if nm.reservedOn(node, uid) == nil {
			// The reservation was released before the nomination was restored. The release could
			// not delete the nomination, so delete it here.
			nm.handle.DeleteNominatedPodIfExists(cluster.PodIn(r))
		}
	}
}

// inherit makes reservations of the nominations that the previous scheduler wrote. An inherited
// reservation counts until the next decision about the pod or its gang. Nominations of blocked pods
// are deleted instead, because the framework would keep them forever.
func (nm *nominations) inherit() {
	all, err := nm.index.Pods.List(labels.Everything())
	if err != nil {
		klog.Background().Error(err, "List pods to take over their nominations")
		return
	}
	promised, unfounded := make(map[workload.Key][]*engine.Reservation), []*corev1.Pod(nil)
	for _, pod := range all {
		if pod.Status.NominatedNodeName == "" || nm.index.Profiles.Of(pod.Spec.SchedulerName) == nil || !nm.index.AwaitsPlace(pod) {
			continue
		}
		if nm.placements.IsBlockedByGroup(pod) {
			unfounded = append(unfounded, pod)
			continue
		}
		pi, err := framework.NewPodInfo(pod)
		if err != nil {
			klog.Background().Error(err, "Take over the nomination of a pod", "pod", klog.KObj(pod))
			continue
		}
		// The informer lists the pod, but the handler of its event may not have run yet.
		nm.steps.ensurePresent(pod)
		key := nm.index.KeyOf(pod)
		promised[key] = append(promised[key], &engine.Reservation{
			Pod: pi, UID: string(pod.UID), Node: pod.Status.NominatedNodeName, Standing: nm.ledger.StandingOf(pod),
		})
	}
	for key, reserved := range promised {
		nm.steps.reserveRooms(key, reserved)
		logging.Of(context.Background(), key).V(2).Info("Took over the nominations of the previous leader", "pods", len(reserved))
	}
	nm.releases.withdraw(unfounded)
	nm.releases.disallowed()
}

// displace releases the reservations and nominations on the preemptor's nodes whose room the
// preemptor may use. It retries their workloads at once, so that they look for other nodes. It
// skips workloads with evictions under way: releaseCrowded handles them when the evictions end.
func (p *Plugin) displace(ctx context.Context, pre *preemptor, nodes map[types.UID]string) {
	used := sets.New[string]()
	for _, node := range nodes {
		used.Insert(node)
	}
	for _, key := range p.sched.reserved.Yielding(maps.Keys(used), pre.standing()) {
		if key != pre.key && !p.sched.waits.Evicting(key) {
			p.sched.releases.andRetry(key, "a preemptor of a higher priority takes a node of its plan")
		}
	}
	for node := range p.sched.ledger.NominatedNodes().Intersection(used) {
		for _, nominated := range p.sched.nominations.nominatedOn(node) {
			pod := nominated.GetPod()
			if p.sched.index.Owns(pre.key, pod) || p.sched.ledger.StandingOf(pod).KeepsFrom(pre.standing()) {
				continue
			}
			p.handle.DeleteNominatedPodIfExists(pod)
			p.sched.evictor.Nominate(ctx, []podstatus.Nomination{{Pod: pod}})
			p.sched.retries.Retry(p.sched.index.KeyOf(pod))
		}
	}
}
