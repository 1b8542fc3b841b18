package queue

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// roomy returns a node that also lists 9 pod slots.
func roomy(name string, v int64, change ...func(*corev1.Node)) *corev1.Node {
	n := node(name, v, change...)
	n.Status.Allocatable[corev1.ResourcePods] = *resource.NewQuantity(9, resource.DecimalSI)
	return n
}

func repelling(p *corev1.Pod, namespaces ...string) *corev1.Pod {
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone", Namespaces: namespaces}},
	}}
	return p
}

// none reports for each resource that no device class maps it.
func none(corev1.ResourceName) bool { return false }

// several charges n pods to a queue. Each pod requests a number of GPUs.
func several(b *Ledger, queue string, n int, gpus int64) {
	for i := range n {
		b.Charge(pod(fmt.Sprintf("%s%d-%d", queue, gpus, i), gpus, ""), queue)
	}
}

func with(p *corev1.Pod, change func(*corev1.PodSpec)) *corev1.Pod {
	change(&p.Spec)
	return p
}

// TestPlenty checks the result of Plenty for two queues: a, with a limit of 12 GPUs, and b. There
// are two nodes with 8 GPUs each.
func TestPlenty(t *testing.T) {
	for name, tc := range map[string]struct {
		waits func(*Ledger)
		// a and b are the expected results of Plenty for the queues a and b.
		a, b bool
	}{
		"nothing waits":            {waits: func(*Ledger) {}, a: true, b: true},
		"as many as there is room": {waits: func(b *Ledger) { several(b, "b", 8, 2) }, a: true, b: true},
		"one more":                 {waits: func(b *Ledger) { several(b, "b", 9, 2) }},
		"there would be room, but not in any order": {waits: func(b *Ledger) {
			several(b, "b", 3, 4)
			several(b, "b", 2, 2)
		}},
		"what would take too much of one limit": {waits: func(b *Ledger) { several(b, "a", 4, 4) }, b: true},
		"as much as the limit":                  {waits: func(b *Ledger) { several(b, "a", 3, 4) }, a: true, b: true},
		"beside what runs": {waits: func(b *Ledger) {
			b.Charge(pod("a1", 8, "n"), "a")
			several(b, "b", 4, 2)
			several(b, "a", 1, 2)
		}},
		"what is on its way out is there still": {waits: func(b *Ledger) {
			p := pod("a1", 8, "n")
			p.DeletionTimestamp = &metav1.Time{}
			b.Charge(p, "a")
			several(b, "b", 5, 2)
		}},
		"others take room as well":       {waits: func(b *Ledger) { several(b, "", 8, 2); several(b, "b", 1, 2) }},
		"others that no node ever takes": {waits: func(b *Ledger) { several(b, "", 1, 9); several(b, "b", 8, 2) }, a: true, b: true},
		"one of a queue that no node ever takes": {waits: func(b *Ledger) {
			several(b, "b", 1, 9)
			several(b, "b", 8, 2)
		}, a: true, b: true},
		"on nodes that match only": {waits: func(b *Ledger) {
			b.SetNode(roomy("m", 8, func(n *corev1.Node) { n.Labels = map[string]string{"zone": "here"} }))
			for i := range 5 {
				b.Charge(selecting(pod(fmt.Sprintf("b%d", i), 2, ""), "zone", "here"), "b")
			}
		}},
		"others may come there": {waits: func(b *Ledger) {
			b.SetNode(roomy("m", 8, func(n *corev1.Node) { n.Labels = map[string]string{"zone": "here"} }))
			for i := range 3 {
				b.Charge(selecting(pod(fmt.Sprintf("b%d", i), 2, ""), "zone", "here"), "b")
			}
			several(b, "b", 2, 2)
		}},
		"few enough others": {waits: func(b *Ledger) {
			b.SetNode(roomy("m", 8, func(n *corev1.Node) { n.Labels = map[string]string{"zone": "here"} }))
			for i := range 3 {
				b.Charge(selecting(pod(fmt.Sprintf("b%d", i), 2, ""), "zone", "here"), "b")
			}
			several(b, "b", 1, 2)
		}, a: true, b: true},
		"others that do not tolerate the node": {waits: func(b *Ledger) {
			b.SetNode(roomy("m", 8, tainted))
			for i := range 4 {
				p := pod(fmt.Sprintf("b%d", i), 4, "")
				p.Spec.Tolerations = []corev1.Toleration{{Key: "kept", Operator: corev1.TolerationOpExists}}
				b.Charge(p, "b")
			}
		}, a: true, b: true},
		"on nodes that it does not tolerate": {waits: func(b *Ledger) {
			b.SetNode(roomy("m", 8, tainted))
			several(b, "b", 5, 2)
		}},
		"what runs has grown since": {waits: func(b *Ledger) {
			b.Charge(pod("a1", 1, "n"), "a")
			several(b, "b", 4, 2)
			b.Judge(none)
			b.Charge(pod("a1", 8, "n"), "a")
			b.Charge(pod("a2", 2, ""), "a")
		}},
		"something runs that nothing has scheduled": {waits: func(b *Ledger) {
			several(b, "b", 4, 2)
			b.Judge(none)
			b.Charge(pod("x", 8, "n"), "")
			several(b, "a", 1, 2)
		}},
		"a member runs whose group was held": {waits: func(b *Ledger) {
			b.ChargeMember(pod("g1", 8, ""), "a", Membership{Group: crowdGroup})
			several(b, "b", 4, 2)
			b.Judge(none)
			b.ChargeMember(pod("g1", 8, "n"), "a", Membership{Group: crowdGroup})
			several(b, "b", 5, 2)
		}},
		"it runs on a node that was not counted for it": {waits: func(b *Ledger) {
			b.Charge(pod("b8", 8, ""), "b")
			b.SetNode(roomy("m", 8, tainted))
			b.SetNode(roomy("n", 80))
			for i := range 3 {
				p := pod(fmt.Sprintf("b%d", i), 2, "")
				p.Spec.Tolerations = []corev1.Toleration{{Key: "kept", Operator: corev1.TolerationOpExists}}
				b.Charge(selecting(p, "zone", "here"), "b")
			}
			b.SetNode(roomy("m", 8, tainted, func(n *corev1.Node) { n.Labels = map[string]string{"zone": "here"} }))
			b.Judge(none)
			b.Charge(pod("b8", 8, "m"), "b")
		}},
		"others of many sorts, each for some nodes": {waits: func(b *Ledger) {
			large := roomy("m", 800)
			large.Status.Allocatable[corev1.ResourcePods] = *resource.NewQuantity(400, resource.DecimalSI)
			large.Labels = make(map[string]string)
			for i := range 70 {
				large.Labels[fmt.Sprint("l", i)] = "there"
				b.Charge(selecting(pod(fmt.Sprintf("x%d", i), 0, ""), fmt.Sprint("l", i), "there"), "")
			}
			b.SetNode(large)
			several(b, "b", 8, 2)
		}, a: true, b: true},
		"a node has become smaller": {waits: func(b *Ledger) {
			several(b, "b", 8, 2)
			b.Judge(none)
			b.SetNode(roomy("m", 6))
			b.Snapshot(gpus)
		}},
		"a closed node": {waits: func(b *Ledger) {
			b.SetClosedNode(roomy("m", 8))
			several(b, "b", 5, 2)
		}},
		"a port of the node": {waits: func(b *Ledger) {
			b.Charge(with(pod("b1", 1, ""), func(s *corev1.PodSpec) { s.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} }), "b")
		}},
		"a mount that not every kubelet can do": {waits: func(b *Ledger) {
			b.Charge(with(pod("b1", 1, ""), func(s *corev1.PodSpec) {
				s.Containers[0].VolumeMounts = []corev1.VolumeMount{{BindMountOptions: []string{"noexec"}}}
			}), "b")
		}},
		"a volume": {waits: func(b *Ledger) {
			b.Charge(with(pod("b1", 1, ""), func(s *corev1.PodSpec) {
				s.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}}}
			}), "b")
		}},
		"a volume that is on any node": {waits: func(b *Ledger) {
			b.Charge(with(pod("b1", 1, ""), func(s *corev1.PodSpec) {
				s.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			}), "b")
		}, a: true, b: true},
		"devices": {waits: func(b *Ledger) {
			b.Charge(with(pod("b1", 1, ""), func(s *corev1.PodSpec) { s.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}} }), "b")
		}},
		"devices by the name of a resource": {waits: func(b *Ledger) {
			b.Charge(with(pod("b1", 1, ""), func(s *corev1.PodSpec) { s.Containers[0].Resources.Requests["example.com/dev"] = list(1)[gpu] }), "b")
		}},
		"it is to be spread": {waits: func(b *Ledger) {
			b.Charge(with(pod("b1", 1, ""), func(s *corev1.PodSpec) {
				s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{WhenUnsatisfiable: corev1.DoNotSchedule}}
			}), "b")
		}},
		"it should be spread": {waits: func(b *Ledger) {
			b.Charge(with(pod("b1", 1, ""), func(s *corev1.PodSpec) {
				s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{WhenUnsatisfiable: corev1.ScheduleAnyway}}
			}), "b")
		}, a: true, b: true},
		"others keep it off": {waits: func(b *Ledger) {
			b.Charge(repelling(pod("x", 0, "n")), "")
			several(b, "b", 1, 1)
		}},
		"others keep it off from another namespace": {waits: func(b *Ledger) {
			b.Charge(repelling(pod("x", 0, "n"), "elsewhere", "ns"), "")
			several(b, "b", 1, 1)
		}},
		"others keep off what is elsewhere": {waits: func(b *Ledger) {
			b.Charge(repelling(pod("x", 0, "n"), "elsewhere"), "")
			several(b, "b", 1, 1)
		}, a: true, b: true},
		"what kept it off has gone": {waits: func(b *Ledger) {
			b.Charge(repelling(pod("x", 0, "n")), "")
			several(b, "b", 1, 1)
			b.Judge(none)
			b.Forget("x")
		}, a: true, b: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := boardOf(queueUnder("a", "", limit(12)), queueUnder("b", ""))
			b.SetNode(roomy("n", 8))
			b.SetNode(roomy("m", 8))
			tc.waits(b)
			b.Judge(none)
			if a, ofB := b.Plenty("a"), b.Plenty("b"); a != tc.a || ofB != tc.b {
				t.Errorf("plenty of room for a: %v, want %v; for b: %v, want %v", a, tc.a, ofB, tc.b)
			}
		})
	}
}

