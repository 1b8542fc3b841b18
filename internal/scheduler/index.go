package scheduler

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/profiles"
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

func (r *clusterIndex) podsOn(node string) []*corev1.Pod {
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

func (r *clusterIndex) hasNode(name string) bool {
	_, err := r.nodes.Get(name)
	return err == nil
}

// remains reports whether any pod of a preemptor still waits for a place. It checks the pods,
// because another workload may have the preemptor's name by now.
func (r *clusterIndex) remains(pre *preemptor) bool {
	return slices.ContainsFunc(pre.pods, r.awaitsPlace)
}

// awaitsPlace reports whether the informer has the pod without a node and without a deletion
// timestamp. For a pod that fails this check, the scheduler has removed its state, or is about to
// remove it.
func (r *clusterIndex) awaitsPlace(pod *corev1.Pod) bool {
	now, err := r.pods.Pods(pod.Namespace).Get(pod.Name)
	return err == nil && now.UID == pod.UID && now.Spec.NodeName == "" && now.DeletionTimestamp == nil
}

// entersQueue reports whether a pod can enter the scheduler's queue if ReprieveGate admits it: no
// other plugin gates the pod, and its group does not outrank it. Only such a pod can plan for its
// gang.
func (r *clusterIndex) entersQueue(pod *corev1.Pod) bool { return r.gatedBy(pod) == "" }

// gatedBy returns the reason why a pod cannot enter the scheduler's queue, even if ReprieveGate
// admits it. The reason is the name and message of another PreEnqueue plugin, or a message that the
// group of the pod outranks it. It returns "" if the pod can enter the queue.
func (r *clusterIndex) gatedBy(pod *corev1.Pod) string {
	for _, pl := range r.profiles.PreEnqueue(pod.Spec.SchedulerName) {
		if pl.Name() == GateName {
			continue
		}
		if status := pl.PreEnqueue(context.Background(), pod); !status.IsSuccess() {
			return fmt.Sprintf("plugin %s holds it back: %s", pl.Name(), status.Message())
		}
	}
	return gang.Outranked(r.derived, r.groups, pod).Message
}

func (r *clusterIndex) exists(pod *corev1.Pod) bool {
	now, err := r.pods.Pods(pod.Namespace).Get(pod.Name)
	return err == nil && now.UID == pod.UID
}
