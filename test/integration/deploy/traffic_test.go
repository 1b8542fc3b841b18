package deploy

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

const (
	gpu corev1.ResourceName = "nvidia.com/gpu"
	// fleet is the name of the pool for the traffic. fleetNodes is its number of nodes. Each node
	// has four GPUs.
	fleet      = "fleet"
	fleetNodes = 6
	// guarded is a PriorityClass with a toleration. It protects Pods for a few seconds.
	guarded = "guarded"
	// mostPending is a number of waiting Pods. While more Pods wait, the traffic creates no work.
	mostPending = 24
)

// arrival describes a gang. If members is 1, it describes a single Pod.
type arrival struct {
	// queue is the name of the Queue, or "" if the work is in no Queue.
	queue, class string
	members      int
	gpus, runs   string
}

// day returns the work to create. The traffic creates it in this order and then starts over. The
// work needs more room than the cluster has. Some Pods are preempted in their own Queue, some are
// reclaimed by other Queues, and some are protected for a time.
func day() []arrival {
	return []arrival{
		{"batch", low, 4, "2", "12s"},
		{"research", low, 2, "2", "8s"},
		{"production", high, 1, "1", "6s"},
		{"batch", guarded, 2, "2", "10s"},
		{"research", high, 2, "4", "6s"},
		{"production", high, 1, "2", "6s"},
		{"", low, 1, "1", "5s"},
		{"batch", low, 1, "1", "8s"},
		{"research", low, 3, "2", "10s"},
		{"", high, 1, "4", "4s"},
	}
}

// traffic creates work continuously.
type traffic struct {
	*cluster
	arrived int
}

// newTraffic creates the Queues and PriorityClasses for the traffic. All work is deleted when the
// test ends.
func newTraffic(t *testing.T, c *cluster) *traffic {
	t.Helper()
	queue := func(name, quota string) *v1alpha1.Queue {
		return &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.QueueSpec{
			Quota: corev1.ResourceList{gpu: resource.MustParse(quota)}, OverQuotaWeight: ptr.To[int32](1),
		}}
	}
	waits := priorityClass(guarded, lowValue)
	waits.Annotations = map[string]string{
		preemptiontoleration.AnnotationMinimumPreemptablePriority: strconv.Itoa(highValue + 1),
		preemptiontoleration.AnnotationTolerationSeconds:          "4",
	}
	c.create(t, priorityClass(low, lowValue), priorityClass(high, highValue), waits,
		queue("production", "8"), queue("research", "12"), queue("batch", "0"))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		here := client.InNamespace(metav1.NamespaceDefault)
		for _, err := range []error{
			c.DeleteAllOf(ctx, &corev1.Pod{}, here, client.GracePeriodSeconds(0)), c.DeleteAllOf(ctx, &v1alpha1.PodGroup{}, here),
		} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return &traffic{cluster: c}
}

// kinds returns the kinds of events that the traffic must cause. The value matches the message of
// an event.
func kinds() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"a gang takes room by priority":           regexp.MustCompile("^preempted by PodGroup .*: LowerPriority,"),
		"a Pod takes room by priority":            regexp.MustCompile("^preempted by Pod .*: LowerPriority,"),
		"a queue takes back what is its own":      regexp.MustCompile("^preempted by .*: Reclaim,"),
		"a preemptor waits for what is protected": regexp.MustCompile(`\(PreemptionToleration\)`),
	}
}

// lacks returns the kinds of events that have not occurred yet.
func (tr *traffic) lacks(ctx context.Context) ([]string, error) {
	var events eventsv1.EventList
	if err := tr.List(ctx, &events, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		return nil, err
	}
	var out []string
	for kind, says := range kinds() {
		if !slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool { return says.MatchString(e.Note) }) {
			out = append(out, "no event says that "+kind)
		}
	}
	return out, nil
}

// next creates the next workload of day, unless more than mostPending Pods wait.
func (tr *traffic) next(t *testing.T) {
	t.Helper()
	var pods corev1.PodList
	if err := tr.List(t.Context(), &pods, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		t.Fatal(err)
	}
	pending := 0
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName == "" {
			pending++
		}
	}
	if pending > mostPending {
		return
	}
	all := day()
	a := all[tr.arrived%len(all)]
	tr.arrived++
	work := fmt.Sprintf("w%d", tr.arrived)
	var objects []client.Object
	if a.members > 1 {
		policy := gangOfTwo(a.class)
		policy.SchedulingPolicy.Gang.MinCount, policy.QueueName = int32(a.members), &a.queue
		objects = append(objects, &v1alpha1.PodGroup{ObjectMeta: meta(work), Spec: v1alpha1.PodGroupSpec{
			PodGroupPolicy: policy,
		}})
	}
	for i := range a.members {
		objects = append(objects, newPod(fmt.Sprintf("%s-%d", work, i), fleet, a.class, asks(gpu, a.gpus), a.shape(work)))
	}
	tr.create(t, objects...)
}

// shape returns a function that sets the fields of a Pod: its gang or Queue, its run time, and how
// long it takes to terminate.
func (a arrival) shape(work string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](2)
		pod.Annotations = map[string]string{playground.RunForAnnotation: a.runs}
		switch {
		case a.members > 1:
			memberOf(work)(pod)
		case a.queue != "":
			pod.Labels = map[string]string{v1alpha1.LabelQueue: a.queue}
		}
	}
}
