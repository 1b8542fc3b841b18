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

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// pendingPods are the pods without a node that have the same queue, group and kind.
type pendingPods struct {
	pendingKey
	request Amounts
	terms   *terms
	// pods is the number of these pods. counted is the number of them that count as demand of the
	// queue.
	pods, counted int64
}

type pendingKey struct {
	queue string
	group types.NamespacedName
	// kind is a key for the request and the terms. Pods with the same kind have the same
	// requirements.
	kind string
}

// terms are the requirements that a pod has on a node, apart from its request: node affinity and
// tolerations.
type terms struct {
	affinity    nodeaffinity.RequiredNodeAffinity
	anywhere    bool
	tolerations []corev1.Toleration
	// plain is true if the pods have no requirements other than their request and their terms; see
	// [isPlain].
	plain bool
	// key identifies the terms. tolerates identifies the tolerations. reach identifies the node
	// affinity and the tolerations: the set of nodes that match.
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

// GroupState is the state of a group with members that wait for a node.
type GroupState struct {
	// Held is true if no member of the group may be placed. For example, the group has too few
	// members.
	Held bool
	// Need is the number of waiting members that must be placed at the same time.
	Need int
}

// pendingGroup has the GroupState of a group and its pending pods.
type pendingGroup struct {
	GroupState
	pending map[*pendingPods]bool
}

// kindOf returns amounts as a text for use as a map key. Different amounts have different texts.
func kindOf(a Amounts) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(a)) {
		fmt.Fprintf(&out, "%s=%d ", name, a[name])
	}
	return out.String()
}