// TestPlentyOfMapped checks that there is no plenty for a resource that nodes may have without
// listing it.
func TestPlentyOfMapped(t *testing.T) {
	mapped := func(name corev1.ResourceName) bool { return name == gpu }
	for name, tc := range map[string]struct {
		of string
		// former is true if there was plenty before a device class mapped the resource. The pod
		// that requested the resource earlier was deleted.
		former bool
	}{
		"one of a queue":         {of: "b"},
		"one of none":            {of: ""},
		"another one of a queue": {of: "b", former: true},
		"another one of none":    {of: "", former: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := boardOf(queueUnder("b", ""))
			b.SetNode(roomy("n", 8))
			b.Charge(pod("b1", 0, ""), "b")
			b.Charge(pod("x", 1, ""), tc.of)
			if tc.former {
				if !b.Judge(none) {
					t.Fatal("there is not plenty of what nodes list")
				}
				b.Forget("x")
				b.Charge(pod("s", 0, "n"), "")
			}
			if b.Judge(mapped) != tc.former {
				t.Errorf("there is plenty: %v", !tc.former)
			}
			b.Charge(pod("y", 1, ""), tc.of)
			if b.Plenty("b") {
				t.Error("there is plenty of what may be elsewhere")
			}
		})
	}
}

// crowd is a random cluster, and a Ledger that receives all its changes.
type crowd struct {
	*Ledger
	pods  map[string]*corev1.Pod
	nodes map[string]*corev1.Node
	made  int
	// held is true while the members of the only group are held.
	held bool
}

