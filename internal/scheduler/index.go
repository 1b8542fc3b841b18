package scheduler

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/profiles"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// clusterIndex finds pods, groups and nodes in the informers. It returns the group, the priority
// and the profile of a pod. It has no state of its own and is safe for concurrent use.
type clusterIndex struct {
	groups gang.Source
	// derived finds the group of a pod, whether the pod names it or not.
	derived  Derived
	trees    *gang.Trees
	profiles profiles.Set
	lister   *gang.Lister
	pods     corelisters.PodLister
	// placed holds the pods by their node, in the index nodeIndex.
	placed cache.Indexer
	nodes  corelisters.NodeLister
}

// indexOf returns the clusterIndex over the scheduler's informers. finished is the informer for
// finished pods, because the scheduler's own informer leaves them out.
func (in *Inputs) indexOf(factory informers.SharedInformerFactory, finished cache.SharedIndexInformer) (*clusterIndex, error) {
	r := in.emptyIndex()
	pods := factory.Core().V1().Pods()
	if err := pods.Informer().AddIndexers(cache.Indexers{nodeIndex: indexByNode}); err != nil {
		return nil, fmt.Errorf("index pods by node: %w", err)
	}
	if err := gang.AddDriverIndexes(pods.Informer(), r.derived); err != nil {
		return nil, err
	}
	r.placed = pods.Informer().GetIndexer()
	for _, informer := range [...]cache.SharedIndexInformer{pods.Informer(), finished} {
		if err := addNamespaceIndex(informer); err != nil {
			return nil, err
		}
		if err := gang.AddIndex(informer); err != nil {
			return nil, err
		}
		if err := gang.AddAnchorIndex(informer, r.derived); err != nil {
			return nil, err
		}
	}
	r.pods, r.nodes = pods.Lister(), factory.Core().V1().Nodes().Lister()
	r.lister = gang.NewLister(pods.Informer().GetIndexer(), finished.GetIndexer())
	if in.Derived != nil {
		r.lister = r.lister.WithDerived(in.Derived)
	}
	r.lister = r.lister.WithTrees(in.Trees)
	return r, nil
}

// nodeIndex is the name of the informer's index of pods by the node that they are bound to.
const nodeIndex = "reprieve/node"

func indexByNode(obj any) ([]string, error) {
	if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
		return []string{pod.Spec.NodeName}, nil
	}
	return nil, nil
}

// addNamespaceIndex adds the index by namespace to an informer that has not been started, unless
// the informer already has it. Without the index, listing a namespace reads all objects.
func addNamespaceIndex(informer cache.SharedIndexInformer) error {
	if _, ok := informer.GetIndexer().GetIndexers()[cache.NamespaceIndex]; ok {
		return nil
	}
	if err := informer.AddIndexers(cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}); err != nil {
		return fmt.Errorf("index pods by namespace: %w", err)
	}
	return nil
}

// emptyIndex returns a clusterIndex that finds groups, but no pods.
func (in *Inputs) emptyIndex() *clusterIndex {
	r := &clusterIndex{groups: in.Groups, derived: in.Derived}
	if r.derived == nil {
		r.derived = underived{}
	}
	if r.trees = in.Trees; r.trees != nil {
		r.derived = treed{r.derived, r.trees}
	}
	r.profiles.Confined = in.Confined
	return r
}

// awaitsPlace reports whether the informer has the pod without a node and without a deletion
// timestamp. For a pod that fails this check, the scheduler has removed its state, or is about to
// remove it.
func (r *clusterIndex) awaitsPlace(pod *corev1.Pod) bool {
	now, err := r.pods.Pods(pod.Namespace).Get(pod.Name)
	return err == nil && now.UID == pod.UID && now.Spec.NodeName == "" && now.DeletionTimestamp == nil
}

func (r *clusterIndex) exists(pod *corev1.Pod) bool {
	now, err := r.pods.Pods(pod.Namespace).Get(pod.Name)
	return err == nil && now.UID == pod.UID
}

