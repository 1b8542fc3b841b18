package parity

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// cluster is a generated test case: nodes, running pods, PodDisruptionBudgets, nominated pods,
// persistent volume claims, and the preemptor. Each claim may be used by one pod at a time.
type cluster struct {
	nodes     []*corev1.Node
	running   []*corev1.Pod
	nominated []*corev1.Pod
	budgets   []*policyv1.PodDisruptionBudget
	claims    []*corev1.PersistentVolumeClaim
	preemptor *corev1.Pod
}

// objects returns all API objects of the case.
func (c *cluster) objects() []runtime.Object {
	var out []runtime.Object
	for _, n := range c.nodes {
		out = append(out, n)
	}
	for _, p := range append(append([]*corev1.Pod{c.preemptor}, c.running...), c.nominated...) {
		out = append(out, p)
	}
	for _, b := range c.budgets {
		out = append(out, b)
	}
	for _, claim := range c.claims {
		out = append(out, claim)
	}
	return out
}

// afterNominated returns a copy of the case. In the copy, the nominated pods with at least the
// preemptor's priority run on their nominated nodes.
func (c *cluster) afterNominated() *cluster {
	after := *c
	after.running, after.nominated = slices.Clone(c.running), nil
	for _, pod := range c.nominated {
		if *pod.Spec.Priority < *c.preemptor.Spec.Priority {
			after.nominated = append(after.nominated, pod)
			continue
		}
		pod = pod.DeepCopy()
		pod.Spec.NodeName = pod.Status.NominatedNodeName
		pod.Status.StartTime = &metav1.Time{Time: epoch}
		after.running = append(after.running, pod)
	}
	return &after
}

const (
	namespace = "default"
	gpu       = corev1.ResourceName("example.com/gpu")
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// generate returns the case for a seed: a small cluster. The values are chosen so that each filter
// matters in many cases.
func generate(seed uint64) *cluster {
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	c := &cluster{}
	for i := range 2 + r.IntN(6) {
		c.nodes = append(c.nodes, generateNode(r, i))
	}
	ports := make(map[string]bool)
	for i := range len(c.nodes) * (2 + r.IntN(5)) {
		pod := generatePod(r, fmt.Sprintf("run-%03d", i))
		pod.Spec.NodeName = c.nodes[r.IntN(len(c.nodes))].Name
		for _, p := range pod.Spec.Containers[0].Ports {
			// Each host port of a node is used by at most one pod. Upstream's record of used ports
			// requires this.
			if key := fmt.Sprintf("%s:%d", pod.Spec.NodeName, p.HostPort); ports[key] {
				pod.Spec.Containers[0].Ports = nil
			} else {
				ports[key] = true
			}
		}
		pod.Status.StartTime = &metav1.Time{Time: epoch.Add(time.Duration(r.IntN(1000)) * time.Second)}
		pod.Spec.Priority = ptr.To(int32(r.IntN(6) * 10))
		c.running = append(c.running, pod)
	}
	for i := range r.IntN(3) {
		pod := generatePod(r, fmt.Sprintf("nom-%d", i))
		pod.Status.NominatedNodeName = c.nodes[r.IntN(len(c.nodes))].Name
		pod.Spec.Priority = ptr.To(int32(r.IntN(8) * 10))
		c.nominated = append(c.nominated, pod)
	}
	for i := range r.IntN(4) {
		c.budgets = append(c.budgets, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("budget-%d", i)},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app(r)}}},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: int32(r.IntN(3))},
		})
	}
	c.preemptor = generatePod(r, "preemptor")
	c.preemptor.Spec.Priority = ptr.To(int32(20 + r.IntN(5)*10))
	constrain(r, c.preemptor)
	c.generateClaims(r)
	return c
}

// generateClaims adds persistent volume claims that one pod may use at a time. At most one running
// pod uses each claim.
func (c *cluster) generateClaims(r *rand.Rand) {
	for i := range r.IntN(3) {
		name := fmt.Sprintf("claim-%d", i)
		c.claims = append(c.claims, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}},
		})
		use := func(pod *corev1.Pod) {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}})
		}
		use(c.running[r.IntN(len(c.running))])
		if r.IntN(2) == 0 {
			use(c.preemptor)
		}
	}
}

func app(r *rand.Rand) string { return string(rune('a' + r.IntN(4))) }

func generateNode(r *rand.Rand, i int) *corev1.Node {
	name := fmt.Sprintf("node-%d", i)
	size := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(2+r.IntN(7))*1000, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(2+r.IntN(15))<<30, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(int64(3+r.IntN(10)), resource.DecimalSI),
	}
	if r.IntN(2) == 0 {
		size[gpu] = *resource.NewQuantity(int64(1+r.IntN(4)), resource.DecimalSI)
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", r.IntN(3)),
		}},
		Status: corev1.NodeStatus{Capacity: size, Allocatable: size},
	}
	if r.IntN(6) == 0 {
		node.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
	}
	node.Spec.Unschedulable = r.IntN(15) == 0
	return node
}

func generatePod(r *rand.Rand, name string) *corev1.Pod {
	requests := corev1.ResourceList{}
	if r.IntN(8) > 0 {
		requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(1+r.IntN(8))*500, resource.DecimalSI)
	}
	if r.IntN(4) > 0 {
		requests[corev1.ResourceMemory] = *resource.NewQuantity(int64(1+r.IntN(6))<<30, resource.BinarySI)
	}
	if r.IntN(4) == 0 {
		requests[gpu] = *resource.NewQuantity(int64(1+r.IntN(2)), resource.DecimalSI)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(name), Labels: map[string]string{"app": app(r)},
		},
		Spec: corev1.PodSpec{
			SchedulerName: profileName,
			Containers: []corev1.Container{{
				Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: requests, Limits: requests},
			}},
		},
	}
	if r.IntN(10) == 0 {
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: int32(8000 + r.IntN(2)), Protocol: corev1.ProtocolTCP}}
	}
	if r.IntN(10) == 0 {
		pod.Spec.Affinity = antiAffinity(app(r), corev1.LabelHostname)
	}
	addRequests(r, pod)
	return pod
}

// addRequests adds an overhead or init containers to some pods, so that these pods request more
// than their containers. Init containers may end before the containers start, or run beside them.
func addRequests(r *rand.Rand, pod *corev1.Pod) {
	some := func() corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(int64(1+r.IntN(6))*500, resource.DecimalSI)}
	}
	if r.IntN(8) == 0 {
		pod.Spec.Overhead = some()
	}
	for i := range r.IntN(10) - 7 {
		init := corev1.Container{Name: fmt.Sprintf("init-%d", i), Image: "i", Resources: corev1.ResourceRequirements{Requests: some()}}
		if r.IntN(2) == 0 {
			init.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, init)
	}
}

// constrain adds constraints to the preemptor, such as affinity, that filters check.
func constrain(r *rand.Rand, pod *corev1.Pod) {
	switch r.IntN(8) {
	case 0:
		pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", r.IntN(3))}
	case 1:
		pod.Spec.Affinity = antiAffinity(app(r), corev1.LabelTopologyZone)
	case 2:
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term(app(r), corev1.LabelTopologyZone)},
		}}
	case 3:
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: int32(1 + r.IntN(3)), TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}},
		}}
	}
	if r.IntN(3) == 0 {
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	}
}

func term(app, key string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
}

func antiAffinity(app, key string) *corev1.Affinity {
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term(app, key)},
	}}
}
