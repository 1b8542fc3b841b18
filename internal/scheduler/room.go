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
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// crowdedOut returns the reservations on a node that do not fit beside the pods of the NodeInfo and
// more important reservations. The NodeInfo has the pods that stay. It considers reservations by
// priority, then in their order. So it returns as few as possible, and none because of a less
// important reservation. The seeker of a reservation is nil if room does not matter to its pod.
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

// crowdedOutOn returns the reservations that do not fit on a node even after all terminating pods
// are gone. It uses the informers and the assumed pods, not the snapshot of a cycle, so any
// goroutine may call it. A node that offered more a moment ago counts with its earlier capacity.
// releaseLost handles deleted nodes.
func (b *ledger) crowdedOutOn(node string) []*engine.Reservation {
	reserved := b.reserved.On(node)
	if len(reserved) == 0 {
		return nil
	}
	info := b.staying(node)
	if info == nil {
		return nil
	}
	info.SetNode(b.dips.without(info.Node()))
	return crowdedOut(info, reserved, func(r *engine.Reservation) *seeker {
		counted := b.profiles.resources(podIn(r).Spec.SchedulerName)
		if counted == nil {
			return nil
		}
		return seekerOf(podInfoIn(r), r.Standing, counted)
	})
}

// staying returns a node with the pods that are bound or assumed there and not terminating. It
// returns nil for a node that does not exist.
func (o *placements) staying(name string) *framework.NodeInfo {
	node, err := o.nodes.Get(name)
	if err != nil {
		return nil
	}
	info, seen := framework.NewNodeInfo(), sets.New[string]()
	info.SetNode(node)
	// The assumed pods are listed first: a pod that is bound meanwhile is among the bound pods.
	var assumed []*corev1.Pod
	for _, key := range o.records.AssumedOn(name) {
		if pod, ok := o.podOf(key); ok {
			assumed = append(assumed, pod)
		}
	}
	for _, pod := range slices.Concat(o.podsOn(name), assumed) {
		if !seen.Has(string(pod.UID)) && !o.isLeaving(pod) {
			info.AddPod(pod)
		}
		seen.Insert(string(pod.UID))
	}
	return info
}

// releaseCrowded releases the reservations that do not fit on their nodes any more. Otherwise the
// last victims of their workloads would be evicted for nothing, and the reservations would keep
// free room from others. Evictions that have not begun are canceled, and the workloads are planned
// again. As few workloads as possible lose reservations. The workload except keeps its
// reservations.
//
// An eviction continues if a workload of higher standing waits for the same victims, because that
// workload may not be allowed to evict them itself. Without this rule, both workloads would stop
// each other in turns.
func (h *Scheduler) releaseCrowded(nodes sets.Set[string], except workload.Key) {
	for _, node := range sets.List(nodes) {
		done := sets.New(except)
		for {
			key, r, ok := h.firstCrowded(node, done)
			if !ok {
				break
			}
			done.Insert(key)
			if !h.evictsForOthers(key, r) {
				h.releaseCrowdedOut(key, r, fmt.Sprintf("node %s has too little room left for pod %s beside the pods that stay there", node, podIn(r).Name))
			}
		}
	}
}

// firstCrowded returns the first reservation that a node cannot fulfill, of a workload that is not
// in done.
func (h *Scheduler) firstCrowded(node string, done sets.Set[workload.Key]) (workload.Key, *engine.Reservation, bool) {
	if !h.isShared(node, done) {
		return workload.Key{}, nil, false
	}
	for _, r := range h.crowdedOutOn(node) {
		if key, ok := h.reserved.KeyOf(r.UID); ok && !done.Has(key) {
			return key, r, true
		}
	}
	return workload.Key{}, nil, false
}

// evictsForOthers reports whether the evictions for a workload also serve another workload. That
// one waits for the same victims, and may use the room of the first workload's reservation.
func (h *Scheduler) evictsForOthers(key workload.Key, crowded *engine.Reservation) bool {
	if !h.waits.Evicting(key) {
		return false
	}
	return slices.ContainsFunc(h.reserved.On(crowded.Node), func(r *engine.Reservation) bool {
		other, ok := h.reserved.KeyOf(r.UID)
		return ok && other != key && !crowded.KeepsFrom(r.Standing) && h.waits.ShareVictims(key, other)
	})
}

// releaseCrowdedOut releases the reservations of a workload and retries the workload. If the
// workload was planned again since crowded was found, it does nothing. crowded is the reservation
// that cannot be fulfilled. If evictions are under way for the workload, they stop first, and the
// retry follows.
func (h *Scheduler) releaseCrowdedOut(key workload.Key, crowded *engine.Reservation, why string) {
	if len(h.step(engine.RoomLost{Room: crowded})) == 0 {
		return
	}
	happened(logOf(context.Background(), key), "Released the room that was reserved for a workload", why)
	if key.Gang {
		h.reportLost(nameOf(key), why)
	}
	h.releaseAll(key, why)
	if !h.waits.Evicting(key) {
		h.retryNow(key)
	}
}

