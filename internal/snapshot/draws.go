package snapshot

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// draws counts the terminating pods of each disruption budget. The status of a budget shows the
// victims of a preemption only after the disruption controller has seen them. Without this count, a
// second preemption could use the same allowed disruptions. Budgets are identified by their Key in
// the core.
type draws struct {
	byNode map[string]*guardedPods
	// healthy is the number of ready pods that do not terminate, and leaving is the number of
	// terminating pods, both by budget.
	healthy, leaving map[string]int
	// gone has, by budget, the pods that no longer exist on their node although the status may
	// still count them.
	gone map[string]sets.Set[types.UID]
}

// guardedPods has the pods on one node that budgets select.
type guardedPods struct {
	pods map[types.UID]guardedPod
}

// guardedPod has the keys of the budgets that select a pod.
type guardedPod struct {
	budgets []string
	// leaving is true for a terminating pod. healthy is true for a pod that the disruption
	// controller counts as healthy.
	leaving, healthy bool
}

func newDraws() *draws {
	return &draws{
		byNode: make(map[string]*guardedPods), healthy: make(map[string]int), leaving: make(map[string]int),
		gone: make(map[string]sets.Set[types.UID]),
	}
}

// add records a pod with its budgets. A pod without budgets is recorded too, because its presence
// shows that it is not gone.
func (g *guardedPods) add(pod *corev1.Pod, budgets []string, leaving bool) {
	if g.pods == nil {
		g.pods = make(map[types.UID]guardedPod)
	}
	g.pods[pod.UID] = guardedPod{
		budgets: budgets, leaving: leaving, healthy: !leaving && pod.DeletionTimestamp == nil && podutil.IsPodReady(pod),
	}
}

// knows reports whether a pod was recorded for a node when the node was last read.
func (d *draws) knows(node string, uid types.UID) bool {
	g := d.byNode[node]
	if g == nil {
		return false
	}
	_, ok := g.pods[uid]
	return ok
}

// keep removes the nodes that no longer exist. The pods on these nodes count as gone.
func (d *draws) keep(infos []fwk.NodeInfo) {
	lost := maps.Clone(d.byNode)
	for _, info := range infos {
		delete(lost, info.Node().Name)
	}
	for name := range lost {
		d.read(name, &guardedPods{})
	}
}

// read replaces the recorded pods of a node.
func (d *draws) read(node string, now *guardedPods) {
	before := d.byNode[node]
	if before == nil && len(now.pods) == 0 {
		return
	}
	if before != nil {
		for uid, pod := range before.pods {
			d.count(pod, -1)
			if _, present := now.pods[uid]; !present {
				d.left(uid, pod.budgets)
			}
		}
	}
	for uid, pod := range now.pods {
		d.count(pod, 1)
		if len(pod.budgets) == 0 {
			delete(now.pods, uid)
		}
	}
	if len(now.pods) == 0 {
		delete(d.byNode, node)
		return
	}
	d.byNode[node] = now
}

func (d *draws) count(pod guardedPod, sign int) {
	for _, budget := range pod.budgets {
		switch {
		case pod.leaving:
			add(d.leaving, budget, sign)
		case pod.healthy:
			add(d.healthy, budget, sign)
		}
	}
}

func add(counts map[string]int, key string, n int) {
	if counts[key] += n; counts[key] == 0 {
		delete(counts, key)
	}
}

func (d *draws) left(uid types.UID, budgets []string) {
	for _, budget := range budgets {
		if d.gone[budget] == nil {
			d.gone[budget] = sets.New[types.UID]()
		}
		d.gone[budget].Insert(uid)
	}
}

// ahead returns the number of disruptions that the status of a budget does not include yet. It is
// the smaller of two numbers:
//
//   - the terminating and gone pods
//   - the healthy pods in the status that are no longer healthy
//
// If the status counts no healthy pods, ahead returns the number of terminating pods. If the status
// includes all disruptions, ahead clears the gone pods.
func (d *draws) ahead(budget string, currentHealthy int32) int32 {
	drawn := d.leaving[budget]
	if currentHealthy <= 0 {
		delete(d.gone, budget)
		return int32(drawn)
	}
	tooMany := int(currentHealthy) - d.healthy[budget]
	if tooMany <= 0 {
		delete(d.gone, budget)
		return 0
	}
	return int32(min(drawn+d.gone[budget].Len(), tooMany))
}

// allowances returns the budgets for the core. It subtracts the disruptions that their status does
// not include yet.
func (b *budgetIndex) allowances(d *draws) []core.Budget {
	out := slices.Clone(b.list)
	present := sets.New[string]()
	for _, known := range b.byKey {
		key := out[known.position].Key
		present.Insert(key)
		out[known.position].Allowed -= d.ahead(key, known.pdb.Status.CurrentHealthy)
	}
	for key := range d.gone {
		if !present.Has(key) {
			delete(d.gone, key)
		}
	}
	return out
}

// keysOf returns the keys of the budgets at these positions.
func (b *budgetIndex) keysOf(positions []int) []string {
	out := make([]string, len(positions))
	for i, position := range positions {
		out[i] = b.list[position].Key
	}
	return out
}
