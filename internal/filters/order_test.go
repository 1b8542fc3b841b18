package filters

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// TestEveryMemberPasses places the members of a decision one by one and runs the filters for each,
// as a scheduling cycle does. For small infeasible cases, it tries all placements in all orders.
func TestEveryMemberPasses(t *testing.T) {
	t.Parallel()
	for i := range 30 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			rapid.Check(t, func(t *rapid.T) { playCase(t, w) })
		})
	}
}

// TestCompanyThatGoes has a member that must be next to a pod of some kind. There are two such
// pods. The first proposed node is next to a pod that may be evicted. The second pod is never
// evicted, so there is a solution.
func TestCompanyThatGoes(t *testing.T) {
	t.Parallel()
	racked := func(name, in string) *corev1.Node {
		n := node(name, "3")
		n.Labels[zone], n.Labels[rack] = "zone-0", in
		return n
	}
	role := func(p *corev1.Pod, role string) *corev1.Pod { return wrap(p).Label("role", role).Obj() }
	spread := func(p *corev1.Pod) *corev1.Pod {
		return wrap(role(p, "worker")).SpreadConstraint(2, zone, corev1.DoNotSchedule, st.MakeLabelSelector().Label("role", "worker").Obj(), ptr.To[int32](2), nil, nil, nil).Obj()
	}
	c := &drawnCase{
		nodes: []*corev1.Node{racked("node-0", "rack-1"), racked("node-1", "rack-0")},
		running: []*corev1.Pod{
			on(role(pod("r-0", "", "1", 0), "worker"), "node-0"), on(role(pod("r-1", "", "1", 5), "other"), "node-1"),
			on(role(pod("r-2", "", "1", 5), "driver"), "node-0"), on(role(pod("r-3", "", "1", 100), "driver"), "node-1"),
			on(role(pod("r-4", "", "1", 0), "worker"), "node-0"),
		},
		gang: []*corev1.Pod{
			wrap(role(pod("g-0", "g", "2", 10), "driver")).PodAffinityIn("role", rack, []string{"driver"}, st.PodAffinityWithRequiredReq).Obj(),
			spread(pod("g-1", "g", "1", 10)), spread(pod("g-2", "g", "1", 10)),
		},
	}
	if d := playDrawn(t, newWorld(t, nil), c); d.Outcome != core.Preempts {
		t.Errorf("%s: %s", d.Outcome, d.Message)
	}
}

// playCase decides one random case. If the decision has placements, it checks them. If the decision
// is Infeasible, it searches for a solution.
func playCase(t *rapid.T, w *world) {
	c := drawCase(t)
	if d := playDrawn(t, w, c); d.Outcome != core.Infeasible {
		return
	}
	s := &stage{world: w, t: t}
	defer s.clear()
	s.set(c.nodes, c.running)
	for _, pod := range c.running {
		if *pod.Spec.Priority < *c.gang[0].Spec.Priority {
			s.take(pod)
		}
	}
	if way := s.search(c.gang, nil); way != nil {
		t.Fatalf("infeasible, but there is a way: %v\n%s", way, c)
	}
}

// playDrawn decides one case and places the members of the decision.
func playDrawn(t rapid.TB, w *world, c *drawnCase) *core.Decision {
	s := &stage{world: w, t: t}
	defer s.clear()
	s.set(c.nodes, c.running)
	d := w.decide(c.gang...)
	if d.Outcome == core.Infeasible {
		return d
	}
	members := make(map[string]*corev1.Pod, len(c.gang))
	for _, pod := range c.gang {
		members[string(pod.UID)] = pod
	}
	for _, v := range d.Victims {
		for _, p := range v.Pods {
			s.take(c.running[slices.IndexFunc(c.running, func(r *corev1.Pod) bool { return string(r.UID) == p.UID })])
		}
	}
	for i, p := range d.Placements {
		if why := s.place(members[p.UID], p.Node); why != "" {
			t.Fatalf("placement %d of %v: %s\n%s", i, d.Placements, why, c)
		}
	}
	if len(d.Placements) != len(c.gang) {
		t.Fatalf("%d of %d members are placed", len(d.Placements), len(c.gang))
	}
	return d
}