// doubts holds the nodes whose reservations may not fit any more. A pod has arrived there, has
// grown or will stay after all, or the node offers less than before. Deleted nodes are removed, so
// the number of existing nodes bounds its size. The zero value is not ready to use.
type doubts struct {
	mu sync.Mutex
	// exists reports whether a node exists.
	exists func(string) bool
	// reserved has the nodes that had reservations when they changed. The main loop reviews them.
	reserved sets.Set[string]
	// recent has the nodes that changed since the last decision read its snapshot. before has the
	// nodes that changed between the last two such reads. The snapshot of the last decision may
	// lack these changes.
	recent, before sets.Set[string]
	wanted         chan struct{}
}

func newDoubts(exists func(string) bool) *doubts {
	return &doubts{exists: exists, reserved: sets.New[string](), recent: sets.New[string](), before: sets.New[string](), wanted: make(chan struct{}, 1)}
}

// add records a node, and whether there are reservations on it.
func (d *doubts) add(node string, reserved bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// The check holds the lock, so that forget runs after it if the node is deleted.
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

// forget drops a deleted node.
func (d *doubts) forget(node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, nodes := range []sets.Set[string]{d.reserved, d.recent, d.before} {
		nodes.Delete(node)
	}
}

// take returns the recorded nodes with reservations, and clears the list.
func (d *doubts) take() sets.Set[string] {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reserved.Len() == 0 {
		return nil
	}
	nodes := d.reserved
	d.reserved = sets.New[string]()
	return nodes
}

// looks records that a decision now uses a snapshot that was taken a moment ago.
func (d *doubts) looks() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.recent.Len()+d.before.Len() > 0 {
		d.before, d.recent = d.recent, sets.New[string]()
	}
}

// isRecent reports whether the snapshot of the last decision may lack a change of a node.
func (d *doubts) isRecent(node string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.recent.Has(node) || d.before.Has(node)
}

// doubt asks the main loop to review the reservations on a node, if there are any.
func (h *Scheduler) doubt(node string) { h.doubted.add(node, len(h.reserved.On(node)) > 0) }

// reviewRooms releases the reservations that recorded nodes cannot fulfill. It also records nodes
// whose dips have lasted too long, and releases the reservations whose nodes reject the pods.
func (h *Scheduler) reviewRooms(now time.Time) {
	over := h.dips.over(now)
	for _, node := range over {
		h.doubt(node)
	}
	if len(over) > 0 {
		h.releaseLost()
	}
	h.releaseCrowded(h.doubted.take(), workload.Key{})
}

// replanCrowded plans a workload again soon if the room that it has just reserved does not exist.
// The snapshot of its cycle was older than the informers.
func (h *Scheduler) replanCrowded(key workload.Key) {
	for _, r := range h.reserved.Of(key) {
		if h.doubted.isRecent(r.Node) && slices.ContainsFunc(h.crowdedOutOn(r.Node), func(out *engine.Reservation) bool { return out.UID == r.UID }) {
			h.waits.Gather(key, h.clock.Now().Add(mostCacheDelay))
			return
		}
	}
}

// reviewSharedNodes asks the main loop to review the nodes that a workload shares with other
// reservations. Its evictions may have continued for those other workloads.
func (h *Scheduler) reviewSharedNodes(key workload.Key) {
	for _, r := range h.reserved.Of(key) {
		if h.isShared(r.Node, sets.New(key)) {
			h.doubt(r.Node)
		}
	}
}

// isShared reports whether a node has reservations of workloads that are not in than.
func (h *Scheduler) isShared(node string, than sets.Set[workload.Key]) bool {
	return slices.ContainsFunc(h.reserved.On(node), func(r *engine.Reservation) bool {
		key, ok := h.reserved.KeyOf(r.UID)
		return ok && !than.Has(key)
	})
}

// occupies records that a pod has come to its node, or requests other resources since an update.
func (h *Scheduler) occupies(before, now *corev1.Pod) {
	if now.Spec.NodeName == "" {
		return
	}
	came := before == nil || before.Spec.NodeName == ""
	if came || isResized(before, now) {
		h.doubt(now.Spec.NodeName)
	}
	if came {
		h.replanNeighbors(now)
	}
}

// replanNeighbors plans workloads again soon if a pod has come to their node and affects them by
// more than its room. The filters know whether the pods can be on one node.
func (h *Scheduler) replanNeighbors(came *corev1.Pod) {
	for _, r := range h.reserved.On(came.Spec.NodeName) {
		key, ok := h.reserved.KeyOf(r.UID)
		if ok && key != h.keyOf(came) && mayMind(podIn(r), came) {
			h.waits.Gather(key, h.clock.Now().Add(mostCacheDelay))
		}
	}
}

// mayMind reports whether a waiting pod may depend on a pod that came to its node, by more than the
// room.
func mayMind(waiting, came *corev1.Pod) bool {
	if _, plain := snapshot.NeedsOf(waiting); !plain || len(util.GetHostPorts(waiting)) > 0 {
		return true
	}
	a := came.Spec.Affinity
	return a != nil && a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
}

// isResized reports whether a pod requests other resources than before.
func isResized(before, now *corev1.Pod) bool {
	differ := func(a, b []corev1.Container) bool {
		return !slices.EqualFunc(a, b, func(x, y corev1.Container) bool { return apiequality.Semantic.DeepEqual(x.Resources, y.Resources) })
	}
	return differ(before.Spec.Containers, now.Spec.Containers) || differ(before.Spec.InitContainers, now.Spec.InitContainers) ||
		!apiequality.Semantic.DeepEqual(before.Spec.Resources, now.Spec.Resources)
}
