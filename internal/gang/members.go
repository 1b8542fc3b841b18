package gang

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// IndexName is the name of the Pod informer's index by PodGroup.
const IndexName = "reprieve.dev/pod-group"

// AddIndex adds the index by PodGroup to a Pod informer that has not been started. Further calls
// for the same informer do nothing.
func AddIndex(informer cache.SharedIndexInformer) error {
	if _, ok := informer.GetIndexer().GetIndexers()[IndexName]; ok {
		return nil
	}
	err := informer.AddIndexers(cache.Indexers{IndexName: func(obj any) ([]string, error) {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return nil, nil
		}
		if key, ok := GroupOf(pod); ok {
			return []string{key.String()}, nil
		}
		return nil, nil
	}})
	if err != nil {
		return fmt.Errorf("index pods by PodGroup: %w", err)
	}
	return nil
}

// AnchorIndexName is the name of the Pod informer's index by anchor; see [Derived].
const AnchorIndexName = "reprieve.dev/anchor"

// AddAnchorIndex adds the index by anchor to a Pod informer that has not been started. Further
// calls for the same informer do nothing.
func AddAnchorIndex(informer cache.SharedIndexInformer, derived Derived) error {
	if _, ok := informer.GetIndexer().GetIndexers()[AnchorIndexName]; ok {
		return nil
	}
	err := informer.AddIndexers(cache.Indexers{AnchorIndexName: func(obj any) ([]string, error) {
		if pod, ok := obj.(*corev1.Pod); ok {
			return derived.AnchorsOf(pod), nil
		}
		return nil, nil
	}})
	if err != nil {
		return fmt.Errorf("index pods by anchor: %w", err)
	}
	return nil
}

// Members holds the Pods of one group by their state, in no particular order.
type Members struct {
	// Pending have no node, no scheduling gate and no deletion timestamp: they can be scheduled.
	Pending []*corev1.Pod
	// Reserved are the UIDs of the pods that the scheduler had assumed on a node just before the
	// listing. If the informer now shows such a pod on its node, the pod is also in Assigned.
	// Lister leaves Reserved empty.
	Reserved sets.Set[types.UID]
	// Gated have a scheduling gate and no node.
	Gated []*corev1.Pod
	// Refused name two different PodGroups, and would be Pending otherwise.
	Refused []*corev1.Pod
	// Assigned have a node and are neither terminating nor finished.
	Assigned []*corev1.Pod
	// Terminating have a deletion timestamp and are not finished, with or without a node.
	Terminating []*corev1.Pod
	// Succeeded are in phase Succeeded without a deletion timestamp.
	Succeeded []*corev1.Pod
	// Finished are in phase Failed, or in phase Succeeded with a deletion timestamp.
	Finished []*corev1.Pod
}

// Available returns the number to compare with minCount: members that can be scheduled, have a
// node, or have succeeded. Succeeded members count so that a gang near its end can still replace a
// lost member.
func (m *Members) Available() int { return len(m.Pending) + m.Placed() }

// Placed counts the members that have a node or have succeeded.
func (m *Members) Placed() int { return len(m.Assigned) + len(m.Succeeded) }

// Total counts all members, in any state.
func (m *Members) Total() int {
	return len(m.Pending) + len(m.Gated) + len(m.Refused) + len(m.Assigned) + len(m.Terminating) + len(m.Succeeded) + len(m.Finished)
}

// Unplaced returns the pending members that are not assumed on a node.
func (m *Members) Unplaced() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(m.Pending), func(pod *corev1.Pod) bool { return m.Reserved.Has(pod.UID) })
}

// assumed returns the pending members that are assumed on a node.
func (m *Members) assumed() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(m.Pending), func(pod *corev1.Pod) bool { return !m.Reserved.Has(pod.UID) })
}

// And returns the members of two groups together.
func (m *Members) And(other *Members) Members {
	return Members{
		Pending: slices.Concat(m.Pending, other.Pending), Reserved: m.Reserved.Union(other.Reserved), Gated: slices.Concat(m.Gated, other.Gated),
		Refused: slices.Concat(m.Refused, other.Refused), Assigned: slices.Concat(m.Assigned, other.Assigned),
		Terminating: slices.Concat(m.Terminating, other.Terminating), Succeeded: slices.Concat(m.Succeeded, other.Succeeded),
		Finished: slices.Concat(m.Finished, other.Finished),
	}
}