// owns reports whether a pod belongs to a workload.
func (r *clusterIndex) owns(key workload.Key, pod *corev1.Pod) bool {
	if !key.Gang {
		return string(pod.UID) == key.UID
	}
	of, ok := r.derived.GroupOf(pod)
	return ok && of == nameOf(key)
}

// keyOf returns the key of a pod's workload: its gang, or the single pod.
func (r *clusterIndex) keyOf(pod *corev1.Pod) workload.Key {
	if g := r.gangOf(pod); g != nil {
		return gangKey(g.Key)
	}
	return podKey(pod)
}

// podOf returns the pod of a single-pod workload from the informer; false if it does not exist.
func (r *clusterIndex) podOf(key workload.Key) (*corev1.Pod, bool) {
	pod, err := r.pods.Pods(key.Namespace).Get(key.Name)
	return pod, err == nil && string(pod.UID) == key.UID
}

// latest returns the informer's version of a pod. It returns the given version of a pod that has
// been deleted or replaced.
func (r *clusterIndex) latest(pod *corev1.Pod) *corev1.Pod {
	if now, err := r.pods.Pods(pod.Namespace).Get(pod.Name); err == nil && now.UID == pod.UID {
		return now
	}
	return pod
}

// hasMoved reports whether a pod belongs to another workload now than in the given version.
func (r *clusterIndex) hasMoved(pod *corev1.Pod) bool {
	now := r.latest(pod)
	return now != pod && r.keyOf(now) != r.keyOf(pod)
}

// group returns the group of a pod; nil if the pod has no group or its group does not exist.
func (r *clusterIndex) group(pod *corev1.Pod) *gang.Group {
	key, ok := r.groupOf(pod)
	if !ok {
		return nil
	}
	g, ok := r.groups.Group(key)
	if !ok {
		return nil
	}
	return g
}

// groupKeyOf returns the key of a pod's group; the zero key for a pod without a group.
func (r *clusterIndex) groupKeyOf(pod *corev1.Pod) types.NamespacedName {
	if key, ok := r.groupOf(pod); ok {
		return key
	}
	return types.NamespacedName{}
}

// gangOf returns the gang of a pod; nil for a pod in no gang.
func (r *clusterIndex) gangOf(pod *corev1.Pod) *gang.Group {
	if g := r.group(pod); g != nil && g.IsGang() {
		return g
	}
	return nil
}

// priorityOf returns the effective priority of a pod: the priority of its group if the group has
// one, otherwise the pod's own.
func (r *clusterIndex) priorityOf(pod *corev1.Pod) int32 {
	if g := r.group(pod); g != nil && g.Priority != nil {
		return *g.Priority
	}
	return corev1helpers.PodPriority(pod)
}

// groupsOf returns the groups of pods, in undefined order.
func (r *clusterIndex) groupsOf(pods []*corev1.Pod) []types.NamespacedName {
	out := sets.New[types.NamespacedName]()
	for _, pod := range pods {
		if key, ok := r.groupOf(pod); ok {
			out.Insert(key)
		}
	}
	return out.UnsortedList()
}

// pendingOf returns a pending pod of a workload; false if there is none.
func (r *clusterIndex) pendingOf(key workload.Key) (*corev1.Pod, bool) {
	if !key.Gang {
		return r.podOf(key)
	}
	members := r.lister.Members(nameOf(key))
	if len(members.Pending) == 0 {
		return nil, false
	}
	return members.Pending[0], true
}

// inflates reports whether a pod's own priority is above its effective priority. The framework
// ranks nominations by the pods' own priorities. So the nomination of such a pod would keep its
// room from workloads that may use it.
func (r *clusterIndex) inflates(pod *corev1.Pod) bool {
	return corev1helpers.PodPriority(pod) > r.priorityOf(pod)
}

// nominationOf returns the nomination of a pending pod; the zero Nomination for other pods.
func (r *clusterIndex) nominationOf(pod *corev1.Pod) engine.Nomination {
	node := pod.Status.NominatedNodeName
	if node == "" || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return engine.Nomination{}
	}
	return engine.Nomination{Node: node, Inflated: r.inflates(pod)}
}
