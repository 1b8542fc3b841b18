package scheduler

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// mirror keeps the core's picture of the cluster level with the framework's snapshot, so that a decision
// costs what has changed since the last one. Only scheduling cycles use it, which come one at a time; what
// other goroutines have to tell it goes through [mirror.regroup].
type mirror struct {
	facts      facts
	budgets    *budgetIndex
	cluster    *core.Cluster
	dimensions dimensions
	// tenures has every tenure that units have, so that equal ones are shared.
	tenures map[core.Tenure]*core.Tenure
	// listed is the snapshot's list as it was last; nodes are its entries by name.
	listed []listedNode
	nodes  map[string]listedNode

	mu sync.Mutex
	// outdated is true where everything has to be taken in anew.
	outdated bool
	// regrouped are the PodGroups that have changed since the last decision.
	regrouped sets.Set[types.NamespacedName]
	// unsettled are the nodes with pods that are leaving now, or are not any more, without any event.
	unsettled sets.Set[string]
}

// listedNode is a node as the mirror last took it in. The framework keeps a node's NodeInfo where it is and
// counts its generation up.
type listedNode struct {
	info       fwk.NodeInfo
	generation int64
}

// facts are what a mirror has to be told of pods and queues.
type facts struct {
	// memberOf names the group by which a pod counts as a victim, and groupOf finds it, as the core knows it.
	memberOf func(*corev1.Pod) (types.NamespacedName, bool)
	groupOf  func(types.NamespacedName) (core.Group, bool)
	// isLeaving tells which pods are on their way out.
	isLeaving func(*corev1.Pod) bool
	// tolerates is a pod's own toleration, and queueOf its own queue: they count where it has no group.
	tolerates func(*corev1.Pod) *core.Toleration
	queueOf   func(*corev1.Pod) string
	// standing is how the queues stand, in some resources; nil where there are none.
	standing func(names []string) *queue.Standing
}

// newMirror makes an empty mirror.
func newMirror(f facts) *mirror {
	return &mirror{
		facts: f, regrouped: sets.New[types.NamespacedName](), unsettled: sets.New[string](), tenures: make(map[core.Tenure]*core.Tenure),
	}
}

// regroup notes that a PodGroup has changed. Any goroutine may call it.
func (m *mirror) regroup(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.regrouped.Insert(key)
}

// unsettle has a node taken in anew, since isLeaving says something else of its pods. Any goroutine may call it.
func (m *mirror) unsettle(node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unsettled.Insert(node)
}

// settle returns the nodes that unsettle was told of, as far as they exist.
func (m *mirror) settle() []fwk.NodeInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []fwk.NodeInfo
	for name := range m.unsettled {
		if info := m.nodes[name].info; info != nil {
			out = append(out, info)
		}
	}
	clear(m.unsettled)
	return out
}

// renew has everything taken in anew. Any goroutine may call it.
func (m *mirror) renew() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.outdated = true
}

// isOutdated reports whether renew has been called since the last decision.
func (m *mirror) isOutdated() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.outdated
}

// news returns what has been noted since the last decision.
func (m *mirror) news() (outdated bool, regrouped sets.Set[types.NamespacedName]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	outdated, regrouped = m.outdated, m.regrouped
	m.outdated, m.regrouped = false, sets.New[types.NamespacedName]()
	return outdated, regrouped
}

// level brings the picture up to date with the nodes of a snapshot and the budgets.
func (m *mirror) level(infos []fwk.NodeInfo, budgets []*policyv1.PodDisruptionBudget) error {
	outdated, regrouped := m.news()
	if m.cluster == nil || outdated {
		m.reset(infos)
	}
	changes := m.budgets.level(budgets)
	changed, same := m.changed(infos)
	if m.dimensions.lack(changed) {
		m.reset(infos)
		changes = m.budgets.level(budgets)
		changed, same = infos, false
	} else if len(regrouped)+len(changes.matchers)+changes.counted.Len() > 0 {
		changed = append(changed, m.concerned(infos, regrouped, &changes)...)
	}
	if len(changed) > 0 || !same {
		m.take(infos)
	}
	changed = append(changed, m.settle()...)
	m.cluster.SetBudgets(m.budgets.list)
	groups := make(map[types.NamespacedName]*core.Group)
	for _, info := range changed {
		if err := m.setNode(info, groups); err != nil {
			// What was noted is taken already, and not all of it has been taken in.
			m.renew()
			return fmt.Errorf("node %s: %w", info.Node().Name, err)
		}
	}
	if s := m.facts.standing(m.cluster.Resources()); s != nil {
		m.cluster.SetQueues(s.Tree, s.Shares)
	} else {
		m.cluster.SetQueues(nil, nil)
	}
	return nil
}

// reset starts over, with the dimensions that nodes have now.
func (m *mirror) reset(infos []fwk.NodeInfo) {
	m.dimensions = newDimensions(infos)
	m.cluster = core.NewCluster(m.dimensions.names())
	m.budgets = newBudgetIndex()
	m.listed, m.nodes = nil, make(map[string]listedNode, len(infos))
	clear(m.tenures)
}

