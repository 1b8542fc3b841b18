package scheduler

import (
	"cmp"
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/dips"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/logging"
	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// nodeWatch follows the nodes and the offers of their device and volume drivers, and releases
// reservations on nodes that are gone or reject the pods. The informers and the main loop call it.
// [rooms] releases reservations on nodes that accept the pods but lack room. It is safe for
// concurrent use.
type nodeWatch struct {
	index      *cluster.Index
	placements *cluster.Placements
	ledger     *cluster.Ledger
	quotas     *queue.Ledger
	dips       *dips.Dips
	handle     framework.Framework
	reserved   *engine.Reservations
	waits      *engine.Waits
	wanted     *wants
	clock      clock.WithTicker
	metrics    *metrics.Metrics
	retries    *retries
	releases   *releases
	rooms      *rooms
}

// watch registers the handlers for nodes. They update the capacity in the quota ledger. When a node
// is deleted or accepts fewer pods, they release reservations on it.
func (ns *nodeWatch) watch(nodes cache.SharedIndexInformer) (cache.ResourceEventHandlerRegistration, error) {
	return nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			ns.set(obj)
			if node, ok := obj.(*corev1.Node); ok {
				// An earlier leader may have left reservations on the node, so a temporary taint
				// counts as a dip.
				ns.dips.Follow(&corev1.Node{}, node, ns.clock.Now())
				ns.chargeOn(node.Name)
			}
		},
		UpdateFunc: func(before, after any) {
			ns.set(after)
			ns.noteDips(before, after)
			if turnsMoreAway(before, after) {
				ns.releaseLost()
			}
		},
		DeleteFunc: func(obj any) {
			if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = d.Obj
			}
			if node, ok := obj.(*corev1.Node); ok {
				ns.quotas.DeleteNode(node.Name)
				ns.dips.Forget(node.Name)
				ns.rooms.toReview.forget(node.Name)
			}
			ns.releaseLost()
		},
	})
}

// turnsMoreAway reports whether a node may accept fewer pods after an update. It is false for
// heartbeats, which are most of the updates.
func turnsMoreAway(before, after any) bool {
	old, ok1 := before.(*corev1.Node)
	now, ok2 := after.(*corev1.Node)
	return ok1 && ok2 && (now.Spec.Unschedulable != old.Spec.Unschedulable || !slices.Equal(now.Spec.Taints, old.Spec.Taints) ||
		!maps.Equal(now.Labels, old.Labels))
}

// noteDips records a dip if a node offers less than before or has a temporary taint; see dips. If
// the dip lasts, the main loop reviews the node's reservations later. If one update replaces the
// node by another node of the same name, there is no dip. The reservations are then reviewed at
// once.
func (ns *nodeWatch) noteDips(before, after any) {
	old, ok1 := before.(*corev1.Node)
	now, ok2 := after.(*corev1.Node)
	if !ok1 || !ok2 {
		return
	}
	if old.UID != now.UID {
		ns.dips.Forget(old.Name)
		ns.rooms.requestReview(now.Name)
		old = &corev1.Node{}
	}
	ns.dips.Follow(old, now, ns.clock.Now())
}

func (ns *nodeWatch) set(obj any) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return
	}
	ns.metrics.Offers(node.Status.Allocatable)
	if isClosed(node) {
		ns.quotas.SetClosedNode(node)
	} else {
		ns.quotas.SetNode(node)
	}
}

// isClosed reports whether a node is cordoned or not ready.
func isClosed(node *corev1.Node) bool {
	return node.Spec.Unschedulable || slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	})
}

// releaseBlocked releases the reservations of workloads that have become blocked. Such workloads
// have no scheduling cycle that could release them.
func (ns *nodeWatch) releaseBlocked() {
	if ns.reserved.Empty() {
		return
	}
	for _, key := range ns.reserved.Keys() {
		// Skip a workload with evictions under way. The end of the evictions reviews it.
		if why := ns.placements.BlockedBy(key); why != "" && !ns.waits.Evicting(key) {
			// The retry makes the workload report why it is blocked.
			ns.releases.andRetry(key, why)
		}
	}
}

