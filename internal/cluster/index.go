package cluster

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

// Index finds pods, groups and nodes in the informers. It returns the group, the priority and the
// profile of a pod. It has no state of its own and is safe for concurrent use.
type Index struct {
	// Groups finds the groups.
	Groups gang.Source
	// Derived finds the group of a pod, whether the pod names it or not.
	Derived Derived
	// Trees finds the trees of groups; nil if there are none.
	Trees *gang.Trees
	// Profiles holds the arguments and plugins of the profiles.
	Profiles profiles.Set
	// Lister lists the members of groups.
	Lister *gang.Lister
	// Pods has the pods that are not finished, and Nodes the nodes.
	Pods  corelisters.PodLister
	Nodes corelisters.NodeLister
	// placed holds the pods by their node, in the index nodeIndex.
	placed cache.Indexer
	// sources are the inputs that the Index was created from.
	sources Sources
}

// Sources holds the inputs of an [Index] beside the informers.
type Sources struct {
	// Groups finds PodGroups.
	Groups gang.Source
	// Derived finds the derived groups; nil if there are none.
	Derived Derived
	// Trees finds the trees of groups; nil if there are none. Groups must also return the groups of
	// these trees.
	Trees *gang.Trees
	// Confined is the result of profiles.Confine for the scheduler's configuration.
	Confined bool
	// Gate is the name of the PreEnqueue plugin that asks the Index. The Index does not ask that
	// plugin.
	Gate string
}

// NewIndex returns an Index that finds groups. It finds pods and nodes after [Index.ReadFrom].
func NewIndex(in Sources) *Index {
	r := &Index{Groups: in.Groups, Derived: DerivedOf(in.Derived, in.Trees), Trees: in.Trees, sources: in}
	r.Profiles.Confined = in.Confined
	return r
}

