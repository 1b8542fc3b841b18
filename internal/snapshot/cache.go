package snapshot

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// Cache keeps a [core.Cluster] in sync with the framework's snapshot. Only scheduling cycles use
// it, one at a time. GroupChanged, NodeChanged and Invalidate are exceptions: any goroutine may
// call them.
type Cache struct {
	sources Sources
	budgets *budgetIndex
	draws   *draws
	cluster *core.Cluster
	// standing is the state of the queues at the last call of Level; nil if there are no queues.
	standing   *queue.Snapshot
	dimensions dimensions
	// memberships has each distinct queue membership once, so that units with equal memberships
	// share it.
	memberships map[core.QueueMembership]*core.QueueMembership
	// roles has each distinct role of units once, so that units with equal roles share it.
	roles map[core.Role]*core.Role
	// listed has the nodes of the framework's snapshot at the last call of Level, in order.
	listed []listedNode
	// nodes has the same entries as listed, by node name.
	nodes map[string]listedNode
	// overdue has the terminating pods of each node that are not expected to terminate soon.
	overdue map[string][]*corev1.Pod
	// unleft has, by node, the usage of overdue pods and of pods with a long grace period. This
	// usage counts for the queues of the pods as long as the pods exist.
	unleft      map[string][]core.Hold
	whereabouts whereabouts
	// occupants has the pods that stay on each node. It is used to detect changes.
	occupants *occupants
	// stood has the facts about each PodGroup, as of the last time that the Cache read the
	// PodGroup.
	stood map[types.NamespacedName]groupFacts

	mu sync.Mutex
	// invalid is true if the next call of Level must read everything again.
	invalid bool
	// regrouped has the PodGroups that GroupChanged was called for since the last decision.
	regrouped sets.Set[types.NamespacedName]
	// unsettled has the nodes that NodeChanged was called for since the last decision.
	unsettled sets.Set[string]
}

// listedNode is a node with its generation when it was last read. The framework updates a NodeInfo
// in place, and then increments its generation.
type listedNode struct {
	info       fwk.NodeInfo
	generation int64
}

// NewCache returns an empty cache.
func NewCache(s Sources) *Cache {
	return &Cache{
		sources: s, regrouped: sets.New[types.NamespacedName](), unsettled: sets.New[string](), memberships: make(map[core.QueueMembership]*core.QueueMembership),
		roles: make(map[core.Role]*core.Role),
		draws: newDraws(), overdue: make(map[string][]*corev1.Pod), unleft: make(map[string][]core.Hold), occupants: newOccupants(),
		whereabouts: newWhereabouts(), stood: make(map[types.NamespacedName]groupFacts),
	}
}

// GroupChanged requests that the nodes with members of a PodGroup are read again. Call it when the
// results of [Groups] for the PodGroup have changed. Any goroutine may call it.
func (c *Cache) GroupChanged(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.regrouped.Insert(key)
}

// NodeChanged requests that a node is read again. Call it when the results of [Disruptions] or
// [Membership] for its pods have changed. Any goroutine may call it.
func (c *Cache) NodeChanged(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unsettled.Insert(node)
}

// Invalidate requests that everything is read again. Any goroutine may call it.
func (c *Cache) Invalidate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.invalid = true
}

// settle returns the existing nodes that NodeChanged was called for, and clears that list.
func (c *Cache) settle() []fwk.NodeInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []fwk.NodeInfo
	for name := range c.unsettled {
		if info := c.nodes[name].info; info != nil {
			out = append(out, info)
		}
	}
	clear(c.unsettled)
	return out
}

// news returns the requests of Invalidate and GroupChanged since the last decision, and clears
// them.
func (c *Cache) news() (invalid bool, regrouped sets.Set[types.NamespacedName]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	invalid, regrouped = c.invalid, c.regrouped
	c.invalid, c.regrouped = false, sets.New[types.NamespacedName]()
	return invalid, regrouped
}

