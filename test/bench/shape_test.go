package bench

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/core"
)

const (
	namespace = "default"
	gpu       = corev1.ResourceName("nvidia.com/gpu")
	// poolLabel is a node label. Every second node has the value "even", and the other nodes have
	// the value "odd".
	poolLabel = "example.com/pool"
	// ours is the name of the profile with Reprieve.
	ours = "reprieve"
	// urgent is the priority of the preemptor. All running pods have lower priorities.
	urgent = 1000
)

// amounts is the request of a pod, or the capacity of a node.
type amounts struct{ milliCPU, gibibytes, gpus int64 }

// shape describes a full cluster, and a preemptor that fits only after an eviction. It can be
// converted to API objects and to the types of the core.
type shape struct {
	nodes int
	node  amounts
	// perNode is the number of pods on each node. running is the request of each pod.
	perNode int
	running amounts
	// priority returns the priority of pod i on node n.
	priority func(n, i int) int32
	// group returns the number of the PodGroup that pod i on node n belongs to. PodGroups are
	// evicted as a whole. group is nil if no pod has a PodGroup.
	group func(n, i int) int
	// tenure returns the membership of pod i on node n in a queue. It is nil if the cluster has no
	// queues.
	tenure func(n, i int) *core.QueueMembership
	// gang is the number of members of the preempting gang; 0 if the preemptor is a single pod.
	gang   int
	member amounts
	// constrained is true if the members must run on different nodes, and only on every second
	// node. The core needs an oracle to check this.
	constrained bool
	// rule adds another constraint to a member. It is nil if there is no such constraint.
	rule func(*corev1.Pod)
}

func (s *shape) pods() int { return s.nodes * s.perNode }

// podShape returns a shape whose preemptor is a single pod. Each node runs 30 pods, and the
// preemptor needs the room of four of them.
func podShape(nodes int) shape {
	return shape{
		nodes: nodes, node: amounts{30_000, 128, 0},
		perNode: 30, running: amounts{1000, 2, 0},
		priority: func(n, i int) int32 { return int32((n*7919 + i*104729) % 1000003 % 50) },
		member:   amounts{4000, 8, 0},
	}
}

// gangShape returns a shape with a gang of one member per ten nodes. Each member needs a whole
// node. The nodes are full of pods with one GPU each.
func gangShape(nodes int) shape {
	return shape{
		nodes: nodes, node: amounts{64_000, 512, 8},
		perNode: 8, running: amounts{1000, 4, 1},
		priority: func(int, int) int32 { return 10 },
		gang:     nodes / 10, member: amounts{8000, 32, 8},
	}
}

// constrainedShape returns a gangShape whose members must run on different nodes, and only on every
// second node.
func constrainedShape(nodes int) shape {
	s := gangShape(nodes)
	s.constrained = true
	return s
}

// ruledShape returns a gangShape with an additional constraint on each member.
func ruledShape(nodes int, rule func(*corev1.Pod)) shape {
	s := gangShape(nodes)
	s.rule = rule
	return s
}

// memberRules returns hard constraints between the members of a gang. Each function adds a
// constraint to a member.
func memberRules() map[string]func(*corev1.Pod) {
	return map[string]func(*corev1.Pod){"one per host": oneAHost, "in one zone": inOneZone, "over zones": overZones}
}

func oneAHost(pod *corev1.Pod) {
	pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: toMembers(pod, corev1.LabelHostname)}}
}

func inOneZone(pod *corev1.Pod) {
	pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: toMembers(pod, corev1.LabelTopologyZone)}}
}

func overZones(pod *corev1.Pod) {
	pod.Labels["app"] = "urgent"
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "urgent"}},
	}}
}

// toMembers labels a member, and returns an affinity term that selects all members of the gang.
func toMembers(pod *corev1.Pod, key string) []corev1.PodAffinityTerm {
	pod.Labels["app"] = "urgent"
	return []corev1.PodAffinityTerm{{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "urgent"}}}}
}