// ReadFrom makes the Index find the pods and nodes of a scheduler's informers. Call it once, before
// the informers start. finished is the informer for finished pods, because the scheduler's own
// informer leaves them out.
func (r *Index) ReadFrom(factory informers.SharedInformerFactory, finished cache.SharedIndexInformer) error {
	pods := factory.Core().V1().Pods()
	if err := pods.Informer().AddIndexers(cache.Indexers{nodeIndex: indexByNode}); err != nil {
		return fmt.Errorf("index pods by node: %w", err)
	}
	if err := gang.AddDriverIndexes(pods.Informer(), r.Derived); err != nil {
		return err
	}
	r.placed = pods.Informer().GetIndexer()
	for _, informer := range [...]cache.SharedIndexInformer{pods.Informer(), finished} {
		if err := addNamespaceIndex(informer); err != nil {
			return err
		}
		if err := gang.AddIndex(informer); err != nil {
			return err
		}
		if err := gang.AddAnchorIndex(informer, r.Derived); err != nil {
			return err
		}
	}
	r.Pods, r.Nodes = pods.Lister(), factory.Core().V1().Nodes().Lister()
	r.Lister = gang.NewLister(pods.Informer().GetIndexer(), finished.GetIndexer())
	if r.sources.Derived != nil {
		r.Lister = r.Lister.WithDerived(r.sources.Derived)
	}
	r.Lister = r.Lister.WithTrees(r.Trees)
	return nil
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

// AwaitsPlace reports whether the informer has the pod without a node and without a deletion
// timestamp. For a pod that fails this check, the scheduler has removed its state, or is about to
// remove it.
func (r *Index) AwaitsPlace(pod *corev1.Pod) bool {
	now, err := r.Pods.Pods(pod.Namespace).Get(pod.Name)
	return err == nil && now.UID == pod.UID && now.Spec.NodeName == "" && now.DeletionTimestamp == nil
}

// Exists reports whether the informer has the pod, in any version. It holds no finished pods.
func (r *Index) Exists(pod *corev1.Pod) bool {
	now, err := r.Pods.Pods(pod.Namespace).Get(pod.Name)
	return err == nil && now.UID == pod.UID
}

// Owns reports whether a pod belongs to a workload.
func (r *Index) Owns(key workload.Key, pod *corev1.Pod) bool {
	if !key.Gang {
		return string(pod.UID) == key.UID
	}
	of, ok := r.Derived.GroupOf(pod)
	return ok && of == gang.NameOf(key)
}

// KeyOf returns the key of a pod's workload: its gang, or the single pod.
func (r *Index) KeyOf(pod *corev1.Pod) workload.Key {
	if g := r.GangOf(pod); g != nil {
		return gang.KeyOf(g.Key)
	}
	return gang.KeyOfPod(pod)
}

// PodOf returns the pod of a single-pod workload from the informer; false if it does not exist.
func (r *Index) PodOf(key workload.Key) (*corev1.Pod, bool) {
	pod, err := r.Pods.Pods(key.Namespace).Get(key.Name)
	return pod, err == nil && string(pod.UID) == key.UID
}

// Latest returns the informer's version of a pod. It returns the given version of a pod that has
// been deleted or replaced.
func (r *Index) Latest(pod *corev1.Pod) *corev1.Pod {
	if now, err := r.Pods.Pods(pod.Namespace).Get(pod.Name); err == nil && now.UID == pod.UID {
		return now
	}
	return pod
}

// HasMoved reports whether a pod belongs to another workload now than in the given version.
func (r *Index) HasMoved(pod *corev1.Pod) bool {
	now := r.Latest(pod)
	return now != pod && r.KeyOf(now) != r.KeyOf(pod)
}

// Group returns the group of a pod; nil if the pod has no group or its group does not exist.
func (r *Index) Group(pod *corev1.Pod) *gang.Group {
	key, ok := r.GroupOf(pod)
	if !ok {
		return nil
	}
	g, ok := r.Groups.Group(key)
	if !ok {
		return nil
	}
	return g
}

// GroupKeyOf returns the key of a pod's group; the zero key for a pod without a group.
func (r *Index) GroupKeyOf(pod *corev1.Pod) types.NamespacedName {
	if key, ok := r.GroupOf(pod); ok {
		return key
	}
	return types.NamespacedName{}
}

// GangOf returns the gang of a pod; nil for a pod in no gang.
func (r *Index) GangOf(pod *corev1.Pod) *gang.Group {
	if g := r.Group(pod); g != nil && g.IsGang() {
		return g
	}
	return nil
}

// PriorityOf returns the effective priority of a pod: the priority of its group if the group has
// one, otherwise the pod's own.
func (r *Index) PriorityOf(pod *corev1.Pod) int32 {
	if g := r.Group(pod); g != nil && g.Priority != nil {
		return *g.Priority
	}
	return corev1helpers.PodPriority(pod)
}

// GroupsOf returns the groups of pods, in undefined order.
func (r *Index) GroupsOf(pods []*corev1.Pod) []types.NamespacedName {
	out := sets.New[types.NamespacedName]()
	for _, pod := range pods {
		if key, ok := r.GroupOf(pod); ok {
			out.Insert(key)
		}
	}
	return out.UnsortedList()
}

// PendingOf returns a pending pod of a workload; false if there is none.
func (r *Index) PendingOf(key workload.Key) (*corev1.Pod, bool) {
	if !key.Gang {
		return r.PodOf(key)
	}
	members := r.Lister.Members(gang.NameOf(key))
	if len(members.Pending) == 0 {
		return nil, false
	}
	return members.Pending[0], true
}

// Inflates reports whether a pod's own priority is above its effective priority. The framework
// ranks nominations by the pods' own priorities. So the nomination of such a pod would keep its
// room from workloads that may use it.
func (r *Index) Inflates(pod *corev1.Pod) bool {
	return corev1helpers.PodPriority(pod) > r.PriorityOf(pod)
}

// NominationOf returns the nomination of a pending pod; the zero Nomination for other pods.
func (r *Index) NominationOf(pod *corev1.Pod) engine.Nomination {
	node := pod.Status.NominatedNodeName
	if node == "" || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return engine.Nomination{}
	}
	return engine.Nomination{Node: node, Inflated: r.Inflates(pod)}
}
