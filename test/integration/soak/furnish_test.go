package soak

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// nodeCount is the number of nodes, and nodeCPUs is the number of CPUs of each node.
const (
	nodeCount = 10
	nodeCPUs  = 8
)

// classes returns the PriorityClasses of jobs, by name.
func classes() map[string]*schedulingv1.PriorityClass {
	tolerant := func(seconds string) func(*schedulingv1.PriorityClass) {
		return func(class *schedulingv1.PriorityClass) {
			class.Annotations = map[string]string{
				preemptiontoleration.AnnotationMinimumPreemptablePriority: "2000", preemptiontoleration.AnnotationTolerationSeconds: seconds,
			}
		}
	}
	out := make(map[string]*schedulingv1.PriorityClass)
	for _, class := range []*schedulingv1.PriorityClass{
		stage.NewClass("low", 100),
		stage.NewClass("sturdy", 200, tolerant("-1")),
		stage.NewClass("brief", 300, tolerant("12")),
		stage.NewClass("mid", 500),
		stage.NewClass("patient", 900, stage.Never),
		stage.NewClass("high", 1000),
		stage.NewClass("urgent", 3000),
	} {
		out[class.Name] = class
	}
	return out
}

func classNames() []string { return slices.Sorted(maps.Keys(classes())) }

// queues returns the Queues of jobs: three leaf queues below a queue with a limit, the Queue of the
// hostile tenant, and the Queue of its neighbor.
func queues() []*v1alpha1.Queue {
	cpus := func(percent int64) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(nodeCount*nodeCPUs*percent/100, resource.DecimalSI)}
	}
	leaf := func(name string, quota int64) *v1alpha1.Queue {
		return &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.QueueSpec{
			Parent: ptr.To("root"), Quota: cpus(quota),
			ReclaimMinRuntime: &metav1.Duration{Duration: 8 * time.Second}, PreemptMinRuntime: &metav1.Duration{Duration: 5 * time.Second},
		}}
	}
	root := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "root"}, Spec: v1alpha1.QueueSpec{Quota: cpus(50), Limit: cpus(60)}}
	a, b, c := leaf("a", 20), leaf("b", 20), leaf("c", 0)
	b.Spec.Limit = cpus(35)
	return append([]*v1alpha1.Queue{root, a, b, c}, tenantQueues()...)
}

// furnish creates the objects that exist during the whole test: nodes, PriorityClasses and Queues.
func (d *driver) furnish() {
	d.Helper()
	for _, class := range classes() {
		d.Create(class)
	}
	for _, q := range queues() {
		d.Create(q)
	}
	var shorts []string
	for range nodeCount {
		if err := d.addNode(d.Context()); err != nil {
			d.Fatal(err)
		}
		shorts = append(shorts, strconv.Itoa(d.hosts))
	}
	d.WaitReady(shorts...)
	d.Eventually("the PriorityClasses are served", func(ctx context.Context) string {
		if _, err := d.Kube.SchedulingV1().PriorityClasses().Get(ctx, "urgent", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
}