// groupShape returns a shape with a gang that preempts PodGroups of 64 pods. Each PodGroup is
// evicted as a whole. Its pods are distributed randomly over the nodes.
func groupShape(nodes, members int, gpus int64) shape {
	s := gangShape(nodes)
	groups, of := max(s.pods()/64, 1), rand.New(rand.NewPCG(1, 2)).Perm(s.pods())
	s.group = func(n, i int) int { return of[n*s.perNode+i] % groups }
	s.priority = func(n, i int) int32 { return int32(10 + s.group(n, i)%5) }
	s.gang, s.member = members, amounts{1000, 4, gpus}
	return s
}

// contestShape returns a shape with a gang that has a member for each node. The gang needs half of
// the room in the cluster. Each node runs four pods.
func contestShape(nodes int) shape {
	return shape{
		nodes: nodes, node: amounts{4000, 32, 0},
		perNode: 4, running: amounts{1000, 2, 0},
		priority: func(n, i int) int32 { return int32(n*13+i*7) % 50 },
		gang:     nodes, member: amounts{2000, 4, 0},
	}
}

func (a amounts) list() corev1.ResourceList {
	out := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(a.milliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(a.gibibytes<<30, resource.BinarySI),
	}
	if a.gpus > 0 {
		out[gpu] = *resource.NewQuantity(a.gpus, resource.DecimalSI)
	}
	return out
}

func nodeName(n int) string   { return fmt.Sprintf("node-%05d", n) }
func podName(n, i int) string { return fmt.Sprintf("pod-%05d-%02d", n, i) }
func groupName(g int) string  { return fmt.Sprintf("job-%04d", g) }
func memberName(i int) string { return fmt.Sprintf("urgent-%04d", i) }

// uidOf derives a UID from a name. Equal names have equal UIDs.
func uidOf(name string) string {
	h := fnv.New128a()
	h.Write([]byte(name))
	raw := h.Sum(nil)
	return fmt.Sprintf("%x-%x-4%x-8%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
}

func pool(n int) string { return [...]string{"even", "odd"}[n%2] }

// started returns the start time of pod i on node n. The start times are within a quarter of an
// hour.
func started(n, i int) time.Time {
	return time.Unix(1_800_000_000+int64((n*31+i*17)%1000), 0)
}

// newNode returns node n with the given capacity.
func newNode(n int, size amounts) *corev1.Node {
	list := size.list()
	list[corev1.ResourcePods] = *resource.NewQuantity(110, resource.DecimalSI)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName(n), Labels: map[string]string{
			corev1.LabelHostname: nodeName(n), poolLabel: pool(n), corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", n%3),
		}},
		Status: corev1.NodeStatus{Capacity: list, Allocatable: list},
	}
}

func newPod(name string, a amounts, priority int32) *corev1.Pod {
	list := a.list()
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(uidOf(name)), Labels: map[string]string{"app": "work"},
		},
		Spec: corev1.PodSpec{
			SchedulerName: ours, Priority: &priority,
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example.com/work:1",
				Resources: corev1.ResourceRequirements{Requests: list, Limits: list},
			}},
		},
	}
}

// newRunning returns running pod i on node n.
func newRunning(n, i int, a amounts, priority int32) *corev1.Pod {
	pod := newPod(podName(n, i), a, priority)
	pod.Spec.NodeName = nodeName(n)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.StartTime = &metav1.Time{Time: started(n, i)}
	return pod
}

// newMember returns a pending pod: member i of the gang, or the single preemptor.
func newMember(i int, a amounts) *corev1.Pod {
	pod := newPod(memberName(i), a, urgent)
	pod.Status.Phase = corev1.PodPending
	return pod
}

// apart adds constraints to a pod: it must run on a node of the even pool, and no two pods with
// these constraints may share a node.
func apart(pod *corev1.Pod) {
	pod.Spec.NodeSelector = map[string]string{poolLabel: pool(0)}
	oneAHost(pod)
}