// stage is a world whose nodes and pods change from case to case.
type stage struct {
	*world
	t     rapid.TB
	nodes []*corev1.Node
	pods  []*corev1.Pod
	tries int
}

func (s *stage) set(nodes []*corev1.Node, running []*corev1.Pod) {
	for _, n := range nodes {
		s.cache.AddNode(klog.Background(), n)
		s.nodes = append(s.nodes, n)
	}
	for _, p := range running {
		s.add(p)
	}
	s.level()
}

func (s *stage) add(pod *corev1.Pod) {
	if err := s.cache.AddPod(klog.Background(), pod); err != nil {
		s.t.Fatal(err)
	}
	s.pods = append(s.pods, pod)
}

func (s *stage) take(pod *corev1.Pod) {
	if err := s.cache.RemovePod(klog.Background(), pod); err != nil {
		s.t.Fatal(err)
	}
	s.pods = slices.DeleteFunc(s.pods, func(p *corev1.Pod) bool { return p.UID == pod.UID })
}

func (s *stage) clear() {
	for _, p := range slices.Clone(s.pods) {
		s.take(p)
	}
	for _, n := range s.nodes {
		if err := s.cache.RemoveNode(klog.Background(), n); err != nil {
			s.t.Fatal(err)
		}
	}
	s.level()
}

// place runs all filters for a pod on a node, as a scheduling cycle does. If they pass, it adds the
// pod to the node. Otherwise it returns the reason of the rejection.
func (s *stage) place(pod *corev1.Pod, node string) string {
	s.level()
	state := framework.NewCycleState()
	result, status, _ := s.profile.RunPreFilterPlugins(s.world.t.Context(), state, pod)
	if !status.IsSuccess() {
		return fmt.Sprintf("%s is turned away by %s: %s", pod.Name, status.Plugin(), status.Message())
	}
	if !result.AllNodes() && !result.NodeNames.Has(node) {
		return fmt.Sprintf("%s is confined to %v", pod.Name, result.NodeNames)
	}
	info, err := s.profile.SnapshotSharedLister().NodeInfos().Get(node)
	if err != nil {
		s.t.Fatal(err)
	}
	if status := s.profile.RunFilterPlugins(s.world.t.Context(), state, pod, info); !status.IsSuccess() {
		return fmt.Sprintf("%s is refused on %s by %s: %s", pod.Name, node, status.Plugin(), status.Message())
	}
	there := pod.DeepCopy()
	there.Spec.NodeName = node
	s.add(there)
	return ""
}

// search tries all placements in all orders, up to a maximum number of steps, and returns one that
// works; nil if there is none.
func (s *stage) search(left []*corev1.Pod, seen map[string]bool) []string {
	if len(left) == 0 {
		return []string{}
	}
	if seen == nil {
		seen = make(map[string]bool)
	}
	var here []string
	for _, p := range s.pods {
		here = append(here, p.Name+"@"+p.Spec.NodeName)
	}
	slices.Sort(here)
	key := strings.Join(here, " ")
	if s.tries++; seen[key] || s.tries > 600 {
		return nil
	}
	seen[key] = true
	tried := make(map[string]bool)
	for i, pod := range left {
		// Members of one role are equal, so try only one of them.
		if tried[pod.Labels["role"]] {
			continue
		}
		tried[pod.Labels["role"]] = true
		for _, n := range s.nodes {
			if s.place(pod, n.Name) != "" {
				continue
			}
			way := s.search(slices.Delete(slices.Clone(left), i, i+1), seen)
			s.take(s.pods[len(s.pods)-1])
			if way != nil {
				return append([]string{pod.Name + "@" + n.Name}, way...)
			}
		}
	}
	return nil
}

// drawnCase is a small cluster and a gang.
type drawnCase struct {
	nodes   []*corev1.Node
	running []*corev1.Pod
	gang    []*corev1.Pod
}

func (c *drawnCase) String() string {
	var out strings.Builder
	for _, n := range c.nodes {
		cpu := n.Status.Allocatable[corev1.ResourceCPU]
		fmt.Fprintf(&out, "%s %v %s cpu\n", n.Name, n.Labels, cpu.String())
	}
	for _, p := range slices.Concat(c.running, c.gang) {
		cpu := p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU]
		fmt.Fprintf(&out, "%s on %q, priority %d, %s cpu, %v, affinity %v, spread %v\n",
			p.Name, p.Spec.NodeName, *p.Spec.Priority, cpu.String(), p.Labels, p.Spec.Affinity, p.Spec.TopologySpreadConstraints)
	}
	return out.String()
}

