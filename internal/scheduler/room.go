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
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/reprieve-dev/reprieve/internal/reservation"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// crowdedOut returns the reservations on a node that do not fit there, beside the pods of the
// NodeInfo and the reservations that they have to respect. The NodeInfo has the pods that stay.
// Reservations are taken in by priority, and among equals in their order, so as few as possible
// give way, and none gives way to a lower one. The seeker of a reservation is nil if room does not
// matter to its pod.
func crowdedOut(node fwk.NodeInfo, reserved []*reservation.Reservation, seekerOf func(*reservation.Reservation) *seeker) []*reservation.Reservation {
	byPriority := slices.Clone(reserved)
	slices.SortStableFunc(byPriority, func(x, y *reservation.Reservation) int { return cmp.Compare(y.Priority, x.Priority) })
	var kept, out []*reservation.Reservation
	for _, r := range byPriority {
		if r.IsUsedOn(node) {
			continue
		}
		if s := seekerOf(r); s == nil || s.fitsBeside(node, heldFrom(kept, node, r.Standing, r.UID)) {
			kept = append(kept, r)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// crowdedOutOn returns the reservations on a node that the node cannot fulfill, even once all pods
// on their way out have gone. It goes by the informers and by the places of assumed pods, and not
// by the snapshot of a cycle, so any goroutine may call it. A node that has just begun to offer less
// counts as it was before. Nodes that have gone are for takeBackLost.
func (b *books) crowdedOutOn(node string) []*reservation.Reservation {
	reserved := b.reserved.On(node)
	if len(reserved) == 0 {
		return nil
	}
	info := b.staying(node)
	if info == nil {
		return nil
	}
	info.SetNode(b.dips.without(info.Node()))
	return crowdedOut(info, reserved, func(r *reservation.Reservation) *seeker {
		counted := b.profiles.resources(r.Pod.GetPod().Spec.SchedulerName)
		if counted == nil {
			return nil
		}
		return seekerOf(r.Pod, r.Standing, counted)
	})
}

// staying returns a node with the pods that stay on it: those that are bound or assumed there,
// without those that are leaving. It is nil for a node that has gone.
func (o *occupancy) staying(name string) *framework.NodeInfo {
	node, err := o.nodes.Get(name)
	if err != nil {
		return nil
	}
	info, seen := framework.NewNodeInfo(), sets.New[string]()
	info.SetNode(node)
	// Assumed pods first: one that is bound meanwhile is among the others.
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

// releaseCrowded releases the reservations of workloads that nodes cannot fulfill any more: their
// last victims would go for nothing, and others would be kept from room that is free. Evictions
// that have not begun are called off, and the workloads are planned again. As few as possible give
// way. The excepted workload is left alone.
//
// An eviction goes on that makes room which a workload above counts on: that one may not be allowed
// to take it by itself, and both would take turns.
func (h *Hub) releaseCrowded(nodes sets.Set[string], except workload.Key) {
	for _, node := range sets.List(nodes) {
		done := sets.New(except)
		for {
			key, r, ok := h.firstCrowded(node, done)
			if !ok {
				break
			}
			done.Insert(key)
			if !h.makesRoomForOthers(key, r) {
				h.loseRoom(key, fmt.Sprintf("node %s has too little room left for pod %s beside the pods that stay there", node, r.Pod.GetPod().Name))
			}
		}
	}
}

// firstCrowded returns the first reservation that a node cannot fulfill, of a workload that is not
// done.
func (h *Hub) firstCrowded(node string, done sets.Set[workload.Key]) (workload.Key, *reservation.Reservation, bool) {
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

// makesRoomForOthers reports whether evictions are under way for a workload, and one that need not
// respect its reservation waits for the same victims.
func (h *Hub) makesRoomForOthers(key workload.Key, crowded *reservation.Reservation) bool {
	if !h.waits.Evicting(key) {
		return false
	}
	return slices.ContainsFunc(h.reserved.On(crowded.Node), func(r *reservation.Reservation) bool {
		other, ok := h.reserved.KeyOf(r.UID)
		return ok && other != key && !crowded.KeepsFrom(r.Standing) && h.waits.ShareVictims(key, other)
	})
}

// loseRoom releases the reservations of a workload, and has it planned again. While calls are under
// way for it, they stop first.
func (h *Hub) loseRoom(key workload.Key, why string) {
	happened(logOf(context.Background(), key), "Released the room that was reserved for a workload", why)
	if key.Gang {
		h.tellLost(nameOf(key), why)
	}
	h.takeBack(key, why)
	if !h.waits.Evicting(key) {
		h.wake(key)
	}
}

// doubts are the nodes on which something has come, grown or stays after all, or that have less
// than before. A node that is gone is none of them, so they are no more than there are nodes. The
// zero value is not ready to use.
type doubts struct {
	mu sync.Mutex
	// exists reports whether a node exists.
	exists func(string) bool
	// reserved are those with reservations at that moment. The main loop looks at them.
	reserved sets.Set[string]
	// recent are all since the look before the last one that a decision has taken. Its snapshot may
	// lack what has happened there.
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
	// Under the lock: once the node is gone, forget comes after this.
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

// forget drops a node that is gone.
func (d *doubts) forget(node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, nodes := range []sets.Set[string]{d.reserved, d.recent, d.before} {
		nodes.Delete(node)
	}
}

// take returns the nodes with reservations, and forgets that they are in doubt.
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

// looks records that a decision looks at a snapshot that was taken a moment ago.
func (d *doubts) looks() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.recent.Len()+d.before.Len() > 0 {
		d.before, d.recent = d.recent, sets.New[string]()
	}
}

// isRecent reports whether something has happened on a node that the snapshot of the last decision
// may lack.
func (d *doubts) isRecent(node string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.recent.Has(node) || d.before.Has(node)
}

// doubt has the main loop look at the reservations on a node, if there are any.
func (h *Hub) doubt(node string) { h.doubted.add(node, len(h.reserved.On(node)) > 0) }

// reviewRooms releases the reservations that nodes in doubt cannot fulfill. A node is in doubt, too,
// once it has offered less for some time.
func (h *Hub) reviewRooms(now time.Time) {
	for _, node := range h.dips.over(now) {
		h.doubt(node)
	}
	h.releaseCrowded(h.doubted.take(), workload.Key{})
}

// lookAgain has a workload planned again, soon, if it has just reserved room that is not there: the
// snapshot of its cycle was older than the informers are.
func (h *Hub) lookAgain(key workload.Key) {
	for _, r := range h.reserved.Of(key) {
		if h.doubted.isRecent(r.Node) && slices.ContainsFunc(h.crowdedOutOn(r.Node), func(out *reservation.Reservation) bool { return out.UID == r.UID }) {
			h.waits.Gather(key, h.clock.Now().Add(mostCacheDelay))
			return
		}
	}
}

// lookBeside has the main loop look at the nodes on which others have reservations beside those of
// a workload. Its evictions may have gone on for the sake of these others.
func (h *Hub) lookBeside(key workload.Key) {
	for _, r := range h.reserved.Of(key) {
		if h.isShared(r.Node, sets.New(key)) {
			h.doubt(r.Node)
		}
	}
}

// isShared reports whether a node has reservations of other workloads than these.
func (h *Hub) isShared(node string, than sets.Set[workload.Key]) bool {
	return slices.ContainsFunc(h.reserved.On(node), func(r *reservation.Reservation) bool {
		key, ok := h.reserved.KeyOf(r.UID)
		return ok && !than.Has(key)
	})
}

// occupies looks at the reservations on the node of a pod that has come there, or counts for more
// since an update.
func (h *Hub) occupies(before, now *corev1.Pod) {
	if now.Spec.NodeName == "" {
		return
	}
	came := before == nil || before.Spec.NodeName == ""
	if came || isResized(before, now) {
		h.doubt(now.Spec.NodeName)
	}
	if came {
		h.comesBeside(now)
	}
}

// comesBeside has workloads planned again, soon, for which a pod that has come to their node
// matters by more than its room: the filters know whether they can be beside it.
func (h *Hub) comesBeside(came *corev1.Pod) {
	for _, r := range h.reserved.On(came.Spec.NodeName) {
		key, ok := h.reserved.KeyOf(r.UID)
		if ok && key != h.keyOf(came) && mayMind(r.Pod.GetPod(), came) {
			h.waits.Gather(key, h.clock.Now().Add(mostCacheDelay))
		}
	}
}

// mayMind reports whether a pod that waits for its place may mind another one there for more than
// its room.
func mayMind(waiting, came *corev1.Pod) bool {
	if _, plain := snapshot.NeedsOf(waiting); !plain || len(util.GetHostPorts(waiting)) > 0 {
		return true
	}
	a := came.Spec.Affinity
	return a != nil && a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
}

// isResized reports whether a pod asks for other resources than before.
func isResized(before, now *corev1.Pod) bool {
	differ := func(a, b []corev1.Container) bool {
		return !slices.EqualFunc(a, b, func(x, y corev1.Container) bool { return apiequality.Semantic.DeepEqual(x.Resources, y.Resources) })
	}
	return differ(before.Spec.Containers, now.Spec.Containers) || differ(before.Spec.InitContainers, now.Spec.InitContainers) ||
		!apiequality.Semantic.DeepEqual(before.Spec.Resources, now.Spec.Resources)
}