var crowdGroup = types.NamespacedName{Namespace: "ns", Name: "g"}

// takes reports whether a node has room for a pod in addition to its other pods. It computes this
// without the Ledger.
func (c *crowd) takes(n *corev1.Node, p *corev1.Pod, pods map[string]*corev1.Pod) bool {
	if n.Spec.Unschedulable || len(n.Spec.Taints) > 0 && len(p.Spec.Tolerations) == 0 {
		return false
	}
	for label, v := range p.Spec.NodeSelector {
		if n.Labels[label] != v {
			return false
		}
	}
	free := AmountsOf(n.Status.Allocatable)
	for _, other := range pods {
		if other.Spec.NodeName == n.Name {
			free.add(RequestOf(other), -1)
		}
	}
	return covers(free, RequestOf(p))
}

func (c *crowd) takers(p *corev1.Pod, pods map[string]*corev1.Pod) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		if c.takes(c.nodes[name], p, pods) {
			out = append(out, name)
		}
	}
	return out
}

func (c *crowd) isHeld(p *corev1.Pod) bool { return c.held && p.Labels["group"] != "" }

func (c *crowd) waiting() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(c.pods)) {
		if c.pods[name].Spec.NodeName == "" {
			out = append(out, name)
		}
	}
	return out
}

func (c *crowd) charge(p *corev1.Pod) {
	if p.Labels["group"] == "" {
		c.Charge(p, p.Labels["queue"])
		return
	}
	c.ChargeMember(p, "a", Membership{Group: crowdGroup})
	c.SetGroupState(crowdGroup, GroupState{Held: c.held})
}

