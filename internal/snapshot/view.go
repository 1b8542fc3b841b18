package snapshot

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

// View is the cluster as one decision sees it. It shares data with the Cache, so it is valid only
// until the next call of Level or View. Only the scheduling cycle that requested it may use it. The
// fwk.PodInfo values that it returns stay valid.
type View struct {
	// Cluster is the core's snapshot.
	Cluster *core.Snapshot

	dimensions *dimensions
	nodes      map[string]listedNode
	promised   map[string][]fwk.PodInfo
	overdue    map[string][]*corev1.Pod
	occupants  *occupants
	// held has the reserved room that counts as usage of queues, by node.
	held map[string][]core.Hold
	// standing is the state of the queues; nil if there are no queues.
	standing *queue.Snapshot
	// sources are the sources of the Cache.
	sources *Sources
}

// ReservedRoom is room on a node that is reserved for a pod. The pod is not on the node yet.
type ReservedRoom struct {
	Pod  fwk.PodInfo
	Node string
	// Queue is the leaf queue whose usage includes the room; "" for none.
	Queue string
	// Respected is true if the preemptor must not use the room. If it is false, the room only
	// counts as usage of the queue.
	Respected bool
}

// View returns a View of the cluster for one preemptor, with the given reservations. The View shows
// the state at the last call of Level. View ignores a reservation if its node does not exist, or if
// its pod is already on the node.
func (c *Cache) View(promises []ReservedRoom) *View {
	v := &View{dimensions: &c.dimensions, nodes: c.nodes, promised: make(map[string][]fwk.PodInfo), overdue: c.overdue, occupants: c.occupants, held: make(map[string][]core.Hold), standing: c.standing, sources: &c.sources}
	holds := make([]core.Hold, 0, len(promises))
	for _, p := range promises {
		info := c.nodes[p.Node].info
		if info == nil || RunsOn(info, p.Pod.GetPod().UID) {
			continue
		}
		hold := core.Hold{Request: c.dimensions.amounts(p.Pod.CalculateResource().Resource, 1), Queue: p.Queue}
		if p.Respected {
			hold.Node = p.Node
			v.promised[p.Node] = append(v.promised[p.Node], p.Pod)
		}
		holds = append(holds, hold)
		v.held[p.Node] = append(v.held[p.Node], hold)
	}
	for _, node := range slices.Sorted(maps.Keys(c.unleft)) {
		holds = append(holds, c.unleft[node]...)
		v.held[node] = append(v.held[node], c.unleft[node]...)
	}
	v.Cluster = c.cluster.Snapshot(holds...)
	return v
}

// ShareFor replaces the fair shares in the whole cluster by the fair shares of the nodes that pods
// of the given kinds compete for. [queue.KindOf] returns the kind of a pod. ShareFor changes
// nothing if [queue.Snapshot.PlaceOf] returns no such nodes.
func (v *View) ShareFor(kinds ...string) {
	if v.standing == nil || v.Cluster.Queues == nil {
		return
	}
	if p := v.standing.PlaceOf(kinds...); p != nil {
		v.Cluster.ShareIn(p.Shares, p.Has, v.held)
	}
}

// RunsOn reports whether the NodeInfo of a node has a pod.
func RunsOn(info fwk.NodeInfo, uid types.UID) bool {
	return slices.ContainsFunc(info.GetPods(), func(pi fwk.PodInfo) bool { return pi.GetPod().UID == uid })
}

// HasPromised reports whether there is any reservation that the preemptor must respect.
func (v *View) HasPromised() bool { return len(v.promised) > 0 }

// Promised returns the pods with a reservation on a node that the preemptor must respect. The
// NodeInfo of the node does not have these pods.
func (v *View) Promised(node string) []fwk.PodInfo { return v.promised[node] }

// Reserved returns the sum of the reserved room on a node that the preemptor must respect; nil for
// none.
func (v *View) Reserved(node string) core.Amounts {
	var sum core.Amounts
	for _, pi := range v.promised[node] {
		for i, amount := range v.dimensions.amounts(pi.CalculateResource().Resource, 1) {
			if sum == nil {
				sum = make(core.Amounts, v.dimensions.size())
			}
			sum[i] = fairshare.Add(sum[i], amount)
		}
	}
	return sum
}

// NodeInfo returns the framework's node for a slot of the Cluster; nil for an empty slot.
func (v *View) NodeInfo(slot int) fwk.NodeInfo {
	return nodeInfo(&v.Cluster.Nodes[slot])
}