// changed are the nodes that are new, or not what they were; same is true where the list has the nodes that it had.
func (m *mirror) changed(infos []fwk.NodeInfo) (out []fwk.NodeInfo, same bool) {
	same = len(infos) == len(m.listed)
	for i, info := range infos {
		if i < len(m.listed) && m.listed[i].info == info {
			if m.listed[i].generation != info.GetGeneration() {
				out = append(out, info)
			}
			continue
		}
		same = false
		if known := m.nodes[info.Node().Name]; known.info != info || known.generation != info.GetGeneration() {
			out = append(out, info)
		}
	}
	return out, same
}

// take records the list as it is now, and drops the nodes that are on it no more.
func (m *mirror) take(infos []fwk.NodeInfo) {
	same := len(infos) == len(m.listed)
	m.listed = slices.Grow(m.listed[:0], len(infos))[:len(infos)]
	for i, info := range infos {
		same = same && m.listed[i].info == info
		if m.listed[i].info == info && m.listed[i].generation == info.GetGeneration() {
			continue
		}
		m.listed[i] = listedNode{info: info, generation: info.GetGeneration()}
		m.nodes[info.Node().Name] = m.listed[i]
	}
	if same {
		return
	}
	gone := maps.Clone(m.nodes)
	for _, info := range infos {
		delete(gone, info.Node().Name)
	}
	for name := range gone {
		m.cluster.RemoveNode(name)
		delete(m.nodes, name)
	}
}

// concerned are the nodes with pods whose group or budgets have changed, although the nodes have not.
func (m *mirror) concerned(infos []fwk.NodeInfo, regrouped sets.Set[types.NamespacedName], changes *budgetChanges) []fwk.NodeInfo {
	var out []fwk.NodeInfo
	for _, info := range infos {
		if slices.ContainsFunc(info.GetPods(), func(pi fwk.PodInfo) bool {
			pod := pi.GetPod()
			key, ok := gang.GroupOf(pod)
			return ok && regrouped.Has(key) || changes.concern(pod)
		}) {
			out = append(out, info)
		}
	}
	return out
}

// setNode hands a node and what runs on it to the core.
func (m *mirror) setNode(info fwk.NodeInfo, groups map[types.NamespacedName]*core.Group) error {
	room, used := info.GetAllocatable(), info.GetRequested()
	state := core.NodeState{Node: core.Node{
		Name: info.Node().Name, Ref: info,
		Allocatable: m.dimensions.amounts(room, room.GetAllowedPodNumber()),
		Free:        m.dimensions.amounts(used, len(info.GetPods())),
	}}
	for r, v := range state.Free {
		state.Free[r] = state.Allocatable[r] - v
	}
	for _, pi := range info.GetPods() {
		pod := pi.GetPod()
		cp := core.Pod{
			Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID),
			Request: m.dimensions.amounts(pi.CalculateResource().Resource, 1), Start: nanos(startOf(pod)), Ref: pi,
		}
		if m.facts.isLeaving(pod) {
			state.Leaving = append(state.Leaving, cp)
			continue
		}
		cp.Budgets = m.budgets.of(pod)
		state.Pods = append(state.Pods, m.running(cp, pod, groups))
	}
	return m.cluster.SetNode(&state)
}

// running makes a pod part of its unit.
func (m *mirror) running(cp core.Pod, pod *corev1.Pod, groups map[types.NamespacedName]*core.Group) core.RunningPod {
	rp := core.RunningPod{Pod: cp, Priority: ownPriority(pod), Running: pod.Status.Phase == corev1.PodRunning}
	if key, ok := m.facts.memberOf(pod); ok {
		g, known := groups[key]
		if !known {
			if found, ok := m.facts.groupOf(key); ok {
				g = &found
				g.Tenure = m.tenure(g.Tenure)
			}
			groups[key] = g
		}
		rp.Group = g
	}
	if rp.Group == nil {
		rp.Toleration = m.facts.tolerates(pod)
		rp.Since = nanos(preemptiontoleration.ScheduledAt(pod))
		if q := m.facts.queueOf(pod); q != "" {
			rp.Tenure = m.tenure(&core.Tenure{Queue: q})
		}
	}
	return rp
}

// tenure shares equal tenures.
func (m *mirror) tenure(t *core.Tenure) *core.Tenure {
	if t == nil {
		return nil
	}
	if known, ok := m.tenures[*t]; ok {
		return known
	}
	m.tenures[*t] = t
	return t
}

// nodeOf is what the framework knows a node of the core's snapshot by; nil for an empty slot.
func nodeOf(n *core.Node) fwk.NodeInfo {
	info, _ := n.Ref.(fwk.NodeInfo)
	return info
}

// podOf is what the framework knows a pod of the core's snapshot by.
func podOf(p *core.Pod) fwk.PodInfo {
	pi, _ := p.Ref.(fwk.PodInfo)
	return pi
}

func startOf(pod *corev1.Pod) time.Time {
	if pod.Status.StartTime == nil {
		return time.Time{}
	}
	return pod.Status.StartTime.Time
}

// nanos is the core's form of a time; zero stays zero. What comes later than can be counted comes never.
func nanos(t time.Time) int64 {
	switch {
	case t.IsZero():
		return 0
	case t.After(time.Unix(0, math.MaxInt64)):
		return core.Forever
	default:
		return t.UnixNano()
	}
}
