package snapshot

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// budgetIndex keeps the PodDisruptionBudgets from one decision to the next. Pods refer to a budget
// by its position in list. So a budget keeps its position as long as it exists.
type budgetIndex struct {
	byKey       map[types.NamespacedName]*knownBudget
	byNamespace map[string][]*knownBudget
	idle        []int
	list        []core.Budget
}

// knownBudget is a budget with its parsed selector and its position in the list.
type knownBudget struct {
	pdb      *policyv1.PodDisruptionBudget
	position int
	selector labels.Selector
}

// budgetChanges says which pods must be matched with budgets again.
type budgetChanges struct {
	// matchers has the old and the new selectors of changed budgets, by namespace.
	matchers map[string][]labels.Selector
	// counted has the pods that were added to, or removed from, the DisruptedPods in the status of
	// a budget.
	counted sets.Set[types.NamespacedName]
}

func newBudgetIndex() *budgetIndex {
	return &budgetIndex{byKey: make(map[types.NamespacedName]*knownBudget), byNamespace: make(map[string][]*knownBudget)}
}

// level updates the index from the current budgets, and returns the changes.
func (b *budgetIndex) level(pdbs []*policyv1.PodDisruptionBudget) budgetChanges {
	changes := budgetChanges{matchers: make(map[string][]labels.Selector), counted: sets.New[types.NamespacedName]()}
	present := 0
	for _, pdb := range pdbs {
		known := b.byKey[types.NamespacedName{Namespace: pdb.Namespace, Name: pdb.Name}]
		if known != nil {
			present++
			if known.pdb == pdb {
				continue
			}
		}
		b.set(known, pdb, &changes)
	}
	if present < len(b.byKey) {
		b.dropAllBut(pdbs, &changes)
	}
	return changes
}

// set adds a budget, or updates a known one. If the selector of the budget is invalid, any pod of
// the namespace may be meant. So the budget guards all pods of its namespace.
func (b *budgetIndex) set(known *knownBudget, pdb *policyv1.PodDisruptionBudget, changes *budgetChanges) {
	allowed := pdb.Status.DisruptionsAllowed
	selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
	if err != nil {
		selector, allowed = labels.Everything(), 0
		klog.Background().Error(err, "A budget's selector cannot be read; it counts for all pods of its namespace, and allows no disruption",
			"podDisruptionBudget", klog.KObj(pdb))
	}
	if known == nil {
		known = &knownBudget{selector: labels.Nothing(), pdb: &policyv1.PodDisruptionBudget{}, position: b.newPosition()}
		b.byKey[types.NamespacedName{Namespace: pdb.Namespace, Name: pdb.Name}] = known
		b.byNamespace[pdb.Namespace] = append(b.byNamespace[pdb.Namespace], known)
	}
	if !sameSelector(known.selector, selector) || allowsUnready(known.pdb) != allowsUnready(pdb) {
		changes.matchers[pdb.Namespace] = append(changes.matchers[pdb.Namespace], known.selector, selector)
	}
	changes.count(pdb.Namespace, known.pdb.Status.DisruptedPods, pdb.Status.DisruptedPods)
	known.pdb, known.selector = pdb, selector
	b.list[known.position] = core.Budget{Key: pdb.Namespace + "/" + pdb.Name, Allowed: allowed}
}

// sameSelector reports whether two selectors are equal. It also compares Empty, because the
// selector for everything and the selector for nothing have the same string form.
func sameSelector(a, b labels.Selector) bool {
	return a.Empty() == b.Empty() && a.String() == b.String()
}

// count adds the pods that are in only one of the maps before and after to counted.
func (c *budgetChanges) count(namespace string, before, after map[string]metav1.Time) {
	for name := range before {
		if _, ok := after[name]; !ok {
			c.counted.Insert(types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			c.counted.Insert(types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
}

func (b *budgetIndex) newPosition() int {
	if n := len(b.idle); n > 0 {
		position := b.idle[n-1]
		b.idle = b.idle[:n-1]
		return position
	}
	b.list = append(b.list, core.Budget{})
	return len(b.list) - 1
}

// dropAllBut removes the budgets that no longer exist. Their positions can be reused at once,
// because pods that refer to them are matched again before the next decision.
func (b *budgetIndex) dropAllBut(pdbs []*policyv1.PodDisruptionBudget, changes *budgetChanges) {
	gone := maps.Clone(b.byKey)
	for _, pdb := range pdbs {
		delete(gone, types.NamespacedName{Namespace: pdb.Namespace, Name: pdb.Name})
	}
	for key, known := range gone {
		delete(b.byKey, key)
		b.byNamespace[key.Namespace] = slices.DeleteFunc(b.byNamespace[key.Namespace], func(k *knownBudget) bool { return k == known })
		if len(b.byNamespace[key.Namespace]) == 0 {
			delete(b.byNamespace, key.Namespace)
		}
		b.list[known.position] = core.Budget{}
		b.idle = append(b.idle, known.position)
		changes.matchers[key.Namespace] = append(changes.matchers[key.Namespace], known.selector)
	}
}

// of returns the positions of the budgets that select the pod. It leaves out budgets whose status
// already counts the pod as evicted.
func (b *budgetIndex) of(pod *corev1.Pod) []int {
	var out []int
	for _, known := range b.byNamespace[pod.Namespace] {
		if _, counted := known.pdb.Status.DisruptedPods[pod.Name]; !counted && known.selector.Matches(labels.Set(pod.Labels)) {
			out = append(out, known.position)
		}
	}
	return out
}

// brokenBy returns the budgets, of the given positions, that the eviction of a pod counts against.
// It leaves out a budget that the Eviction API would not count the eviction against. There are two
// such cases: the pod has not started, or the pod is not ready and the budget permits the eviction
// of such pods.
func (b *budgetIndex) brokenBy(pod *corev1.Pod, positions []int) []int {
	switch {
	case len(positions) == 0 || podutil.IsPodReady(pod):
		return positions
	case pod.Status.Phase == corev1.PodPending:
		return nil
	}
	return slices.DeleteFunc(positions, func(position int) bool {
		at := slices.IndexFunc(b.byNamespace[pod.Namespace], func(k *knownBudget) bool { return k.position == position })
		return allowsUnready(b.byNamespace[pod.Namespace][at].pdb)
	})
}

// allowsUnready reports whether a budget permits each eviction of a pod that is not ready. This is
// the unhealthyPodEvictionPolicy of KEP-3017.
func allowsUnready(pdb *policyv1.PodDisruptionBudget) bool {
	if policy := pdb.Spec.UnhealthyPodEvictionPolicy; policy != nil && *policy == policyv1.AlwaysAllow {
		return true
	}
	return pdb.Status.DesiredHealthy > 0 && pdb.Status.CurrentHealthy >= pdb.Status.DesiredHealthy
}

// concern reports whether a pod must be matched with budgets again.
func (c *budgetChanges) concern(pod *corev1.Pod) bool {
	if c.counted.Has(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}) {
		return true
	}
	for _, selector := range c.matchers[pod.Namespace] {
		if selector.Matches(labels.Set(pod.Labels)) {
			return true
		}
	}
	return false
}
