package queue

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// pendingPods are what pods that have no node yet ask for: those of one queue, of one group if they have any, that ask for the same.
type pendingPods struct {
	pendingKey
	request Amounts
	terms   *terms
	// pods is how many there are, and counted of how many of them the queue's demand is.
	pods, counted int64
}

type pendingKey struct {
	queue string
	group types.NamespacedName
	// kind says what each of them needs of a node.
	kind string
}

// terms are what a pod needs of a node beside room.
type terms struct {
	affinity    nodeaffinity.RequiredNodeAffinity
	anywhere    bool
	tolerations []corev1.Toleration
	// plain is true where nothing else matters.
	plain bool
	// key is the same for the same terms, tolerates for the same tolerations, and reach for the same nodes.
	key, tolerates, reach string
}

func termsOf(pod *corev1.Pod) *terms {
	spec := &pod.Spec
	var required *corev1.NodeSelector
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil {
		required = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	plain, tolerates := isPlain(pod), tolerationsKey(spec.Tolerations)
	reach := fmt.Sprint(spec.NodeSelector, " ", required.String(), " ", tolerates)
	return &terms{
		affinity: nodeaffinity.GetRequiredNodeAffinity(pod), anywhere: len(spec.NodeSelector) == 0 && required == nil,
		tolerations: spec.Tolerations, plain: plain, tolerates: tolerates,
		key: fmt.Sprint(reach, " ", plain), reach: reach,
	}
}

func tolerationsKey(tolerations []corev1.Toleration) string {
	var out strings.Builder
	for i := range tolerations {
		t := &tolerations[i]
		fmt.Fprintf(&out, "%q %s %q %s,", t.Key, t.Operator, t.Value, t.Effect)
	}
	return out.String()
}

func taintsKey(taints []corev1.Taint) string {
	var out strings.Builder
	for i := range taints {
		out.WriteString(taints[i].ToString() + ",")
	}
	return out.String()
}

// GroupState is how a group stands of which members wait for their places.
type GroupState struct {
	// Held is true where none of them can be placed, because the group lacks members, for instance.
	Held bool
	// Need is how many of them have to be placed together.
	Need int
}

// pendingGroup is a GroupState with the pending pods of the group.
type pendingGroup struct {
	GroupState
	pending map[*pendingPods]bool
}

// kindOf is the same for equal amounts.
func kindOf(a Amounts) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(a)) {
		fmt.Fprintf(&out, "%s=%d ", name, a[name])
	}
	return out.String()
}

// SetGroupState records how a group stands whose members have been charged with [Board.ChargeMember]. As long as that is not
// known, they count as held.
func (b *Board) SetGroupState(group types.NamespacedName, now GroupState) {
	if !b.Used() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if m := b.groups[group]; m != nil && m.GroupState != now {
		m.GroupState = now
		b.counted++
		b.weigh(group, nil)
	}
}

// lowerNeed has a group need one fewer where a member has come to its place, before what waits of it is weighed. What it needs in all is told
// later.
func (b *Board) lowerNeed(before, now *charge) {
	if m := b.groups[now.Group]; m != nil && !before.placed && now.placed && before.Group == now.Group {
		m.Need = max(m.Need-1, 0)
	}
}

// Pends reports whether members of a group are charged that have no node yet: how other groups stand need not be told.
func (b *Board) Pends(group types.NamespacedName) bool {
	if !b.Used() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.groups[group] != nil
}

// pend adds a pod without a node to those that are like it, or takes it away.
func (b *Board) pend(c charge, sign int64) {
	key := pendingKey{queue: c.queue, group: c.Group, kind: c.kind}
	d := b.pending[key]
	if d == nil {
		d = &pendingPods{pendingKey: key, request: c.request, terms: c.terms}
		b.pending[key] = d
	}
	var m *pendingGroup
	if c.Group != (types.NamespacedName{}) {
		if m = b.groups[c.Group]; m == nil {
			m = &pendingGroup{GroupState: GroupState{Held: true}, pending: make(map[*pendingPods]bool)}
			b.groups[c.Group] = m
		}
		m.pending[d] = true
	}
	d.pods += sign
	b.weigh(c.Group, d)
	if d.pods > 0 {
		return
	}
	delete(b.pending, key)
	if m == nil {
		return
	}
	if delete(m.pending, d); len(m.pending) == 0 {
		delete(b.groups, c.Group)
	}
}

// unweigh records that nodes or limits have changed.
func (b *Board) unweigh() {
	b.unweighed = true
	b.relay()
	b.plenty.end()
}

// weighAll settles all demand anew, because nodes or limits have changed.
func (b *Board) weighAll() {
	b.kinds, b.slots, b.listedByNodes = make(map[string]*nodeKind), make(map[string]int64), make(map[corev1.ResourceName]bool)
	b.tainted, b.unreached = make(map[string]*taintedNodes), true
	for _, g := range b.nodes {
		for name := range g.allocatable {
			b.listedByNodes[name] = true
		}
		if g.closed || g.allocatable == nil {
			continue
		}
		kind := kindOf(g.allocatable) + taintsKey(g.node.Spec.Taints)
		if b.kinds[kind] == nil {
			b.kinds[kind] = &nodeKind{allocatable: g.allocatable, taints: g.node.Spec.Taints}
		}
		g.kind = b.kinds[kind]
		g.kind.nodes = append(g.kind.nodes, g)
		b.taint(g)
	}
	b.unweighed, b.plenty.kinds = false, nil
	for _, d := range b.pending {
		if d.group == (types.NamespacedName{}) {
			b.weigh(d.group, d)
		}
	}
	for group := range b.groups {
		b.weigh(group, nil)
	}
}

