package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// watchNodes keeps the books of what there is to share, and has what was promised on a node taken back when that is lost.
func (h *Hub) watchNodes(nodes cache.SharedIndexInformer) (cache.ResourceEventHandlerRegistration, error) {
	return nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: h.nodeSet,
		UpdateFunc: func(before, after any) {
			h.nodeSet(after)
			if turnsMoreAway(before, after) {
				h.takeBackLost()
			}
			h.mayDip(before, after)
		},
		DeleteFunc: func(obj any) {
			if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = d.Obj
			}
			if node, ok := obj.(*corev1.Node); ok {
				h.board.DeleteNode(node.Name)
				h.dips.forget(node.Name)
				h.doubted.forget(node.Name)
			}
			h.takeBackLost()
		},
	})
}

// turnsMoreAway reports whether a node may take fewer pods than before. Heartbeats, which are most updates, do not change that.
func turnsMoreAway(before, after any) bool {
	old, ok1 := before.(*corev1.Node)
	now, ok2 := after.(*corev1.Node)
	return ok1 && ok2 && (now.Spec.Unschedulable != old.Spec.Unschedulable || !slices.Equal(now.Spec.Taints, old.Spec.Taints) ||
		!maps.Equal(now.Labels, old.Labels))
}

// mayDip records whether a node offers less than before. The main loop looks at its reservations
// when it still does some time later.
func (h *Hub) mayDip(before, after any) {
	old, ok1 := before.(*corev1.Node)
	now, ok2 := after.(*corev1.Node)
	if ok1 && ok2 {
		h.dips.follow(old, now, h.clock.Now())
	}
}

func (h *Hub) nodeSet(obj any) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return
	}
	h.metrics.Offers(node.Status.Allocatable)
	if isClosed(node) {
		h.board.SetClosedNode(node)
	} else {
		h.board.SetNode(node)
	}
}

// isClosed reports whether a node takes no pods for now: it is cordoned, or not ready.
func isClosed(node *corev1.Node) bool {
	return node.Spec.Unschedulable || slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	})
}

// takeBackHeld takes back what is promised to workloads that are held back by now: no cycle comes that would.
func (h *Hub) takeBackHeld() {
	if h.reserved.Empty() {
		return
	}
	for _, key := range h.reserved.Keys() {
		// While calls are under way for a workload, it is looked at when they are over.
		if why := h.heldBack(key); why != "" && !h.waits.Evicting(key) {
			// Woken, it says itself what it waits for.
			h.displace(key, why)
		}
	}
}

// takeBackLost has workloads start over that have been promised room on a node which cannot take them any more. A cycle
// that began before the node was lost may promise it afterwards, so the main loop calls this too, and it goes by how things
// are. No cycle would: the framework runs none once the last node has gone.
func (h *Hub) takeBackLost() {
	h.wanted.askAnew()
	if !h.reserved.Empty() {
		for _, key := range h.reserved.Keys() {
			// While calls are under way for a workload, it is looked at when they are over.
			if why := h.lostNode(key); why != "" && !h.waits.Evicting(key) {
				h.loseNode(key, why)
			}
		}
	}
	for key, why := range h.waitingOnLost() {
		h.tellLost(key, why)
		h.release(key, nil, why)
		h.wake(gangKey(key))
	}
}

// loseNode takes back what has been promised to a workload, says so, and has it planned again.
func (h *Hub) loseNode(key workload.Key, why string) {
	happened(logOf(context.Background(), key), "Gave up the room that a workload was promised", why)
	if key.Gang {
		h.tellLost(nameOf(key), why)
	}
	h.displace(key, why)
}

// tellLost has a gang say that it has no room, and no more that room is being made or that it fits. Without any node, no cycle
// comes that would say more.
func (h *Hub) tellLost(key types.NamespacedName, why string) {
	switch h.registry.Verdict(key).Reason {
	case v1alpha1.ReasonPreempting, v1alpha1.ReasonPending:
		h.registry.SetVerdict(key, gang.Verdict{Reason: v1alpha1.ReasonUnschedulable, Message: why + "; it is planned again"})
	}
}

// lostNode says which node cannot take a workload any more that has been promised room there, and why; "" where all can.
func (b *books) lostNode(key workload.Key) string {
	for _, r := range b.reserved.Of(key) {
		if why := b.turnsAway(r.Node, r.Pod.GetPod()); why != "" {
			return why
		}
	}
	return ""
}

// forfeits says why a workload cannot have any more what it has been promised; "" where it can.
func (b *books) forfeits(key workload.Key) string {
	if b.isBarred(key) {
		return "its queue has changed"
	}
	return b.lostNode(key)
}

// waitingOnLost are the gangs with a member at Permit whose node cannot take it any more, with the reason: members that are
// bound there would have to be replaced at once.
func (h *Hub) waitingOnLost() map[types.NamespacedName]string {
	lost := make(map[types.NamespacedName]string)
	h.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		pod := w.GetPod()
		key, ok := h.groupOf(pod)
		if !ok || pod.Spec.NodeName == "" || lost[key] != "" {
			return
		}
		if why := h.turnsAway(pod.Spec.NodeName, pod); why != "" {
			lost[key] = why
		}
	})
	return lost
}

// turnsAway says why a node cannot take a pod: it has gone, is cordoned, has a taint that the pod
// does not tolerate, as one that is not ready has, or does not have the labels that the pod
// requires. It is "" for a node that can. What else may be in the way is for the filters to say in
// a cycle.
func (r *roster) turnsAway(name string, pod *corev1.Pod) string {
	node, err := r.nodes.Get(name)
	if err != nil {
		return fmt.Sprintf("node %s has gone", name)
	}
	if node.Spec.Unschedulable && !tolerates(pod, &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}) &&
		r.profiles.filters(pod.Spec.SchedulerName).Has(names.NodeUnschedulable) {
		return fmt.Sprintf("node %s is cordoned", name)
	}
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(pod, taint) &&
			r.profiles.filters(pod.Spec.SchedulerName).Has(names.TaintToleration) {
			return fmt.Sprintf("node %s has the taint %s", name, taint.ToString())
		}
	}
	if hasLabels, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); (err != nil || !hasLabels) &&
		r.profiles.filters(pod.Spec.SchedulerName).Has(names.NodeAffinity) {
		return fmt.Sprintf("node %s does not match the node selector or affinity of pod %s", name, pod.Name)
	}
	return ""
}

func tolerates(pod *corev1.Pod, taint *corev1.Taint) bool {
	return corev1helpers.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, taint, true)
}

// filters are the names of the Filter plugins that a profile runs.
func (ps *profiles) filters(name string) sets.Set[string] {
	ps.mu.RLock()
	plugins := ps.byName[name].plugins
	ps.mu.RUnlock()
	out := sets.New[string]()
	if plugins == nil {
		return out
	}
	for _, p := range plugins().Filter.Enabled {
		out.Insert(p.Name)
	}
	return out
}
