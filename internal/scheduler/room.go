package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/dips"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/logging"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// rooms releases reservations that no longer fit on their nodes, because other pods use the room or
// because the nodes have shrunk. The watchers record nodes that may lack room, and the main loop
// reviews them. [nodeWatch] releases reservations on nodes that are gone or reject the pods. It is
// safe for concurrent use.
type rooms struct {
	index      *cluster.Index
	placements *cluster.Placements
	ledger     *cluster.Ledger
	dips       *dips.Dips
	reserved   *engine.Reservations
	waits      *engine.Waits
	clock      clock.WithTicker
	steps      *stepper
	retries    *retries
	releases   *releases

	// toReview records the nodes whose reservations may no longer fit.
	toReview *reviews
}

// crowdedOut returns the reservations on a node that do not fit. node contains the pods that will
// stay. Reservations are checked by priority, then in the given order. So a reservation never loses
// its room to a reservation of lower priority, and the result is as short as possible.
//
// seekerOf returns the requests of a reservation's pod; nil for a pod that fits regardless of room.
func crowdedOut(node fwk.NodeInfo, reserved []*engine.Reservation, seekerOf func(*engine.Reservation) *seeker) []*engine.Reservation {
	byPriority := slices.Clone(reserved)
	slices.SortStableFunc(byPriority, func(x, y *engine.Reservation) int { return cmp.Compare(y.Priority, x.Priority) })
	var kept, out []*engine.Reservation
	for _, r := range byPriority {
		if isUsedOn(r, node) {
			continue
		}
		if s := seekerOf(r); s == nil || s.fitsBeside(node, heldFrom(kept, node, r.Standing, types.UID(r.UID))) {
			kept = append(kept, r)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// crowdedOutOn returns the reservations on a node that will not fit, even after all terminating
// pods are gone. A node with a dip counts with its previous capacity. Deleted nodes are left to
// releaseLost. It uses the informers and the assumed pods instead of a cycle's snapshot, so any
// goroutine may call it.
func (rs *rooms) crowdedOutOn(node string) []*engine.Reservation {
	reserved := rs.reserved.On(node)
	if len(reserved) == 0 {
		return nil
	}
	info := rs.placements.Staying(node)
	if info == nil {
		return nil
	}
	info.SetNode(rs.dips.Without(info.Node()))
	return crowdedOut(info, reserved, func(r *engine.Reservation) *seeker {
		counted := rs.index.Profiles.Resources(cluster.PodIn(r).Spec.SchedulerName)
		if counted == nil {
			return nil
		}
		return seekerOf(cluster.PodInfoIn(r), r.Standing, counted)
	})
}

// releaseCrowded releases reservations that no longer fit on their nodes, of as few workloads as
// possible, and plans these workloads again. If these reservations were kept, the last victims of
// the workloads would be evicted in vain, and other work could not use the free room. Evictions
// that have not begun are canceled. The workload except keeps its reservations.
//
// An eviction continues if a workload of higher standing waits for the same victims, because that
// workload may not be allowed to evict them itself. Without this rule, both workloads could stop
// each other repeatedly.
func (rs *rooms) releaseCrowded(nodes sets.Set[string], except workload.Key) {
	for _, node := range sets.List(nodes) {
		done := sets.New(except)
		for {
			key, r, ok := rs.firstCrowded(node, done)
			if !ok {
				break
			}
			done.Insert(key)
			if !rs.evictsForOthers(key, r) {
				rs.releaseCrowdedOut(key, r, fmt.Sprintf("node %s has too little room left for pod %s beside the pods that stay there", node, cluster.PodIn(r).Name))
			}
		}
	}
}

// firstCrowded returns the first reservation that does not fit on a node, and its workload. It
// skips the workloads in done.
func (rs *rooms) firstCrowded(node string, done sets.Set[workload.Key]) (workload.Key, *engine.Reservation, bool) {
	if !rs.isShared(node, done) {
		return workload.Key{}, nil, false
	}
	for _, r := range rs.crowdedOutOn(node) {
		if key, ok := rs.reserved.KeyOf(r.UID); ok && !done.Has(key) {
			return key, r, true
		}
	}
	return workload.Key{}, nil, false
}

// evictsForOthers reports whether the evictions for a workload must continue for another workload.
// That other workload waits for the same victims, and may use the room of the crowded reservation.
func (rs *rooms) evictsForOthers(key workload.Key, crowded *engine.Reservation) bool {
	if !rs.waits.Evicting(key) {
		return false
	}
	return slices.ContainsFunc(rs.reserved.On(crowded.Node), func(r *engine.Reservation) bool {
		other, ok := rs.reserved.KeyOf(r.UID)
		return ok && other != key && !crowded.KeepsFrom(r.Standing) && rs.waits.ShareVictims(key, other)
	})
}

// releaseCrowdedOut releases all reservations of a workload, because the reservation crowded does
// not fit, and retries the workload. If evictions are under way for it, the retry comes after they
// have stopped. It does nothing if the workload no longer has that reservation.
func (rs *rooms) releaseCrowdedOut(key workload.Key, crowded *engine.Reservation, why string) {
	if len(rs.steps.step(engine.RoomLost{Room: crowded})) == 0 {
		return
	}
	logging.Happened(logging.Of(context.Background(), key), "Released the room that was reserved for a workload", why)
	if key.Gang {
		rs.releases.reportLost(nameOf(key), why)
	}
	rs.releases.All(key, why)
	if !rs.waits.Evicting(key) {
		rs.retries.Retry(key)
	}
}

// reviews records the nodes whose reservations may no longer fit. On such a node, a pod has
// arrived, has grown or will not terminate after all, or the node offers less. Deleted nodes are
// removed. Use newReviews to create a value: the zero value is not usable.
type reviews struct {
	mu sync.Mutex
	// exists reports whether a node exists.
	exists func(string) bool
	// reserved holds the changed nodes that had reservations at the time of the change. The main
	// loop reviews them.
	reserved sets.Set[string]
	// recent holds the changed nodes whose change the snapshot of the last decision lacks, or may
	// lack.
	recent sets.Set[string]
	wanted chan struct{}
}

func newReviews(exists func(string) bool) *reviews {
	return &reviews{exists: exists, reserved: sets.New[string](), recent: sets.New[string](), wanted: make(chan struct{}, 1)}
}

// add records that a node has changed. reserved is true if the node has reservations.
func (d *reviews) add(node string, reserved bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// Hold the lock during the check. If the node is deleted now, forget waits for the lock and
	// then removes the node that is added here.
	if !d.exists(node) {
		return
	}
	d.recent.Insert(node)
	if !reserved {
		return
	}
	d.reserved.Insert(node)
	select {
	case d.wanted <- struct{}{}:
	default:
	}
}

// forget removes a deleted node.
func (d *reviews) forget(node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reserved.Delete(node)
	d.recent.Delete(node)
}

// take returns and clears the changed nodes with reservations.
func (d *reviews) take() sets.Set[string] {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reserved.Len() == 0 {
		return nil
	}
	nodes := d.reserved
	d.reserved = sets.New[string]()
	return nodes
}

// looks records that a decision reads a snapshot. hasChange reports whether the snapshot has the
// latest change of a node. A node stays recent until a decision has seen its change, because the
// scheduler's cache may be older than the informers for any time.
func (d *reviews) looks(hasChange func(node string) bool) {
	d.mu.Lock()
	nodes := d.recent
	d.recent = sets.New[string]()
	d.mu.Unlock()
	for node := range nodes {
		if hasChange(node) {
			nodes.Delete(node)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for node := range nodes {
		// The node may have been deleted meanwhile.
		if d.exists(node) {
			d.recent.Insert(node)
		}
	}
}

// isRecent reports whether the snapshot of the last decision may lack a change of a node.
func (d *reviews) isRecent(node string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.recent.Has(node)
}

// requestReview makes the main loop review the reservations on a node, if there are any.
func (rs *rooms) requestReview(node string) {
	rs.toReview.add(node, len(rs.reserved.On(node)) > 0)
}

// review releases reservations that do not fit on the nodes with recorded changes. It also reviews
// nodes whose dips have lasted too long, and releases reservations on nodes that reject the pods.
// Workloads with other reservations on such a node are decided again, because only the filters know
// whether the pods need a withdrawn device or volume driver. The main loop calls review.
func (ns *nodeWatch) review(now time.Time) {
	over := ns.dips.Over(now)
	for _, node := range over {
		ns.rooms.requestReview(node)
	}
	if len(over) > 0 {
		ns.releaseLost()
	}
	for key := range ns.reservedOn(over) {
		ns.releases.review(key)
	}
	ns.rooms.releaseCrowded(ns.rooms.toReview.take(), workload.Key{})
}

// reservedOn returns the workloads with reservations on any of the nodes.
func (ns *nodeWatch) reservedOn(nodes []string) sets.Set[workload.Key] {
	keys := sets.New[workload.Key]()
	for _, node := range nodes {
		for _, r := range ns.reserved.On(node) {
			if key, ok := ns.reserved.KeyOf(r.UID); ok {
				keys.Insert(key)
			}
		}
	}
	return keys
}

// replanOutdated schedules a retry of a workload that was planned with a snapshot older than the
// informers, if a missing change may concern its reservations. The events of these changes are
// over, so no other component would release the reservations.
func (rs *rooms) replanOutdated(key workload.Key) {
	for _, r := range rs.reserved.Of(key) {
		if rs.toReview.isRecent(r.Node) && (rs.isCrowdedOut(r) || rs.mayMindAny(r)) {
			rs.waits.Gather(key, rs.clock.Now().Add(mostCacheDelay))
			return
		}
	}
}

// isCrowdedOut reports whether a reservation no longer fits on its node.
func (rs *rooms) isCrowdedOut(r *engine.Reservation) bool {
	return slices.ContainsFunc(rs.crowdedOutOn(r.Node), func(out *engine.Reservation) bool { return out.UID == r.UID })
}

// mayMindAny reports whether the pod of a reservation may depend on a pod on its node by more than
// room.
func (rs *rooms) mayMindAny(r *engine.Reservation) bool {
	return slices.ContainsFunc(rs.index.PodsOn(r.Node), func(pod *corev1.Pod) bool { return mayMind(cluster.PodIn(r), pod) })
}

// reviewSharedNodes makes the main loop review the nodes that a workload shares with other
// reservations. It is called when the evictions of the workload end, because releaseCrowded may
// have let them continue for the other workloads.
func (rs *rooms) reviewSharedNodes(key workload.Key) {
	for _, r := range rs.reserved.Of(key) {
		if rs.isShared(r.Node, sets.New(key)) {
			rs.requestReview(r.Node)
		}
	}
}

// isShared reports whether a node also has a reservation of a workload outside of the set than.
func (rs *rooms) isShared(node string, than sets.Set[workload.Key]) bool {
	return slices.ContainsFunc(rs.reserved.On(node), func(r *engine.Reservation) bool {
		key, ok := rs.reserved.KeyOf(r.UID)
		return ok && !than.Has(key)
	})
}

// occupies records that a pod has arrived on a node, or has changed its requests there.
func (rs *rooms) occupies(before, now *corev1.Pod) {
	if now.Spec.NodeName == "" {
		return
	}
	came := before == nil || before.Spec.NodeName == ""
	if came || isResized(before, now) {
		rs.requestReview(now.Spec.NodeName)
	}
	if came {
		rs.replanNeighbors(now)
	}
}

// replanNeighbors schedules retries of workloads with reservations on the node of a new pod, if
// they may depend on the pod by more than room. Only the filters know whether these workloads and
// the pod can share the node.
func (rs *rooms) replanNeighbors(came *corev1.Pod) {
	for _, r := range rs.reserved.On(came.Spec.NodeName) {
		key, ok := rs.reserved.KeyOf(r.UID)
		if ok && key != rs.index.KeyOf(came) && mayMind(cluster.PodIn(r), came) {
			rs.waits.Gather(key, rs.clock.Now().Add(mostCacheDelay))
		}
	}
}

// mayMind reports whether a waiting pod may depend on a pod on its node by more than room, for
// example by affinity or host ports.
func mayMind(waiting, came *corev1.Pod) bool {
	if _, plain := snapshot.NeedsOf(waiting); !plain || len(util.GetHostPorts(waiting)) > 0 {
		return true
	}
	a := came.Spec.Affinity
	return a != nil && a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
}

// isResized reports whether the resources in a pod's containers have changed.
func isResized(before, now *corev1.Pod) bool {
	differ := func(a, b []corev1.Container) bool {
		return !slices.EqualFunc(a, b, func(x, y corev1.Container) bool { return apiequality.Semantic.DeepEqual(x.Resources, y.Resources) })
	}
	return differ(before.Spec.Containers, now.Spec.Containers) || differ(before.Spec.InitContainers, now.Spec.InitContainers) ||
		!apiequality.Semantic.DeepEqual(before.Spec.Resources, now.Spec.Resources)
}

// dipUnder returns a node with a reservation of the preemptor that has a dip or has just recovered,
// and the time of the next decision. The decision must not be applied then: it would release the
// reservation, or evict other pods. dipUnder returns "" if the decision may be applied.
func (rs *rooms) dipUnder(made *cycleDecision) (node string, settles time.Time) {
	if d := made.decision.Outcome; d != core.Preempts && d != core.Infeasible {
		return "", time.Time{}
	}
	for _, r := range rs.reserved.Of(made.pre.key) {
		at, waits := rs.dips.SettlesAt(r.Node)
		if waits && !rs.isCrowdedOut(r) {
			return r.Node, at
		}
	}
	return "", time.Time{}
}