// nodeComes adds or changes a random node.
func (c *crowd) nodeComes(rt *rapid.T) {
	n := roomy(rapid.SampledFrom([]string{"n", "m", "o"}).Draw(rt, "name"), rapid.Int64Range(0, 8).Draw(rt, "gpus"))
	n.Status.Allocatable[corev1.ResourceCPU] = *resource.NewQuantity(2, resource.DecimalSI)
	n.Labels = map[string]string{"zone": rapid.SampledFrom([]string{"here", "there"}).Draw(rt, "zone")}
	if rapid.IntRange(0, 4).Draw(rt, "tainted") == 0 {
		tainted(n)
	}
	n.Spec.Unschedulable = rapid.IntRange(0, 6).Draw(rt, "closed") == 0
	c.nodes[n.Name] = n
	if n.Spec.Unschedulable {
		c.SetClosedNode(n)
	} else {
		c.SetNode(n)
	}
}

func (c *crowd) happen(rt *rapid.T) {
	waiting, all := c.waiting(), slices.Sorted(maps.Keys(c.pods))
	switch rapid.SampledFrom([]string{
		"comes", "comes", "comes", "comes", "comes", "comes", "bound", "bound", "bound", "bound", "resized", "started", "goes", "held", "terminates", "node", "node goes",
		"judged", "judged", "judged",
	}).Draw(rt, "event") {
	case "comes":
		c.made++
		p := pod(fmt.Sprint("p", c.made), rapid.Int64Range(1, 2).Draw(rt, "gpus"), "")
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(300*rapid.Int64Range(1, 2).Draw(rt, "cpu"), resource.DecimalSI)
		p.Labels = map[string]string{"queue": rapid.SampledFrom([]string{"a", "a", "b", ""}).Draw(rt, "queue")}
		if rapid.IntRange(0, 3).Draw(rt, "in a group") == 0 {
			p.Labels = map[string]string{"queue": "a", "group": "g"}
		}
		if rapid.IntRange(0, 3).Draw(rt, "selects") == 0 {
			selecting(p, "zone", "here")
		}
		if rapid.IntRange(0, 3).Draw(rt, "tolerates") == 0 {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "kept", Operator: corev1.TolerationOpExists}}
		}
		c.pods[p.Name] = p
		c.charge(p)
	case "bound":
		if len(waiting) == 0 {
			return
		}
		p := c.pods[rapid.SampledFrom(waiting).Draw(rt, "pod")]
		if c.isHeld(p) {
			return
		}
		if nodes := c.takers(p, c.pods); len(nodes) > 0 {
			bound := p.DeepCopy()
			bound.Spec.NodeName = rapid.SampledFrom(nodes).Draw(rt, "node")
			c.pods[p.Name] = bound
			c.charge(bound)
		}
	case "started", "resized":
		// A pod starts without a scheduler, or is resized in place.
		var p *corev1.Pod
		if c.made++; len(all) > 0 && rapid.Bool().Draw(rt, "resized") {
			p = c.pods[rapid.SampledFrom(all).Draw(rt, "pod")].DeepCopy()
		} else if len(c.nodes) > 0 {
			p = pod(fmt.Sprint("s", c.made), 0, rapid.SampledFrom(slices.Sorted(maps.Keys(c.nodes))).Draw(rt, "node"))
		}
		if p == nil || p.Spec.NodeName == "" {
			return
		}
		p.Spec.Containers[0].Resources.Requests = list(rapid.Int64Range(0, 4).Draw(rt, "gpus"))
		if pods := maps.Clone(c.pods); c.nodes[p.Spec.NodeName] != nil {
			delete(pods, p.Name)
			if c.takes(c.nodes[p.Spec.NodeName], p, pods) {
				c.pods[p.Name] = p
				c.charge(p)
			}
		}
	case "goes":
		if len(all) > 0 {
			name := rapid.SampledFrom(all).Draw(rt, "pod")
			delete(c.pods, name)
			c.Forget(types.UID(name))
		}
	case "terminates":
		if len(all) > 0 {
			if p := c.pods[rapid.SampledFrom(all).Draw(rt, "pod")].DeepCopy(); p.Spec.NodeName != "" {
				p.DeletionTimestamp = &metav1.Time{}
				c.pods[p.Name] = p
				c.charge(p)
			}
		}
	case "node":
		c.nodeComes(rt)
	case "node goes":
		if len(c.nodes) > 0 {
			name := rapid.SampledFrom(slices.Sorted(maps.Keys(c.nodes))).Draw(rt, "name")
			if !slices.ContainsFunc(all, func(pod string) bool { return c.pods[pod].Spec.NodeName == name }) {
				delete(c.nodes, name)
				c.DeleteNode(name)
			}
		}
	case "held":
		c.held = !c.held
		c.SetGroupState(crowdGroup, GroupState{Held: c.held})
	case "judged":
		c.Judge(none)
	}
}