// releaseLost releases reservations on nodes that no longer accept the pods, and retries the
// workloads. The framework runs no cycles without nodes, so cycles cannot do this. The main loop
// calls it regularly, because a cycle may reserve room on a node just after the node was lost.
func (ns *nodeWatch) releaseLost() {
	ns.wanted.askAnew()
	if !ns.reserved.Empty() {
		for _, key := range ns.reserved.Keys() {
			// Skip a workload with evictions under way. It is reviewed when they end.
			if why := ns.ledger.LostNode(key); why != "" && !ns.waits.Evicting(key) {
				ns.loseNode(key, why)
			}
		}
	}
	for key, why := range ns.waitingOnLost() {
		ns.releases.reportLost(key, why)
		ns.releases.plan(key, nil, why)
		ns.retries.Retry(gangKey(key))
	}
}

// loseNode releases the reservations of a workload that lost a node, logs the reason, and retries
// the workload. For a gang, it also updates the verdict.
func (ns *nodeWatch) loseNode(key workload.Key, why string) {
	logging.Happened(logging.Of(context.Background(), key), "Released the reservations of a workload", why)
	if key.Gang {
		ns.releases.reportLost(nameOf(key), why)
	}
	ns.releases.andRetry(key, why)
}

// waitingOnLost returns the gangs with a member at Permit whose node no longer accepts it, each
// with the reason. Such a member must not be bound, because it would need a replacement at once.
func (ns *nodeWatch) waitingOnLost() map[types.NamespacedName]string {
	lost := make(map[types.NamespacedName]string)
	ns.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		pod := w.GetPod()
		key, ok := ns.index.GroupOf(pod)
		if !ok || pod.Spec.NodeName == "" || lost[key] != "" {
			return
		}
		if why := cmp.Or(ns.ledger.TurnsAway(pod.Spec.NodeName, pod), ns.ledger.SplitOver(key)); why != "" {
			lost[key] = why
		}
	})
	return lost
}

// chargeOn charges the pods on a node to their queues. It is called when the node appears, because
// its pods may have appeared first.
func (ns *nodeWatch) chargeOn(node string) {
	if !ns.quotas.Used() {
		return
	}
	for _, pod := range ns.index.PodsOn(node) {
		ns.ledger.Recharge(pod)
	}
}

// watchOffers registers the handlers that report changes of offers to the dips.
func (ns *nodeWatch) watchOffers(factory informers.SharedInformerFactory) error {
	csiNodes := factory.Storage().V1().CSINodes()
	found := dips.Publications{CSINodes: csiNodes.Lister()}
	if _, err := csiNodes.Informer().AddEventHandler(ns.offersChanged(dips.NameOfCSINode)); err != nil {
		return err
	}
	// Without dynamic resource allocation, the API server may not serve ResourceSlices.
	if ns.handle.SharedDRAManager() != nil {
		published := factory.Resource().V1().ResourceSlices()
		if err := published.Informer().AddIndexers(cache.Indexers{dips.SliceNodeIndex: dips.NodeOfSlice}); err != nil {
			return err
		}
		found.Slices = published.Informer().GetIndexer()
		if _, err := published.Informer().AddEventHandler(ns.offersChanged(dips.NodeOfSlice)); err != nil {
			return err
		}
	}
	ns.dips.ReadOffers(found)
	return nil
}

// offersChanged returns handlers that report a change of an object to the dips of its node.
func (ns *nodeWatch) offersChanged(nodeOf cache.IndexFunc) cache.ResourceEventHandler {
	changed := func(obj any) {
		if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = d.Obj
		}
		nodes, _ := nodeOf(obj)
		for _, node := range nodes {
			if node == dips.NoNode {
				ns.dips.FollowShared(ns.clock.Now())
			} else {
				ns.dips.FollowOffers(node, ns.clock.Now())
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: changed, DeleteFunc: changed,
		// The node of an object never changes, so the new version is enough.
		UpdateFunc: func(_, after any) { changed(after) },
	}
}