// weigh settles how much of what a group's pending pods ask for is demand, or of pods without a group: nothing of what no
// node or no limit can ever serve.
func (b *Board) weigh(group types.NamespacedName, alone *pendingPods) {
	if b.unweighed {
		// All of them will be.
		if alone != nil && alone.pods < alone.counted {
			b.demand(alone, alone.pods)
		}
		return
	}
	m := b.groups[group]
	if m == nil {
		b.demand(alone, b.servable(alone))
		return
	}
	together, served := int64(0), make(map[*pendingPods]int64, len(m.pending))
	for d := range m.pending {
		if n := b.servable(d); n > 0 {
			served[d] = d.pods
			together += n
		}
	}
	if m.Held || together < int64(m.Need) || b.exceeds(served, int64(m.Need)) {
		served = nil
	}
	for d := range m.pending {
		b.demand(d, served[d])
	}
}

// demand has so many of some pending pods be part of what their queue asks for.
func (b *Board) demand(d *pendingPods, pods int64) {
	a, more := b.account(d.queue), pods-d.counted
	a.changed = b.counted
	a.demand.add(d.request, more)
	a.waiting.add(d.request, more)
	b.addUp(b.waiting, d.queue, d.request, more)
	d.counted = pods
	b.layWaiting(d, more)
	b.tolerate(d, more)
	b.plenty.demand(d, more)
}

// isServed reports whether what a pod without a node asks for is demand, with all that is like it.
func (b *Board) isServed(c *charge) bool {
	if c.placed {
		return false
	}
	d := b.pending[pendingKey{queue: c.queue, group: c.Group, kind: c.kind}]
	return d != nil && d.counted == d.pods
}

// mostKinds bounds the kinds of pods of which it is remembered how many the nodes could hold.
const mostKinds = 4096

// servable is how many of some pending pods the nodes could have if nothing else ran there, and the limits above them one by one.
func (b *Board) servable(d *pendingPods) int64 {
	slots, known := b.slots[d.kind]
	if !known {
		for _, k := range b.kinds {
			if n := b.holds(k.allocatable, d.request); n > 0 {
				slots += k.matching(d.terms) * n
			}
		}
		if len(b.slots) >= mostKinds {
			clear(b.slots)
		}
		b.slots[d.kind] = slots
	}
	if slots == 0 || b.exceeds(map[*pendingPods]int64{d: 1}, 1) {
		return 0
	}
	if d.group == (types.NamespacedName{}) {
		// They need not run at the same time.
		return d.pods
	}
	return min(d.pods, slots)
}

// nodeKind are nodes that have the same, and the same taints.
type nodeKind struct {
	allocatable Amounts
	taints      []corev1.Taint
	nodes       []*nodeEntry
}

// matching counts the nodes on which a pod with such terms may be.
func (k *nodeKind) matching(t *terms) (nodes int64) {
	if !k.tolerated(t) {
		return 0
	}
	if t.anywhere {
		return int64(len(k.nodes))
	}
	for _, g := range k.nodes {
		if t.matches(g.node) {
			nodes++
		}
	}
	return nodes
}

// tolerated reports whether a pod with such terms tolerates the nodes.
func (k *nodeKind) tolerated(t *terms) bool {
	_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), k.taints, t.tolerations, keepsOff, true)
	return !untolerated
}

// matches reports whether a pod with such terms may be on a node, taints left out. Terms that cannot be read match nothing, as in the
// scheduler.
func (t *terms) matches(node *corev1.Node) bool {
	match, err := t.affinity.Match(node)
	return err == nil && match
}

// keepsOff reports whether a taint keeps pods from being placed.
func keepsOff(taint *corev1.Taint) bool { return taint.Effect != corev1.TaintEffectPreferNoSchedule }

// holds is how many pods a node could have. What no node lists may come from elsewhere, as from a device class.
func (b *Board) holds(allocatable, request Amounts) int64 {
	most := mostRequested
	for name, v := range request {
		if v > 0 && b.listedByNodes[name] {
			most = min(most, allocatable[name]/v)
		}
	}
	return most
}

// exceeds reports whether so many of some pods are too much for a limit above them, the smallest of them.
func (b *Board) exceeds(pods map[*pendingPods]int64, need int64) bool {
	checked := make(map[string]bool)
	for d := range pods {
		for _, queue := range b.path(d.queue) {
			if checked[queue] {
				continue
			}
			checked[queue] = true
			for name, most := range b.limits[queue] {
				if leastOf(pods, name, need) > most {
					return true
				}
			}
		}
	}
	return false
}

// leastOf is what so many of some pods ask for of a resource, the smallest of them.
func leastOf(pods map[*pendingPods]int64, name corev1.ResourceName, need int64) int64 {
	pending := slices.SortedFunc(maps.Keys(pods), func(x, y *pendingPods) int { return cmp.Compare(x.request[name], y.request[name]) })
	sum := int64(0)
	for _, d := range pending {
		n := min(pods[d], need)
		sum += n * d.request[name]
		need -= n
	}
	return sum
}