// Level updates the Cluster from the nodes of the framework's snapshot and the budgets. If the core
// rejects a node, Level returns an error with the node's name. The next call of Level then reads
// everything again.
func (c *Cache) Level(infos []fwk.NodeInfo, budgets []*policyv1.PodDisruptionBudget) error {
	invalid, regrouped := c.news()
	if c.cluster == nil || invalid || c.redelegated() {
		c.reset(infos)
	}
	changes := c.budgets.level(budgets)
	changed, same := c.changed(infos)
	if c.dimensions.lack(changed) {
		c.reset(infos)
		changes = c.budgets.level(budgets)
		changed, same = infos, false
	} else if len(changes.matchers)+changes.counted.Len() > 0 {
		changed = append(changed, c.concerned(infos, &changes)...)
	}
	if len(changed) > 0 || !same {
		c.take(infos)
	}
	changed = withOthers(changed, append(c.settle(), c.withMembers(regrouped)...))
	groups := make(map[types.NamespacedName]*core.Group)
	if err := c.setNodes(changed, groups); err != nil {
		return err
	}
	if moved := c.moved(groups, regrouped); moved.Len() > 0 {
		// The snapshot has members that the handlers of the informer have not reported yet. They
		// change facts about their groups, so read the other nodes of these groups too.
		others := withOthers(changed, c.withMembers(moved))[len(changed):]
		if err := c.setNodes(others, groups); err != nil {
			return err
		}
	}
	c.cluster.SetBudgets(c.budgets.allowances(c.draws))
	if c.standing = c.sources.Queues.Standing(c.cluster.Resources()); c.standing != nil {
		c.cluster.SetQueues(c.standing.Tree, c.standing.Shares)
	} else {
		c.cluster.SetQueues(nil, nil)
	}
	return nil
}

// redelegated reports whether the set of delegated resources has changed since the nodes were read.
// That changes the room of all nodes without such a resource, even if no node has changed.
func (c *Cache) redelegated() bool {
	return !slices.Equal(c.dimensions.delegated, c.dimensions.delegatedBy(c.sources.Delegation))
}

// setNodes calls setNode for each of the nodes.
func (c *Cache) setNodes(infos []fwk.NodeInfo, groups map[types.NamespacedName]*core.Group) error {
	for _, info := range infos {
		if err := c.setNode(info, groups); err != nil {
			// Read everything next time: the requests are cleared already, but not all of them were
			// carried out.
			c.Invalidate()
			return fmt.Errorf("node %s: %w", info.Node().Name, err)
		}
	}
	return nil
}

// groupFacts has the facts about a group that affect each of its members on any node.
type groupFacts struct {
	priority     int32
	start, since int64
	minRuntime   *core.MinRuntime
	lacks        int32
	stale        bool
	stops        core.Stops
}

// moved returns the groups whose facts have changed since they were last read. It leaves out the
// groups in regrouped, because Level has read these groups again on all their nodes.
func (c *Cache) moved(groups map[types.NamespacedName]*core.Group, regrouped sets.Set[types.NamespacedName]) sets.Set[types.NamespacedName] {
	out := sets.New[types.NamespacedName]()
	for key := range regrouped {
		delete(c.stood, key)
	}
	for key, g := range groups {
		if g == nil {
			delete(c.stood, key)
			continue
		}
		now := groupFacts{priority: g.Priority, start: g.Start, since: g.Since, minRuntime: g.MinRuntime, lacks: g.Lacks, stale: g.Stale, stops: g.Stops}
		if before, known := c.stood[key]; known && before != now {
			out.Insert(key)
		}
		c.stood[key] = now
	}
	return out
}

// reset starts with an empty Cluster, with the dimensions of the current nodes.
func (c *Cache) reset(infos []fwk.NodeInfo) {
	c.dimensions = newDimensions(infos, c.sources.Delegation)
	c.cluster = core.NewCluster(c.dimensions.names())
	c.budgets = newBudgetIndex()
	c.listed, c.nodes = nil, make(map[string]listedNode, len(infos))
	clear(c.memberships)
	clear(c.roles)
	clear(c.stood)
	clear(c.overdue)
	clear(c.unleft)
	c.whereabouts = newWhereabouts()
	c.occupants.reset()
	c.draws.keep(infos)
}

// changed returns the nodes that are new or whose generation has changed. The result same is true
// if the list has the same nodes as before.
func (c *Cache) changed(infos []fwk.NodeInfo) (out []fwk.NodeInfo, same bool) {
	same = len(infos) == len(c.listed)
	for i, info := range infos {
		if i < len(c.listed) && c.listed[i].info == info {
			if c.listed[i].generation != info.GetGeneration() {
				out = append(out, info)
			}
			continue
		}
		same = false
		if known := c.nodes[info.Node().Name]; known.info != info || known.generation != info.GetGeneration() {
			out = append(out, info)
		}
	}
	return out, same
}

