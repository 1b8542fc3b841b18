package cluster

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// HasNode reports whether the informer has a node.
func (r *Index) HasNode(name string) bool {
	_, err := r.Nodes.Get(name)
	return err == nil
}

// PodsOn returns the pods that are bound to a node and not finished.
func (r *Index) PodsOn(node string) []*corev1.Pod {
	found, err := r.placed.ByIndex(nodeIndex, node)
	if err != nil {
		return nil
	}
	out := make([]*corev1.Pod, 0, len(found))
	for _, obj := range found {
		if pod, ok := obj.(*corev1.Pod); ok {
			out = append(out, pod)
		}
	}
	return out
}

// CouldRunOn reports whether a pod's node selector, node affinity and tolerations allow a node. It
// ignores the other pods on the node.
func (r *Index) CouldRunOn(node *corev1.Node, pod *corev1.Pod) bool {
	wanted, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return err == nil && wanted && r.rejects(node, pod) == ""
}

// rejects returns the reason why a node cannot accept a pod; "" if it can. It checks for a cordoned
// node, for taints that the pod does not tolerate, and for labels that the pod requires. A node
// that is not ready has a taint. The filters of a cycle check everything else.
func (r *Index) rejects(node *corev1.Node, pod *corev1.Pod) string {
	name := node.Name
	if node.Spec.Unschedulable && !tolerates(pod, &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}) &&
		r.Profiles.Filters(pod.Spec.SchedulerName).Has(names.NodeUnschedulable) {
		return fmt.Sprintf("node %s is cordoned", name)
	}
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(pod, taint) &&
			r.Profiles.Filters(pod.Spec.SchedulerName).Has(names.TaintToleration) {
			return fmt.Sprintf("node %s has the taint %s", name, taint.ToString())
		}
	}
	if hasLabels, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); (err != nil || !hasLabels) &&
		r.Profiles.Filters(pod.Spec.SchedulerName).Has(names.NodeAffinity) {
		return fmt.Sprintf("node %s does not match the node selector or affinity of pod %s", name, pod.Name)
	}
	return ""
}

func tolerates(pod *corev1.Pod, taint *corev1.Taint) bool {
	return corev1helpers.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, taint, true)
}

// Staying returns a NodeInfo with the bound and assumed pods that are not terminating; nil for a
// node that does not exist.
func (o *Placements) Staying(name string) *framework.NodeInfo {
	node, err := o.index.Nodes.Get(name)
	if err != nil {
		return nil
	}
	info, seen := framework.NewNodeInfo(), sets.New[string]()
	info.SetNode(node)
	// List the assumed pods first. A pod that is bound between the two reads is then among the
	// bound pods.
	var assumed []*corev1.Pod
	for _, key := range o.records.AssumedOn(name) {
		if pod, ok := o.index.PodOf(key); ok {
			assumed = append(assumed, pod)
		}
	}
	for _, pod := range slices.Concat(o.index.PodsOn(name), assumed) {
		if !seen.Has(string(pod.UID)) && !o.IsLeaving(pod) {
			info.AddPod(pod)
		}
		seen.Insert(string(pod.UID))
	}
	return info
}

// IsCurrent reports whether a snapshot has the informers' version of a node and of all pods that
// are bound to it. The snapshot may have more pods. IsCurrent is true for a node that does not
// exist.
func (o *Placements) IsCurrent(name string, snapshot fwk.SharedLister) bool {
	node, err := o.index.Nodes.Get(name)
	if err != nil {
		return true
	}
	info, err := snapshot.NodeInfos().Get(name)
	if err != nil || info.Node() == nil || !isSameVersion(info.Node(), node) {
		return false
	}
	seen := make(map[types.UID]*corev1.Pod, len(info.GetPods()))
	for _, pi := range info.GetPods() {
		seen[pi.GetPod().UID] = pi.GetPod()
	}
	return !slices.ContainsFunc(o.index.PodsOn(name), func(pod *corev1.Pod) bool {
		known, ok := seen[pod.UID]
		return !ok || !isSameVersion(known, pod)
	})
}

// isSameVersion reports whether two objects are the same version of one object. Objects without a
// resource version are compared by address: the cache and the informers share their objects.
func isSameVersion[T interface {
	comparable
	metav1.Object
}](a, b T) bool {
	return a == b || a.GetResourceVersion() != "" && a.GetResourceVersion() == b.GetResourceVersion()
}

// TurnsAway returns the reason why a node no longer accepts a pod; "" if it does. The reason may be
// that the node is deleted, or that rejects returns a reason. A node with a dip counts as it was
// before the dip.
func (b *Ledger) TurnsAway(name string, pod *corev1.Pod) string {
	node, err := b.index.Nodes.Get(name)
	if err != nil {
		return fmt.Sprintf("node %s has gone", name)
	}
	return b.index.rejects(b.dips.Without(node), pod)
}

// LostNode returns a message about a reserved node of the workload that no longer accepts the pod;
// "" for none. A node with a dip counts as it was before the dip.
func (b *Ledger) LostNode(key workload.Key) string {
	for _, r := range b.reserved.Of(key) {
		if why := b.TurnsAway(r.Node, PodIn(r)); why != "" {
			return why
		}
	}
	if key.Gang {
		return b.SplitOver(gang.NameOf(key))
	}
	return ""
}

// InvalidBecause returns the reason why the reservations of a workload are no longer valid; "" if
// they are valid.
func (b *Ledger) InvalidBecause(key workload.Key) string {
	if b.IsDisallowed(key) {
		return "its queue has changed"
	}
	return b.LostNode(key)
}

// isOnMissingNode reports whether a pod names a node that does not exist. It is false if the quota
// ledger has already charged the pod as a pod on that node. Users who may create pods can name any
// node, and such a pod uses no room. If a node was deleted, its pods may still run, so they count
// until they are gone.
func (b *Ledger) isOnMissingNode(pod *corev1.Pod) bool {
	node := pod.Spec.NodeName
	// Without an informer for nodes, assume that every node exists.
	return node != "" && b.index.Nodes != nil && !b.index.HasNode(node) && !b.quotas.IsOn(pod.UID, node)
}