func nodeInfo(n *core.Node) fwk.NodeInfo {
	info, _ := n.Ref.(fwk.NodeInfo)
	return info
}

// PodInfo returns the framework's pod for a pod of the Cluster.
func PodInfo(p *core.Pod) fwk.PodInfo {
	pi, _ := p.Ref.(fwk.PodInfo)
	return pi
}

// Victims returns the framework's pods for the victims of a decision. They are sorted by node, and
// on a node in the framework's order.
func (v *View) Victims(d *core.Decision) []*corev1.Pod {
	byNode := make(map[string]sets.Set[types.UID])
	for i := range d.Victims {
		for _, pod := range d.Victims[i].Pods {
			if byNode[pod.Node] == nil {
				byNode[pod.Node] = sets.New[types.UID]()
			}
			byNode[pod.Node].Insert(types.UID(pod.UID))
		}
	}
	var out []*corev1.Pod
	for _, node := range slices.Sorted(maps.Keys(byNode)) {
		info := v.nodes[node].info
		if info == nil {
			continue
		}
		for _, pi := range info.GetPods() {
			if pod := pi.GetPod(); byNode[node].Has(pod.UID) {
				out = append(out, pod)
			}
		}
	}
	return out
}

// Disrupted returns the terminating pods on the given nodes.
func (v *View) Disrupted(nodes sets.Set[string]) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range v.Cluster.Leaving {
		pod := &v.Cluster.Leaving[i]
		if pi := PodInfo(pod); pi != nil && nodes.Has(v.Cluster.Nodes[pod.Node].Name) {
			out = append(out, pi.GetPod())
		}
	}
	return out
}

// Unannounced returns the UIDs of the terminating pods without a deletion timestamp, sorted.
func (v *View) Unannounced() []types.UID {
	var out []types.UID
	for i := range v.Cluster.Leaving {
		if pi := PodInfo(&v.Cluster.Leaving[i]); pi != nil && pi.GetPod().DeletionTimestamp == nil {
			out = append(out, pi.GetPod().UID)
		}
	}
	slices.Sort(out)
	return out
}

// Overdue returns the pods that should have terminated long ago, sorted by node and name. The
// result is valid until the next call of Level.
func (v *View) Overdue() []*corev1.Pod {
	var out []*corev1.Pod
	for _, node := range slices.Sorted(maps.Keys(v.overdue)) {
		out = append(out, slices.SortedFunc(slices.Values(v.overdue[node]), func(a, b *corev1.Pod) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})...)
	}
	return out
}

// Placements maps the UIDs of the pods that a decision places to their nodes.
func Placements(d *core.Decision) map[types.UID]string {
	nodes := make(map[types.UID]string, len(d.Placements))
	maps.Insert(nodes, Placed(d))
	return nodes
}

// Placed iterates over the placements of a decision: the UID of each pod and its node.
func Placed(d *core.Decision) iter.Seq2[types.UID, string] {
	return func(yield func(types.UID, string) bool) {
		for i := range d.Placements {
			if !yield(types.UID(d.Placements[i].UID), d.Placements[i].Node) {
				return
			}
		}
	}
}

// Replacement reports whether the pods of a unit are created again after their eviction, and may
// then preempt. A pod is created again if it has a controller. If a group is evicted as a whole,
// each of its pods must have a controller. A static pod is never evicted. The preemption policy of
// the group takes precedence over the policies of the pods.
func (v *View) Replacement(unit int) core.Replacement {
	var pods []*corev1.Pod
	for i := range v.Cluster.Units[unit].Pods {
		pi := PodInfo(&v.Cluster.Units[unit].Pods[i])
		if pi == nil || metav1.GetControllerOfNoCopy(pi.GetPod()) == nil {
			return core.NoReplacement
		}
		pods = append(pods, pi.GetPod())
	}
	if v.sources.Groups.NeverPreempts(v.groupOf(pods), pods...) {
		return core.ReplacementWaits
	}
	return core.ReplacementPreempts
}

// groupOf returns the group of the pods of a unit; nil for none.
func (v *View) groupOf(pods []*corev1.Pod) *gang.Group {
	if len(pods) == 0 {
		return nil
	}
	key, ok := v.sources.Membership.GroupOf(pods[0])
	if !ok {
		return nil
	}
	g, _ := v.sources.Groups.Group(key)
	return g
}
