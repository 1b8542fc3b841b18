package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// view is the cluster as one decision sees it: the core's snapshot, and for each of its entries what the
// framework knows it by.
type view struct {
	snapshot core.Snapshot
	// nodes, units and leaving run parallel to the snapshot's Nodes, Units and Leaving.
	nodes   []fwk.NodeInfo
	units   [][]fwk.PodInfo
	leaving []fwk.PodInfo
	// held are pods with a seat or nomination that the preemptor has to respect, by node index. Their room is
	// not in Free.
	held map[int][]fwk.PodInfo
	// freed is the count of given-up seats when the view was taken.
	freed uint64
}

// viewer builds views of one cycle's snapshot.
type viewer struct {
	hub     *Hub
	handle  fwk.Handle
	budgets []*policyv1.PodDisruptionBudget
	// preemptor is whom the view is for: nominations of lower priority and its own are no obstacle to it.
	priority int32
	own      func(*corev1.Pod) bool
	// resources are the dimensions: what the preemptor asks for; nothing else can stand in its way.
	resources []corev1.ResourceName

	out     *view
	groups  map[types.NamespacedName]int
	budgetN map[string][]namedBudget
}

// namedBudget is a disruption budget, ready to be matched.
type namedBudget struct {
	index     int
	selector  labels.Selector
	disrupted map[string]metav1.Time
}

// build takes the view.
func (b *viewer) build() (*view, error) {
	infos, err := b.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fmt.Errorf("list nodes of the snapshot: %w", err)
	}
	b.out = &view{held: make(map[int][]fwk.PodInfo), freed: b.hub.seats.freed.Load()}
	b.groups = make(map[types.NamespacedName]int)
	for _, r := range b.resources {
		b.out.snapshot.Resources = append(b.out.snapshot.Resources, string(r))
	}
	if err := b.indexBudgets(); err != nil {
		return nil, err
	}
	for _, info := range infos {
		if info.Node() != nil {
			b.addNode(info)
		}
	}
	return b.out, nil
}

// indexBudgets makes the disruption budgets ready to be matched, by namespace.
func (b *viewer) indexBudgets() error {
	b.budgetN = make(map[string][]namedBudget)
	slices.SortFunc(b.budgets, func(x, y *policyv1.PodDisruptionBudget) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	for _, pdb := range b.budgets {
		selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
		if err != nil {
			return fmt.Errorf("selector of PodDisruptionBudget %s/%s: %w", pdb.Namespace, pdb.Name, err)
		}
		b.budgetN[pdb.Namespace] = append(b.budgetN[pdb.Namespace], namedBudget{
			index:     len(b.out.snapshot.Budgets),
			selector:  selector,
			disrupted: pdb.Status.DisruptedPods,
		})
		b.out.snapshot.Budgets = append(b.out.snapshot.Budgets, core.Budget{
			Key:     pdb.Namespace + "/" + pdb.Name,
			Allowed: pdb.Status.DisruptionsAllowed,
		})
	}
	return nil
}

// budgetsOf are the budgets that an eviction of the pod draws on. Evictions that a budget has counted already
// draw on it no more.
func (b *viewer) budgetsOf(pod *corev1.Pod) []int {
	var out []int
	for _, nb := range b.budgetN[pod.Namespace] {
		if _, counted := nb.disrupted[pod.Name]; !counted && len(pod.Labels) > 0 && nb.selector.Matches(labels.Set(pod.Labels)) {
			out = append(out, nb.index)
		}
	}
	return out
}

func (b *viewer) addNode(info fwk.NodeInfo) {
	n := len(b.out.nodes)
	b.out.nodes = append(b.out.nodes, info)
	node := core.Node{
		Name:        info.Node().Name,
		Allocatable: b.amounts(info.GetAllocatable(), info.GetAllocatable().GetAllowedPodNumber()),
	}
	used := b.amounts(info.GetRequested(), len(info.GetPods()))
	node.Free = make(core.Amounts, len(used))
	for r := range used {
		node.Free[r] = node.Allocatable[r] - used[r]
	}
	for _, pi := range b.heldOn(info) {
		b.out.held[n] = append(b.out.held[n], pi)
		for r, v := range b.request(pi) {
			node.Free[r] -= v
		}
	}
	b.out.snapshot.Nodes = append(b.out.snapshot.Nodes, node)
	for _, pi := range info.GetPods() {
		b.addPod(n, pi)
	}
}

// heldOn are the pods that are not on a node yet and that the preemptor has to leave room for: those with a
// seat, and those that the framework has nominated. A seat is the last word on where a pod goes.
func (b *viewer) heldOn(info fwk.NodeInfo) []fwk.PodInfo {
	name := info.Node().Name
	var held []fwk.PodInfo
	for _, s := range heldFrom(b.hub.seats.on(name), info, b.priority, func(types.UID) bool { return false }) {
		if !b.own(s.pod.GetPod()) {
			held = append(held, s.pod)
		}
	}
	for _, nominated := range b.handle.NominatedPodsForNode(name) {
		pod := nominated.GetPod()
		if _, seated := b.hub.seats.nodeOf(pod.UID); !seated && !b.own(pod) && b.hub.priorityOf(pod) >= b.priority {
			held = append(held, nominated)
		}
	}
	return held
}

// addPod adds a running pod to the unit that it belongs to.
func (b *viewer) addPod(node int, pi fwk.PodInfo) {
	pod := pi.GetPod()
	cp := core.Pod{
		Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID),
		Node: node, Request: b.request(pi), Start: nanos(startOf(pod)),
	}
	s := &b.out.snapshot
	if pod.DeletionTimestamp != nil {
		s.Leaving = append(s.Leaving, cp)
		b.out.leaving = append(b.out.leaving, pi)
		return
	}
	cp.Budgets = b.budgetsOf(pod)
	g := b.hub.group(pod)
	if g != nil && g.Whole {
		b.addToGroup(g, cp, pi)
		return
	}
	unit := core.Unit{
		Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID),
		Priority: b.hub.priorityOf(pod), Start: cp.Start, Pods: []core.Pod{cp},
	}
	if g != nil {
		unit.PodGroup = string(g.UID)
	}
	s.Units = append(s.Units, unit)
	b.out.units = append(b.out.units, []fwk.PodInfo{pi})
}