const (
	zone = corev1.LabelTopologyZone
	rack = "rack"
)

// drawCase returns a random cluster and a gang. The nodes are in racks and zones, and some nodes
// are full. The gang has roles that depend on each other.
func drawCase(t *rapid.T) *drawnCase {
	c := &drawnCase{}
	pick := func(n int, what string) int { return rapid.IntRange(0, n-1).Draw(t, what) }
	zones := 1 + pick(3, "zones")
	for i := range 1 + pick(6, "nodes") {
		n := node(fmt.Sprintf("node-%d", i), fmt.Sprint(1+pick(4, "cpu")))
		if z := pick(zones*4, "zone"); z/4 < zones && pick(12, "labelled") > 0 {
			n.Labels[zone] = fmt.Sprintf("zone-%d", z/4)
			n.Labels[rack] = fmt.Sprintf("rack-%d-%d", z/4, z%2)
		}
		if pick(8, "taint") == 0 {
			n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
		}
		c.nodes = append(c.nodes, n)
	}
	used := make(map[string]int64)
	for i := range pick(10, "running") {
		n := c.nodes[pick(len(c.nodes), "on")]
		cpu := n.Status.Allocatable[corev1.ResourceCPU]
		p := on(pod(fmt.Sprintf("r-%d", i), "", "1", int32([]int{0, 5, 100}[pick(3, "priority")])), n.Name)
		if used[n.Name]++; used[n.Name] > cpu.Value() {
			continue
		}
		p.Labels = map[string]string{"role": []string{"worker", "driver", "other"}[pick(3, "role")]}
		if pick(6, "hostile") == 0 {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{drawTerm(pick)},
			}}
		}
		c.running = append(c.running, p)
	}
	roles := 1 + pick(2, "roles")
	var templates []*corev1.Pod
	for r := range roles {
		p := pod("", "g", fmt.Sprint(1+pick(2, "cpu")), 10)
		p.Labels["role"] = []string{"worker", "driver"}[r]
		drawRules(p, pick)
		templates = append(templates, p)
	}
	for i := range 1 + pick(6, "members") {
		r := 0
		if roles == 2 && pick(3, "role") == 0 {
			r = 1
		}
		p := templates[r].DeepCopy()
		c.gang = append(c.gang, wrap(p).Name(fmt.Sprintf("g-%d", i)).UID(fmt.Sprintf("uid-g-%d", i)).Obj())
	}
	return c
}

// drawRules adds random hard rules about other pods to a member.
func drawRules(p *corev1.Pod, pick func(int, string) int) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"role": p.Labels["role"]}}
	for range pick(3, "spreads") {
		c := corev1.TopologySpreadConstraint{
			MaxSkew: int32(1 + pick(2, "skew")), TopologyKey: []string{zone, rack, corev1.LabelHostname}[pick(3, "key")],
			WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector,
		}
		if pick(4, "minDomains") == 0 {
			c.MinDomains = ptr.To(int32(2))
		}
		if pick(4, "taints") == 0 {
			c.NodeTaintsPolicy = ptr.To(corev1.NodeInclusionPolicyHonor)
		}
		if pick(6, "group") == 0 {
			c.LabelSelector = &metav1.LabelSelector{}
		}
		if !slices.ContainsFunc(p.Spec.TopologySpreadConstraints, func(o corev1.TopologySpreadConstraint) bool { return o.TopologyKey == c.TopologyKey }) {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
		}
	}
	if n := pick(6, "affinity"); n > 0 {
		p.Spec.Affinity = &corev1.Affinity{}
		if n <= 3 {
			p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{drawTerm(pick)}}
		}
		if n >= 3 {
			p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{drawTerm(pick)}}
		}
	}
}

func drawTerm(pick func(int, string) int) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{
		TopologyKey:   []string{zone, rack, corev1.LabelHostname}[pick(3, "key")],
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": []string{"worker", "driver"}[pick(2, "of")]}},
	}
}