// Lister lists the members of groups. Its indexers must have the index of AddIndex.
type Lister struct {
	indexers []cache.Indexer
	derived  Derived
	trees    *Trees
}

// NewLister returns a Lister over several indexers. If two indexers hold the same Pod, the later
// one in the list has precedence.
func NewLister(indexers ...cache.Indexer) *Lister { return &Lister{indexers: indexers} }

// WithDerived returns a Lister that also finds the Pods of derived groups; see [Derived]. The
// indexers must have the index of AddAnchorIndex.
func (l *Lister) WithDerived(derived Derived) *Lister {
	return &Lister{indexers: l.indexers, derived: derived, trees: l.trees}
}

// WithTrees returns a Lister that also finds the Pods of CompositePodGroups.
func (l *Lister) WithTrees(trees *Trees) *Lister {
	return &Lister{indexers: l.indexers, derived: l.derived, trees: trees}
}

// Members returns the Pods of a group by their state. The members of a CompositePodGroup are the
// Pods of all PodGroups below it. Members is safe for concurrent use. The Pods belong to the
// informer: callers must not change them.
func (l *Lister) Members(key types.NamespacedName) Members {
	if IsTree(key) {
		return l.membersOfTree(key)
	}
	return MembersOf(l.podsOf(key))
}

// podsOf returns the Pods of a PodGroup.
func (l *Lister) podsOf(key types.NamespacedName) []*corev1.Pod {
	pods := l.by(IndexName, key.String(), nil)
	if l.derived != nil {
		for _, anchor := range l.derived.Anchors(key) {
			pods = append(pods, l.by(AnchorIndexName, anchor, func(pod *corev1.Pod) bool {
				// Omit the pods that name the group, because the index by PodGroup has found them
				// already.
				_, named := GroupOf(pod)
				own, ok := l.derived.GroupOf(pod)
				return !named && ok && own == key
			})...)
		}
	}
	return pods
}

// membersOfTree returns the Pods of all PodGroups below a CompositePodGroup.
func (l *Lister) membersOfTree(key types.NamespacedName) Members {
	if l.trees == nil {
		return Members{}
	}
	var pods []*corev1.Pod
	for _, leaf := range l.trees.Leaves(key) {
		pods = append(pods, l.podsOf(leaf)...)
	}
	return MembersOf(pods)
}

// Anchored returns the Pods with the given anchor; see [Derived].
func (l *Lister) Anchored(anchor string) []*corev1.Pod { return l.by(AnchorIndexName, anchor, nil) }

// by returns the Pods that an index has under a value, if wanted accepts them. A nil wanted accepts
// all.
func (l *Lister) by(index, value string, wanted func(*corev1.Pod) bool) []*corev1.Pod {
	var pods []*corev1.Pod
	for i, indexer := range l.indexers {
		// Ignore the error: the only one is an unknown index, and every test would show this
		// programming error.
		objs, err := indexer.ByIndex(index, value)
		if err != nil {
			panic(err)
		}
		if i > 0 && len(objs) > 0 && len(pods) > 0 {
			known := make(sets.Set[types.UID], len(objs))
			for _, obj := range objs {
				if pod, ok := obj.(*corev1.Pod); ok {
					known.Insert(pod.UID)
				}
			}
			pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return known.Has(pod.UID) })
		}
		pods = slices.Grow(pods, len(objs))
		for _, obj := range objs {
			if pod, ok := obj.(*corev1.Pod); ok && (wanted == nil || wanted(pod)) {
				pods = append(pods, pod)
			}
		}
	}
	return pods
}

// SortByAge sorts Pods by creation, then name.
func SortByAge(pods []*corev1.Pod) {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})
}

// MembersOf groups the Pods of one PodGroup by their state.
func MembersOf(pods []*corev1.Pod) Members {
	var m Members
	for _, pod := range pods {
		switch {
		case pod.Status.Phase == corev1.PodSucceeded && pod.DeletionTimestamp == nil:
			m.Succeeded = append(m.Succeeded, pod)
		case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
			m.Finished = append(m.Finished, pod)
		case pod.DeletionTimestamp != nil:
			m.Terminating = append(m.Terminating, pod)
		case pod.Spec.NodeName != "":
			m.Assigned = append(m.Assigned, pod)
		case len(pod.Spec.SchedulingGates) > 0:
			m.Gated = append(m.Gated, pod)
		case Contradiction(pod) != (Verdict{}):
			m.Refused = append(m.Refused, pod)
		default:
			m.Pending = append(m.Pending, pod)
		}
	}
	return m
}