// take records the list of nodes, and removes the nodes that are no longer in the list.
func (c *Cache) take(infos []fwk.NodeInfo) {
	same := len(infos) == len(c.listed)
	c.listed = slices.Grow(c.listed[:0], len(infos))[:len(infos)]
	for i, info := range infos {
		same = same && c.listed[i].info == info
		if c.listed[i].info == info && c.listed[i].generation == info.GetGeneration() {
			continue
		}
		c.listed[i] = listedNode{info: info, generation: info.GetGeneration()}
		c.nodes[info.Node().Name] = c.listed[i]
	}
	if same {
		return
	}
	gone := maps.Clone(c.nodes)
	for _, info := range infos {
		delete(gone, info.Node().Name)
	}
	for name := range gone {
		c.cluster.RemoveNode(name)
		c.draws.read(name, &guardedPods{})
		delete(c.overdue, name)
		delete(c.unleft, name)
		c.whereabouts.set(name, nil)
		c.occupants.remove(name)
		delete(c.nodes, name)
	}
}

// concerned returns the nodes with pods whose budgets have changed. These nodes must be read even
// if they have not changed.
func (c *Cache) concerned(infos []fwk.NodeInfo, changes *budgetChanges) []fwk.NodeInfo {
	var out []fwk.NodeInfo
	for _, info := range infos {
		if slices.ContainsFunc(info.GetPods(), func(pi fwk.PodInfo) bool { return changes.concern(pi.GetPod()) }) {
			out = append(out, info)
		}
	}
	return out
}

// withMembers returns the listed nodes with members of the given groups. It includes nodes that
// only had such members when the Cache last read the node.
func (c *Cache) withMembers(groups sets.Set[types.NamespacedName]) []fwk.NodeInfo {
	names := sets.New[string]()
	for key := range groups {
		names.Insert(c.whereabouts.nodes[key]...)
		for _, pod := range c.sources.Groups.Placed(key) {
			names.Insert(pod.Spec.NodeName)
		}
	}
	var out []fwk.NodeInfo
	for _, name := range sets.List(names) {
		if info := c.nodes[name].info; info != nil {
			out = append(out, info)
		}
	}
	return out
}

// withOthers returns the union of two lists of nodes: nodes, followed by the further nodes in more.
func withOthers(nodes, more []fwk.NodeInfo) []fwk.NodeInfo {
	if len(more) == 0 {
		return nodes
	}
	has := sets.New(nodes...)
	for _, info := range more {
		if !has.Has(info) {
			has.Insert(info)
			nodes = append(nodes, info)
		}
	}
	return nodes
}

// setNode passes a node and its pods to the core. groups caches the groups of the pods.
func (c *Cache) setNode(info fwk.NodeInfo, groups map[types.NamespacedName]*core.Group) error {
	room, used := info.GetAllocatable(), info.GetRequested()
	state := core.NodeState{Node: core.Node{
		Name: info.Node().Name, Ref: info,
		Allocatable: c.dimensions.amounts(room, room.GetAllowedPodNumber()),
		Free:        c.dimensions.amounts(used, len(info.GetPods())),
	}}
	for r, v := range state.Free {
		state.Free[r] = state.Allocatable[r] - v
	}
	c.dimensions.addDelegated(state.Free, state.Allocatable, delegatedRoom)
	var guarded guardedPods
	var members []types.NamespacedName
	delete(c.overdue, state.Name)
	delete(c.unleft, state.Name)
	for _, pi := range info.GetPods() {
		pod := pi.GetPod()
		cp := core.Pod{
			Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID),
			Request: c.dimensions.amounts(pi.CalculateResource().Resource, 1), Start: Nanos(startOf(pod)), Ref: pi,
			RefusedUntil: Nanos(c.sources.Disruptions.RefusedUntil(pod)),
		}
		budgets, departure := c.budgets.of(pod), c.departureOf(pod)
		if len(budgets) > 0 || c.draws.knows(state.Name, pod.UID) {
			guarded.add(pod, c.budgets.keysOf(budgets), departure != Stays)
		}
		key, isMember := c.sources.Membership.GroupOf(pod)
		if !isMember {
			key = types.NamespacedName{}
		} else if departure != Leaves {
			members = append(members, key)
			if w, ok := c.sources.Groups.WorkloadOf(key); ok && w.Key != key {
				members = append(members, w.Key)
			}
		}
		switch departure {
		case Leaves:
			state.Leaving = append(state.Leaving, cp)
		case LeavesLate:
			state.Leaving = append(state.Leaving, cp)
			c.countLate(state.Name, &cp, pod)
		case Overdue:
			// An overdue pod still uses its room, and cannot be a victim.
			c.overdue[state.Name] = append(c.overdue[state.Name], pod)
			c.countLate(state.Name, &cp, pod)
		case Stays:
			cp.Budgets = c.budgets.brokenBy(pod, budgets)
			state.Pods = append(state.Pods, c.running(cp, pod, key, groups))
		}
	}
	c.whereabouts.set(state.Name, members)
	c.draws.read(state.Name, &guarded)
	c.occupants.set(info.Node(), &state, c.overdue[state.Name])
	return c.cluster.SetNode(&state)
}