// fill places all waiting pods in random order, each on a random node that accepts it.
func (c *crowd) fill(rt *rapid.T) {
	rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "order"), 0))
	pods, left := maps.Clone(c.pods), c.waiting()
	rnd.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
	for _, name := range left {
		p := pods[name]
		if c.isHeld(p) {
			continue
		}
		nodes := c.takers(p, pods)
		if len(nodes) > 0 {
			bound := p.DeepCopy()
			bound.Spec.NodeName = nodes[rnd.IntN(len(nodes))]
			pods[name] = bound
			continue
		}
		for _, n := range c.nodes {
			if p.Labels["queue"] != "" && c.takes(n, p, nil) {
				rt.Fatalf("no node takes %s any more, which %s could", name, n.Name)
			}
		}
	}
}

// TestPlentyIsEnough checks that all waiting pods find room while there is plenty, in any order and
// on any node that accepts them.
func TestPlentyIsEnough(t *testing.T) {
	plenty := 0
	rapid.Check(t, func(rt *rapid.T) {
		c := &crowd{Ledger: NewLedger(), pods: make(map[string]*corev1.Pod), nodes: make(map[string]*corev1.Node)}
		c.SetQueue(queueUnder("a", ""))
		c.SetQueue(queueUnder("b", ""))
		c.AllCharged()
		for range 3 {
			c.nodeComes(rt)
		}
		for range 80 {
			c.happen(rt)
			if c.Plenty("a") {
				plenty++
				c.fill(rt)
			}
		}
	})
	if plenty == 0 {
		t.Error("there never was plenty of room")
	}
}
