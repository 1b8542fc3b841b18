package stage

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// OwnerLabel is a node label. Its value is the namespace whose pods use the node.
const OwnerLabel = "test.reprieve.dev/owner"

// Create creates objects. The test fails on an error.
func (s *Stage) Create(objects ...client.Object) {
	s.Helper()
	for _, o := range objects {
		if err := s.Objects.Create(s.Context(), o); err != nil {
			s.Fatalf("create %T %s: %v", o, o.GetName(), err)
		}
	}
}

// NewClass returns a PriorityClass with a value. Each function in change changes it.
func NewClass(name string, value int32, change ...func(*schedulingv1.PriorityClass)) *schedulingv1.PriorityClass {
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
	for _, f := range change {
		f(class)
	}
	return class
}

// Never sets the preemption policy of a PriorityClass to Never. Use it with NewClass.
func Never(class *schedulingv1.PriorityClass) {
	policy := corev1.PreemptNever
	class.PreemptionPolicy = &policy
}

// CreateClasses creates PriorityClasses. values maps their names to their values.
func (s *Stage) CreateClasses(values map[string]int32) {
	s.Helper()
	for name, value := range values {
		s.Create(NewClass(name, value))
	}
}

// NewNode returns a node for the pods of a namespace. The short name must be unique in the
// namespace.
func NewNode(namespace, short string, cpus int64) *corev1.Node {
	name := nodeName(namespace, short)
	room := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(cpus, resource.DecimalSI),
		corev1.ResourceMemory: resource.MustParse("64Gi"),
		corev1.ResourcePods:   resource.MustParse("60"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{OwnerLabel: namespace, corev1.LabelHostname: name},
		},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			// The simulated kubelet uses this address as the host IP of pods.
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.64.0.1"}},
		},
	}
}

func nodeName(namespace, short string) string { return namespace + "-" + short }

// NodeName returns the full name of a node of the test.
func (s *Stage) NodeName(short string) string { return nodeName(s.Namespace, short) }

// AddNodes creates nodes with a number of CPUs each. It waits until they accept pods.
func (s *Stage) AddNodes(cpus int64, shorts ...string) {
	s.Helper()
	for _, short := range shorts {
		s.Create(NewNode(s.Namespace, short, cpus))
	}
	s.WaitReady(shorts...)
}

// WaitReady waits until the nodes accept pods.
func (s *Stage) WaitReady(shorts ...string) {
	s.Helper()
	s.Eventually("the nodes are ready", func(ctx context.Context) string {
		for _, short := range shorts {
			node, err := s.Kube.CoreV1().Nodes().Get(ctx, s.NodeName(short), metav1.GetOptions{})
			switch {
			case err != nil:
				return err.Error()
			case len(node.Spec.Taints) > 0:
				return "node " + short + " has the taint " + node.Spec.Taints[0].Key
			}
		}
		return ""
	})
}