func (b *viewer) addToGroup(g *gang.Group, pod core.Pod, pi fwk.PodInfo) {
	s := &b.out.snapshot
	u, ok := b.groups[g.Key]
	if !ok {
		u = len(s.Units)
		b.groups[g.Key] = u
		s.Units = append(s.Units, core.Unit{
			Namespace: g.Key.Namespace, Name: g.Key.Name, UID: string(g.UID),
			Group: true, PodGroup: string(g.UID), Start: nanos(g.StartTime),
			Priority: b.hub.priorityOf(pi.GetPod()),
		})
		b.out.units = append(b.out.units, nil)
	}
	unit := &s.Units[u]
	// A group that has not been whole yet started when its first running member did.
	if g.StartTime.IsZero() && pod.Start != 0 && (unit.Start == 0 || pod.Start < unit.Start) {
		unit.Start = pod.Start
	}
	unit.Pods = append(unit.Pods, pod)
	b.out.units[u] = append(b.out.units[u], pi)
}

// request is what a pod occupies, in the view's dimensions.
func (b *viewer) request(pi fwk.PodInfo) core.Amounts {
	res := pi.CalculateResource().Resource
	return b.amounts(res, 1)
}

// amounts reads the view's dimensions from a Resource; the number of pods stands apart there.
func (b *viewer) amounts(res fwk.Resource, pods int) core.Amounts {
	out := make(core.Amounts, len(b.resources))
	for i, name := range b.resources {
		switch name {
		case corev1.ResourceCPU:
			out[i] = res.GetMilliCPU()
		case corev1.ResourceMemory:
			out[i] = res.GetMemory()
		case corev1.ResourceEphemeralStorage:
			out[i] = res.GetEphemeralStorage()
		case corev1.ResourcePods:
			out[i] = int64(pods)
		default:
			out[i] = res.GetScalarResources()[name]
		}
	}
	return out
}

// resourcesOf are all resources that some pod asks for, pods first, in a stable order.
func resourcesOf(pods []fwk.PodInfo) []corev1.ResourceName {
	asked := map[corev1.ResourceName]struct{}{}
	for _, pi := range pods {
		res := pi.CalculateResource().Resource
		if res.GetMilliCPU() > 0 {
			asked[corev1.ResourceCPU] = struct{}{}
		}
		if res.GetMemory() > 0 {
			asked[corev1.ResourceMemory] = struct{}{}
		}
		if res.GetEphemeralStorage() > 0 {
			asked[corev1.ResourceEphemeralStorage] = struct{}{}
		}
		for name, v := range res.GetScalarResources() {
			if v > 0 {
				asked[name] = struct{}{}
			}
		}
	}
	return append([]corev1.ResourceName{corev1.ResourcePods}, slices.Sorted(maps.Keys(asked))...)
}

func startOf(pod *corev1.Pod) time.Time {
	if pod.Status.StartTime == nil {
		return time.Time{}
	}
	return pod.Status.StartTime.Time
}

// nanos is the core's form of a time; zero stays zero.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