// scene converts the shape to API objects.
func (s *shape) scene() *scene {
	sc := &scene{}
	jobs := make(map[int]*schedulingv1beta1.PodGroup)
	for n := range s.nodes {
		sc.addNode(s.node)
		for i := range s.perNode {
			pod := sc.addPod(n, s.running, s.priority(n, i))
			if s.group == nil {
				continue
			}
			g := s.group(n, i)
			if jobs[g] == nil {
				jobs[g] = sc.addGroup(groupName(g), *pod.Spec.Priority)
			}
			join(pod, jobs[g])
		}
	}
	if s.gang > 0 {
		sc.addGang(s.gang, s.gang, s.member)
	} else {
		sc.pending = append(sc.pending, newMember(0, s.member))
	}
	for _, pod := range sc.pending {
		if s.constrained {
			apart(pod)
		}
		if s.rule != nil {
			s.rule(pod)
		}
	}
	return sc
}

func gangKey() types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: "urgent"}
}

func (a amounts) vector(pods int64) core.Amounts {
	return core.Amounts{a.milliCPU, a.gibibytes << 30, a.gpus, pods}
}

// cluster converts the shape to a cluster of the core.
func (s *shape) cluster() (*core.Cluster, error) {
	c := core.NewCluster([]string{"cpu", "memory", string(gpu), "pods"})
	known := make(map[int]*core.Group)
	for n := range s.nodes {
		st := &core.NodeState{Node: core.Node{Name: nodeName(n), Allocatable: s.node.vector(110), Free: s.node.vector(110)}}
		for i := range s.perNode {
			name := podName(n, i)
			rp := core.RunningPod{Priority: s.priority(n, i), Pod: core.Pod{
				Namespace: namespace, Name: name, UID: uidOf(name), Request: s.running.vector(1), Start: started(n, i).UnixNano(),
			}}
			if s.tenure != nil {
				rp.Membership, rp.Since = s.tenure(n, i), started(n, i).UnixNano()
			}
			if s.group != nil {
				g := s.group(n, i)
				if known[g] == nil {
					known[g] = &core.Group{Namespace: namespace, Name: groupName(g), UID: uidOf(groupName(g)), Priority: rp.Priority, Whole: true}
				}
				rp.Group = known[g]
			}
			for r, v := range rp.Request {
				st.Free[r] -= v
			}
			st.Pods = append(st.Pods, rp)
		}
		if err := c.SetNode(st); err != nil {
			return nil, err
		}
	}
	c.Snapshot()
	return c, nil
}

// preemptor returns the preemptor of the shape in the type of the core.
func (s *shape) preemptor() *core.Preemptor {
	p := &core.Preemptor{Namespace: namespace, Name: memberName(0), UID: uidOf(memberName(0)), Priority: urgent, MinCount: max(s.gang, 1)}
	if s.gang > 0 {
		p.Gang, p.Name, p.UID, p.PodGroup = true, gangKey().Name, uidOf(gangKey().Name), uidOf(gangKey().Name)
	}
	class := core.Class{Request: s.member.vector(1)}
	for i := range p.MinCount {
		class.Members = append(class.Members, core.Member{Name: memberName(i), UID: uidOf(memberName(i)), Rank: i})
	}
	p.Classes = []core.Class{class}
	return p
}

// oracle returns the oracle for a constrained gang, or nil for other gangs.
func (s *shape) oracle() core.Oracle {
	if !s.constrained {
		return nil
	}
	return &hostSpread{placed: make([]int, s.nodes)}
}

// hostSpread is an oracle for members that must run on different nodes, and only on every second
// node. placed has the number of placed members on each node.
type hostSpread struct {
	core.Arithmetic
	placed []int
}

// Stateful implements core.Oracle: every class is stateful.
func (*hostSpread) Stateful(int) bool { return true }

// Fits reports whether the node has no placed member.
func (h *hostSpread) Fits(_, node int) bool { return h.placed[node] == 0 }

// Place records that a member is placed on a node.
func (h *hostSpread) Place(_, node int) { h.placed[node]++ }

// Unplace reverts Place.
func (h *hostSpread) Unplace(_, node int) { h.placed[node]-- }

// Admits returns a reason to reject the node if its index is odd, and "" otherwise.
func (*hostSpread) Admits(_, node int) string {
	if node%2 == 1 {
		return "didn't match the node selector"
	}
	return ""
}

// victimsOf returns the number of pods in the victims of a decision.
func victimsOf(d *core.Decision) int {
	count := 0
	for i := range d.Victims {
		count += len(d.Victims[i].Pods)
	}
	return count
}
