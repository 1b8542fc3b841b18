package snapshot

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// Changes counts the changes of the pods that stay on nodes. The scheduler compares the counts to
// avoid searches: a search that found no room is repeated only after a change that may affect the
// result.
type Changes struct {
	// Freeing counts the changes that may free room for a pod that does not depend on other pods.
	// In such a change, a pod was removed or joined another unit, or a node was added or changed.
	Freeing uint64
	// All counts the changes in Freeing, and also new pods and removed nodes.
	All uint64
}

// occupants has the pods that stay on each node, to detect the changes that matter for a search.
type occupants struct {
	seed    maphash.Seed
	nodes   map[string]*nodeFacts
	changes Changes
}

// nodeFacts has the facts that matter for a search: about a node and the pods that stay on it.
type nodeFacts struct {
	node        *corev1.Node
	allocatable core.Amounts
	// pods is sorted by name. A slice needs much less memory than a map.
	pods []occupant
}

// occupant is one pod that stays. name is the hash of its UID. print is the hash of its facts, and
// 0 for an overdue pod.
type occupant struct{ name, print uint64 }

// nameOf returns the hash of a UID. The hash is valid only in this process.
func (o *occupants) nameOf(uid types.UID) uint64 { return maphash.String(o.seed, string(uid)) }

// printOf returns the hash of the facts about a pod on a node. It returns 0 if the pod does not
// stay there.
func (o *occupants) printOf(node string, uid types.UID) uint64 {
	y := o.nodes[node]
	if y == nil {
		return 0
	}
	at, ok := slices.BinarySearchFunc(y.pods, o.nameOf(uid), func(pod occupant, name uint64) int { return cmp.Compare(pod.name, name) })
	if !ok {
		return 0
	}
	return y.pods[at].print
}

func newOccupants() *occupants {
	return &occupants{seed: maphash.MakeSeed(), nodes: make(map[string]*nodeFacts)}
}

// reset removes all nodes, and increases both counts of changes.
func (o *occupants) reset() {
	clear(o.nodes)
	o.changes.Freeing++
	o.changes.All++
}

// set replaces the facts about a node, and counts the changes.
func (o *occupants) set(node *corev1.Node, state *core.NodeState, overdue []*corev1.Pod) {
	now := &nodeFacts{node: node, allocatable: state.Allocatable, pods: make([]occupant, 0, len(state.Pods)+len(overdue))}
	for i := range state.Pods {
		now.pods = append(now.pods, occupant{o.nameOf(types.UID(state.Pods[i].UID)), o.fingerprint(&state.Pods[i])})
	}
	for _, pod := range overdue {
		now.pods = append(now.pods, occupant{name: o.nameOf(pod.UID)})
	}
	slices.SortFunc(now.pods, func(a, b occupant) int { return cmp.Compare(a.name, b.name) })
	before := o.nodes[node.Name]
	o.nodes[node.Name] = now
	switch {
	case before == nil || !sameNode(before, now) || !before.staysIn(now):
		o.changes.Freeing++
		o.changes.All++
	case len(before.pods) != len(now.pods):
		o.changes.All++
	}
}

func (o *occupants) remove(node string) {
	if _, ok := o.nodes[node]; ok {
		delete(o.nodes, node)
		o.changes.All++
	}
}

// staysIn reports whether now has all pods of y, with the same facts.
func (y *nodeFacts) staysIn(now *nodeFacts) bool {
	rest := now.pods
	for _, was := range y.pods {
		at := slices.IndexFunc(rest, func(is occupant) bool { return is.name >= was.name })
		if at < 0 || rest[at] != was {
			return false
		}
		rest = rest[at+1:]
	}
	return true
}

// sameNode reports whether two states of a node are the same for every filter.
func sameNode(before, now *nodeFacts) bool {
	if !slices.Equal(before.allocatable, now.allocatable) {
		return false
	}
	a, b := before.node, now.node
	return a == b || maps.Equal(a.Labels, b.Labels) && equality.Semantic.DeepEqual(&a.Spec, &b.Spec) &&
		slices.Equal(a.Status.DeclaredFeatures, b.Status.DeclaredFeatures)
}

// fingerprint returns a hash of the pod's request and of the facts that decide which preemptors may
// evict it.
func (o *occupants) fingerprint(rp *core.RunningPod) uint64 {
	type standing struct {
		priority   int32
		toleration core.Toleration
		membership core.QueueMembership
		since      int64
		minRuntime core.MinRuntime
		ofProfile  bool
	}
	stand := func(priority int32, t *core.Toleration, m *core.QueueMembership, since int64, profile *core.MinRuntime) standing {
		out := standing{priority: priority, since: since}
		if t != nil {
			out.toleration = *t
		}
		if m != nil {
			out.membership = *m
		}
		if profile != nil {
			out.minRuntime, out.ofProfile = *profile, true
		}
		return out
	}
	var h maphash.Hash
	h.SetSeed(o.seed)
	for _, v := range rp.Request {
		maphash.WriteComparable(&h, v)
	}
	maphash.WriteComparable(&h, rp.Running)
	maphash.WriteComparable(&h, rp.Static)
	maphash.WriteComparable(&h, rp.RefusedUntil)
	if rp.Role != nil {
		maphash.WriteComparable(&h, *rp.Role)
	}
	maphash.WriteComparable(&h, stand(rp.Priority, rp.Toleration, rp.Membership, rp.Since, rp.MinRuntime))
	if g := rp.Group; g != nil {
		maphash.WriteComparable(&h, g.UID)
		maphash.WriteComparable(&h, g.Workload)
		maphash.WriteComparable(&h, [2]bool{g.Whole, g.Stale})
		maphash.WriteComparable(&h, g.Lacks)
		maphash.WriteComparable(&h, stand(g.Priority, g.Toleration, g.Membership, g.Since, g.MinRuntime))
	}
	return h.Sum64()
}

// Changes returns the numbers of changes up to the last call of Level.
func (c *Cache) Changes() Changes { return c.occupants.changes }

// Respected returns the reservations that the preemptor must respect, as a map from pods to nodes.
func (v *View) Respected() map[types.UID]string {
	out := make(map[types.UID]string, len(v.promised))
	for node, pods := range v.promised {
		for _, pi := range pods {
			out[pi.GetPod().UID] = node
		}
	}
	return out
}

// Respects reports whether each of the given pods still has its reservation on its node, or now
// runs there.
func (v *View) Respects(promised map[types.UID]string) bool {
	for uid, node := range promised {
		if slices.ContainsFunc(v.promised[node], func(pi fwk.PodInfo) bool { return pi.GetPod().UID == uid }) {
			continue
		}
		if v.occupants.printOf(node, uid) == 0 {
			return false
		}
	}
	return true
}