// SetGroupState records the state of a group whose members [Ledger.ChargeMember] has charged.
// Before the first call, the group counts as held.
func (b *Ledger) SetGroupState(group types.NamespacedName, now GroupState) {
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

// lowerNeed lowers the need of a group by one when a member is placed. With the old need, the
// ledger would count too little demand for the other members until SetGroupState sets the exact
// need.
func (b *Ledger) lowerNeed(before, now *charge) {
	if m := b.groups[now.Group]; m != nil && !before.placed && now.placed && before.Group == now.Group {
		m.Need = max(m.Need-1, 0)
	}
}

// Pends reports whether any member of a group has no node. Only such groups need SetGroupState.
func (b *Ledger) Pends(group types.NamespacedName) bool {
	if !b.Used() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.groups[group] != nil
}

// pend adds a pod without a node to the pods of its kind, or removes it if sign is -1.
func (b *Ledger) pend(c charge, sign int64) {
	key := pendingKey{queue: c.queue, group: c.Group, kind: c.kind}
	d := b.pending[key]
	if d == nil {
		d = &pendingPods{pendingKey: key, request: c.request, terms: c.terms}
		b.pending[key] = d
		b.laidKinds = max(b.laidKinds, len(b.pending))
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
	b.layFewer()
	if m == nil {
		return
	}
	if delete(m.pending, d); len(m.pending) == 0 {
		delete(b.groups, c.Group)
	}
}

// unweigh records that nodes or limits have changed, so the demand must be computed again.
func (b *Ledger) unweigh() {
	b.unweighed = true
	b.relay()
	b.plenty.end()
}

// weighAll computes the demand of all pending pods again. Call it after a change of nodes or
// limits.
func (b *Ledger) weighAll() {
	b.kinds, b.slots, b.listedByNodes = make(map[string]*nodeKind), make(map[string]int64), make(map[corev1.ResourceName]bool)
	b.rooms = make(map[string]sharedRoom)
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

// weigh computes how many pending pods of a group count as demand. For pods without a group, alone
// has the pods. A pod that no node can hold, or that a limit excludes, is no demand.
func (b *Ledger) weigh(group types.NamespacedName, alone *pendingPods) {
	if b.unweighed {
		// weighAll will compute the demand again. Until then, only make sure that no deleted pod
		// counts.
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
	if m.Held || together < int64(m.Need) || b.exceeds(served, int64(m.Need)) || !b.mayHoldTogether(m, served) {
		served = nil
	}
	for d := range m.pending {
		b.demand(d, served[d])
	}
}

// demand sets the number of the given pending pods that count as demand of their queue.
func (b *Ledger) demand(d *pendingPods, pods int64) {
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

// isServed reports whether a pod without a node counts as demand. All pods of one kind in a queue
// and group have the same answer.
func (b *Ledger) isServed(c *charge) bool {
	if c.placed {
		return false
	}
	d := b.pending[pendingKey{queue: c.queue, group: c.Group, kind: c.kind}]
	return d != nil && d.counted == d.pods
}

// mostKinds is the maximum number of entries in Ledger.slots.
const mostKinds = 4096

// servable returns how many of the given pending pods can ever run. For members of a group, this is
// the number of pods that fit on empty nodes at the same time. The result is 0 in these cases:
//
//   - No pod fits on any node.
//   - A limit is too low for one pod.
//   - The queue was deleted.
func (b *Ledger) servable(d *pendingPods) int64 {
	if b.keptAbove(d.queue) != "" {
		// No work starts in a deleted queue.
		return 0
	}
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
		// Pods without a group can run one after the other.
		return d.pods
	}
	return min(d.pods, slots)
}

// sharedRoom is an upper bound for the number of pods of several kinds that fit on empty nodes at
// the same time.
type sharedRoom struct {
	// slots is the number of pods that fit if each has the smallest request of any of the kinds.
	slots int64
	// total is the sum of the resources of all nodes that any of the kinds may use.
	total Amounts
}

// mostOnNode is the maximum number of pods on one node that a sharedRoom counts. No group has more
// members.
const mostOnNode = 1 << 20

// mayHoldTogether checks a group whose needed members are of several kinds. It reports whether
// these members may fit on empty nodes at the same time. servable has already checked each kind
// alone.
func (b *Ledger) mayHoldTogether(m *pendingGroup, served map[*pendingPods]int64) bool {
	if len(served) < 2 {
		return true
	}
	room, need := b.roomOf(slices.Collect(maps.Keys(served))), int64(m.Need)
	if room.slots < need {
		return false
	}
	for name, most := range room.total {
		if b.listedByNodes[name] && leastOf(served, name, need) > most {
			return false
		}
	}
	return true
}

// roomOf returns the sharedRoom for several kinds of pending pods.
func (b *Ledger) roomOf(pending []*pendingPods) sharedRoom {
	slices.SortFunc(pending, func(x, y *pendingPods) int { return strings.Compare(x.kind, y.kind) })
	key, least := strings.Builder{}, maps.Clone(pending[0].request)
	for _, d := range pending {
		fmt.Fprintf(&key, "%s|", d.kind)
		for name, v := range least {
			least[name] = min(v, d.request[name])
		}
	}
	room, known := b.rooms[key.String()]
	if known {
		return room
	}
	room.total = make(Amounts)
	for _, k := range b.kinds {
		if !slices.ContainsFunc(pending, func(d *pendingPods) bool { return b.holds(k.allocatable, d.request) > 0 }) {
			continue
		}
		nodes := k.matchingAny(pending)
		room.slots = fairshare.Add(room.slots, min(b.holds(k.allocatable, least), mostOnNode)*nodes)
		room.total.add(k.allocatable, nodes)
	}
	if len(b.rooms) >= mostKinds {
		clear(b.rooms)
	}
	b.rooms[key.String()] = room
	return room
}

// nodeKind has the nodes with the same resources and taints.
type nodeKind struct {
	allocatable Amounts
	taints      []corev1.Taint
	nodes       []*nodeEntry
}

// matching returns the number of these nodes that a pod with the terms may run on.
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

// matchingAny returns the number of these nodes that at least one of the pending pods may run on.
func (k *nodeKind) matchingAny(pending []*pendingPods) (nodes int64) {
	able := slices.DeleteFunc(slices.Clone(pending), func(d *pendingPods) bool { return !k.tolerated(d.terms) })
	if slices.ContainsFunc(able, func(d *pendingPods) bool { return d.terms.anywhere }) {
		return int64(len(k.nodes))
	}
	for _, g := range k.nodes {
		if slices.ContainsFunc(able, func(d *pendingPods) bool { return d.terms.matches(g.node) }) {
			nodes++
		}
	}
	return nodes
}

// tolerated reports whether a pod with the terms tolerates the taints of these nodes.
func (k *nodeKind) tolerated(t *terms) bool {
	_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), k.taints, t.tolerations, keepsOff, true)
	return !untolerated
}

// matches reports whether a node satisfies the node affinity of the terms. It ignores taints. As in
// the scheduler, terms that cannot be parsed match no node.
func (t *terms) matches(node *corev1.Node) bool {
	match, err := t.affinity.Match(node)
	return err == nil && match
}

// keepsOff reports whether a taint prevents the placement of pods that do not tolerate it.
func keepsOff(taint *corev1.Taint) bool { return taint.Effect != corev1.TaintEffectPreferNoSchedule }

// holds returns the number of pods with a request that fit on an empty node. It ignores resources
// that no node lists: pods may get these in another way, for example from a device class.
func (b *Ledger) holds(allocatable, request Amounts) int64 {
	most := mostRequested
	for name, v := range request {
		if v > 0 && b.listedByNodes[name] {
			most = min(most, allocatable[name]/v)
		}
	}
	return most
}

// exceeds reports whether a number of pods, given by need, certainly exceed a limit of their queue
// or of an ancestor. It adds up the smallest requests of the pods.
func (b *Ledger) exceeds(pods map[*pendingPods]int64, need int64) bool {
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

// leastOf returns the smallest amount of a resource that a number of the pods, given by need,
// request together.
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
