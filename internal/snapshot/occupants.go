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

// Changes counts changes of what stays on nodes, so that what was found to have no room need not be searched for again
// before that could matter.
type Changes struct {
	// Freeing counts those that may make room for some pod to which others do not matter: a pod stays no more, or is
	// another unit now, or a node has come, or is not what it was.
	Freeing uint64
	// All counts those and arrivals.
	All uint64
}

// occupants remembers what stays on each node.
type occupants struct {
	seed    maphash.Seed
	nodes   map[string]*occupancy
	changes Changes
}

// occupancy is what a node is to those who look for room, and what of each pod that stays there counts for them.
type occupancy struct {
	node        *corev1.Node
	allocatable core.Amounts
	// pods are sorted by name. As a map they took a sixth of all that is kept of a pod.
	pods []occupant
}

// occupant is one pod that stays. Its name is the hash of its UID, and its print is 0 for one that is on its way out for longer than it
// may take.
type occupant struct{ name, print uint64 }

// nameOf is the same for a UID as long as the process runs.
func (o *occupants) nameOf(uid types.UID) uint64 { return maphash.String(o.seed, string(uid)) }

// printOf is the print of a pod on a node; 0 for one that does not stay there.
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
	return &occupants{seed: maphash.MakeSeed(), nodes: make(map[string]*occupancy)}
}

// reset forgets all nodes: whatever comes now may be anything.
func (o *occupants) reset() {
	clear(o.nodes)
	o.changes.Freeing++
	o.changes.All++
}

// set takes in a node as it is now.
func (o *occupants) set(node *corev1.Node, state *core.NodeState, overdue []*corev1.Pod) {
	now := &occupancy{node: node, allocatable: state.Allocatable, pods: make([]occupant, 0, len(state.Pods)+len(overdue))}
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

// staysIn reports whether all pods are still there, as they were.
func (y *occupancy) staysIn(now *occupancy) bool {
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

// sameNode reports whether a node is the same for all filters.
func sameNode(before, now *occupancy) bool {
	if !slices.Equal(before.allocatable, now.allocatable) {
		return false
	}
	a, b := before.node, now.node
	return a == b || maps.Equal(a.Labels, b.Labels) && equality.Semantic.DeepEqual(&a.Spec, &b.Spec) &&
		slices.Equal(a.Status.DeclaredFeatures, b.Status.DeclaredFeatures)
}

// fingerprint is the same for a pod as long as it occupies the same, and may be taken by the same.
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
		maphash.WriteComparable(&h, [2]bool{g.Whole, g.Stale})
		maphash.WriteComparable(&h, g.Lacks)
		maphash.WriteComparable(&h, stand(g.Priority, g.Toleration, g.Membership, g.Since, g.MinRuntime))
	}
	return h.Sum64()
}

// Changes is how what stays on nodes has changed up to the last Level.
func (c *Cache) Changes() Changes { return c.occupants.changes }

// Respected are the pods to which the preemptor has to leave room, with the node where it is.
func (v *View) Respected() map[types.UID]string {
	out := make(map[types.UID]string, len(v.promised))
	for node, pods := range v.promised {
		for _, pi := range pods {
			out[pi.GetPod().UID] = node
		}
	}
	return out
}

// Respects reports whether pods still have the room that they were promised: it is kept for them, or they are there to stay.
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