// countLate adds a pod to unleft, so that the pod counts as usage of its queue as long as the pod
// exists.
func (c *Cache) countLate(node string, cp *core.Pod, pod *corev1.Pod) {
	if q := c.sources.Queues.QueueOf(pod); q != "" {
		c.unleft[node] = append(c.unleft[node], core.Hold{Request: cp.Request, Queue: q})
	}
}

// departureOf returns whether and how a pod terminates. A static pod never does, even if its mirror
// in the API is deleted.
func (c *Cache) departureOf(pod *corev1.Pod) Departure {
	if isStatic(pod) {
		return Stays
	}
	return c.sources.Disruptions.DepartureOf(pod)
}

// isStatic reports whether a pod is the mirror of a static pod: a pod that the kubelet of its node
// runs without the API server.
func isStatic(pod *corev1.Pod) bool {
	_, mirrors := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirrors
}

// isLocal reports whether the replacement of a pod can only run on the same node: the pod belongs
// to a DaemonSet.
func isLocal(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "DaemonSet" && strings.HasPrefix(owner.APIVersion, appsv1.GroupName+"/")
}

// running returns a pod with the facts that the core needs to form units. key is the group of the
// pod; empty for none. A static pod forms a separate unit, because evicting its group does not
// remove it.
func (c *Cache) running(cp core.Pod, pod *corev1.Pod, key types.NamespacedName, groups map[types.NamespacedName]*core.Group) core.RunningPod {
	cp.Progress = c.progress(pod, key)
	rp := core.RunningPod{
		Pod: cp, Priority: corev1helpers.PodPriority(pod), Running: pod.Status.Phase == corev1.PodRunning, Static: isStatic(pod), Local: isLocal(pod),
	}
	if key.Name != "" && !rp.Static {
		g, known := groups[key]
		if !known {
			if g = c.sources.group(key); g != nil {
				g.Membership = c.membership(g.Membership)
			}
			groups[key] = g
		}
		if rp.Group = g; gang.IsTree(key) {
			rp.Group = c.part(g, key, pod, groups)
		}
		if g != nil && g.Membership != nil && g.Membership.MinCount > 0 {
			rp.Role = c.role(key, pod)
		}
	}
	if rp.Group == nil {
		rp.Toleration, rp.MinRuntime = c.sources.Tolerations.OfPod(pod), c.sources.Profiles.MinRuntimeOf(pod)
		rp.Since = Nanos(preemptiontoleration.ScheduledAt(pod))
		if _, exists := c.sources.Groups.Group(key); key.Name != "" && !exists {
			c.sources.sealSingle(&rp, pod)
		}
		if q := c.sources.Queues.QueueOf(pod); q != "" {
			rp.Membership = c.membership(&core.QueueMembership{Queue: q})
		}
	}
	return rp
}

// progress returns the progress that the annotations of a pod and of its group report.
func (c *Cache) progress(pod *corev1.Pod, key types.NamespacedName) core.Progress {
	own, _ := gang.ProgressOf(pod.Annotations)
	var group gang.Progress
	if key.Name != "" {
		if g, ok := c.sources.Groups.Group(key); ok {
			group = g.Progress
		}
	}
	return core.Progress{
		Saved: Nanos(own.Saved), GroupSaved: Nanos(group.Saved),
		Interval: int64(cmp.Or(own.Interval, group.Interval)), Restart: int64(cmp.Or(own.Restart, group.Restart)),
	}
}

// role returns the role of a member of a gang whose members are preempted one by one; nil for none.
// Members with equal roles share the result.
func (c *Cache) role(key types.NamespacedName, pod *corev1.Pod) *core.Role {
	g, ok := c.sources.Groups.Group(key)
	if !ok {
		return nil
	}
	role := c.sources.Groups.RoleOf(g, pod)
	if role == nil {
		return nil
	}
	if known, ok := c.roles[*role]; ok {
		return known
	}
	c.roles[*role] = role
	return role
}

// membership returns a shared copy of a queue membership.
func (c *Cache) membership(t *core.QueueMembership) *core.QueueMembership {
	if t == nil {
		return nil
	}
	if known, ok := c.memberships[*t]; ok {
		return known
	}
	c.memberships[*t] = t
	return t
}
