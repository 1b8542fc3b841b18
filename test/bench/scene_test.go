package bench

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// scene has the API objects of a cluster, and a preemptor: a gang or a single pod.
type scene struct {
	nodes []*corev1.Node
	// running has the running pods by the index of their node.
	running [][]*corev1.Pod
	// groups has the PodGroups of running pods.
	groups  []*schedulingv1beta1.PodGroup
	budgets []*policyv1.PodDisruptionBudget
	// gang is the PodGroup of the pending pods; nil if the preemptor is a single pod.
	gang    *schedulingv1beta1.PodGroup
	pending []*corev1.Pod
}

// pods returns the number of running pods.
func (s *scene) pods() int {
	count := 0
	for _, pods := range s.running {
		count += len(pods)
	}
	return count
}

// addNode adds a node and returns its index.
func (s *scene) addNode(size amounts) int {
	s.nodes = append(s.nodes, newNode(len(s.nodes), size))
	s.running = append(s.running, nil)
	return len(s.nodes) - 1
}

// addPod adds a running pod to a node.
func (s *scene) addPod(n int, a amounts, priority int32) *corev1.Pod {
	pod := newRunning(n, len(s.running[n]), a, priority)
	s.running[n] = append(s.running[n], pod)
	return pod
}

// addGroup adds a PodGroup with a disruption mode that evicts all its pods together. The function
// join adds running pods to the PodGroup.
func (s *scene) addGroup(name string, priority int32) *schedulingv1beta1.PodGroup {
	group := newGroup(name, priority, 1)
	group.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
	s.groups = append(s.groups, group)
	return group
}

// addBudget adds a PodDisruptionBudget for the pods with the label app. The budget allows the given
// number of disruptions.
func (s *scene) addBudget(app string, allowed int32) {
	s.budgets = append(s.budgets, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app, UID: types.UID(uidOf(app))},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	})
}

// addGang makes a pending gang the preemptor of the scene.
func (s *scene) addGang(minCount, members int, a amounts) {
	s.gang = newGroup(gangKey().Name, urgent, minCount)
	for i := range members {
		pod := newMember(i, a)
		join(pod, s.gang)
		s.pending = append(s.pending, pod)
	}
}

// portScene returns a scene with one gang member per ten nodes. Each member needs a host port. On
// each node, one running pod uses this port.
func portScene(nodes int) *scene {
	s := &scene{}
	port := func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 29500, HostPort: 29500, Protocol: corev1.ProtocolTCP}}
	}
	for range nodes {
		n := s.addNode(amounts{64_000, 512, 8})
		port(s.addPod(n, amounts{1000, 4, 1}, 10))
		s.addPod(n, amounts{1000, 4, 1}, 10)
	}
	s.addGang(nodes/10, nodes/10, amounts{8000, 32, 4})
	for _, pod := range s.pending {
		port(pod)
	}
	return s
}

func newGroup(name string, priority int32, minCount int) *schedulingv1beta1.PodGroup {
	return &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uidOf(name))},
		Spec: schedulingv1beta1.PodGroupSpec{
			Priority: ptr.To(priority),
			SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
				Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(minCount)},
			},
		},
	}
}

// join makes a pod a member of a PodGroup. It sets the field that both Reprieve and upstream read.
func join(pod *corev1.Pod, group *schedulingv1beta1.PodGroup) {
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(group.Name)}
}

// workload returns the name of a pod's PodGroup, or the name of the pod if it has no PodGroup.
func workload(pod *corev1.Pod) types.NamespacedName {
	if key, ok := gang.GroupOf(pod); ok {
		return key
	}
	return types.NamespacedName{Namespace: pod.Namespace, Name: "pod/" + pod.Name}
}

// groups is a gang.Source with fixed content.
type groups map[types.NamespacedName]*gang.Group

// Group implements gang.Source.
func (g groups) Group(key types.NamespacedName) (*gang.Group, bool) {
	found, ok := g[key]
	return found, ok
}

// source returns a gang.Source with the PodGroups of the scene.
func (s *scene) source() groups {
	all, out := s.groups, groups{}
	if s.gang != nil {
		all = append(all[:len(all):len(all)], s.gang)
	}
	for _, pg := range all {
		key := types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}
		out[key] = &gang.Group{
			Key: key, UID: pg.UID, MinCount: int(pg.Spec.SchedulingPolicy.Gang.MinCount), Priority: pg.Spec.Priority,
			Whole: pg.Spec.DisruptionMode != nil && pg.Spec.DisruptionMode.All != nil,
		}
	}
	return out
}
