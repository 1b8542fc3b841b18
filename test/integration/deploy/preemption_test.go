package deploy

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// gangOfTwo returns the policy of a gang with minCount 2 that is evicted as a whole.
func gangOfTwo(class string) v1alpha1.PodGroupPolicy {
	return v1alpha1.PodGroupPolicy{
		SchedulingPolicy:  &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: 2}},
		DisruptionMode:    ptr.To(v1alpha1.DisruptionModePodGroup),
		PriorityClassName: ptr.To(class),
	}
}

// isScheduled returns a check for waitGroup: the PodGroup must be scheduled and have the given
// priority.
func isScheduled(priority int32) func(*v1alpha1.PodGroup) string {
	return func(pg *v1alpha1.PodGroup) string {
		if got := ptr.Deref(pg.Spec.Priority, -1); got != priority {
			return "its priority is not filled in"
		}
		if !apimeta.IsStatusConditionTrue(pg.Status.Conditions, v1alpha1.ConditionPodGroupScheduled) {
			return "it is not scheduled"
		}
		if pg.Status.Running != 2 {
			return "its status does not say that 2 members run"
		}
		return ""
	}
}

// testGangs creates a gang from a template of a Workload. The gang fills two nodes. A second gang
// with a higher priority must preempt the first gang.
func testGangs(t *testing.T, c *cluster) {
	c.create(t,
		&v1alpha1.Workload{
			ObjectMeta: meta("train"),
			Spec: v1alpha1.WorkloadSpec{PodGroupTemplates: []v1alpha1.PodGroupTemplate{
				{Name: "workers", PodGroupPolicy: gangOfTwo(low)},
			}},
		},
		&v1alpha1.PodGroup{
			ObjectMeta: meta("train"),
			Spec: v1alpha1.PodGroupSpec{
				PodGroupTemplateRef: &v1alpha1.PodGroupTemplateReference{WorkloadName: "train", PodGroupTemplateName: "workers"},
			},
		},
		newPod("train-0", "gang", low, memberOf("train"), asks("nvidia.com/gpu", "4")),
		newPod("train-1", "gang", low, memberOf("train"), asks("nvidia.com/gpu", "4")))
	c.waitRunning(t, "train-0", "train-1")
	c.waitGroup(t, "train", isScheduled(lowValue))

	c.create(t,
		&v1alpha1.PodGroup{ObjectMeta: meta("serve"), Spec: v1alpha1.PodGroupSpec{PodGroupPolicy: gangOfTwo(high)}},
		// The preemptor needs only two GPUs of each node, but the victim must be evicted as a
		// whole.
		newPod("serve-0", "gang", high, memberOf("serve"), asks("nvidia.com/gpu", "2")),
		newPod("serve-1", "gang", high, memberOf("serve"), asks("nvidia.com/gpu", "2")))
	c.waitRunning(t, "serve-0", "serve-1")
	c.waitGone(t, "train-0", "train-1")
	c.waitGroup(t, "serve", isScheduled(highValue))
	c.waitGroup(t, "train", func(pg *v1alpha1.PodGroup) string {
		condition := apimeta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionDisruptionTarget)
		if condition == nil || condition.Reason != v1alpha1.ReasonPreemptionByScheduler {
			return "it does not say that it was preempted"
		}
		return ""
	})
	c.waitEvent(t, "PodGroup", "train", "Preempted")
	c.waitEvent(t, "Pod", "train-0", "Preempted")
	c.waitEvent(t, "Pod", "train-1", "Preempted")
	c.waitEvent(t, "PodGroup", "serve", "Preempting")
}

// testTrees checks that a tree with disruption mode All is evicted as a whole, even if the
// preemptor needs the room of only one PodGroup.
func testTrees(t *testing.T, c *cluster) {
	all, class := v1alpha1.CompositeDisruptionModeAll, low
	tree := &v1alpha1.CompositePodGroup{ObjectMeta: meta("inference"), Spec: v1alpha1.CompositePodGroupSpec{PriorityClassName: &class, DisruptionMode: &all}}
	tree.Spec.SchedulingPolicy.Gang = &v1alpha1.CompositeGangSchedulingPolicy{MinGroupCount: 2}
	c.create(t, tree)
	for _, role := range []string{"prefill", "decode"} {
		policy := gangOfTwo(low)
		policy.SchedulingPolicy.Gang.MinCount, policy.ParentCompositePodGroupName = 1, &tree.Name
		c.create(t, &v1alpha1.PodGroup{ObjectMeta: meta(role), Spec: v1alpha1.PodGroupSpec{PodGroupPolicy: policy}},
			newPod(role+"-0", "trees", low, memberOf(role), asks("nvidia.com/gpu", "4")))
	}
	c.waitRunning(t, "prefill-0", "decode-0")
	c.create(t, newPod("interactive", "trees", high, asks("nvidia.com/gpu", "1")))
	c.waitRunning(t, "interactive")
	c.waitGone(t, "prefill-0", "decode-0")
	c.waitEvent(t, "CompositePodGroup", "inference", "Preempted")
}

func testPods(t *testing.T, c *cluster) {
	c.create(t, newPod("batch", "plain", low, asks("nvidia.com/gpu", "4")))
	c.waitRunning(t, "batch")
	c.create(t, newPod("web", "plain", high, asks("nvidia.com/gpu", "1")))
	c.waitRunning(t, "web")
	c.waitGone(t, "batch")
	c.waitEvent(t, "Pod", "batch", "Preempted")
	c.waitEvent(t, "Pod", "web", "Preempting")
}

// testBudget tests a PodDisruptionBudget that allows no disruption. Preemption must respect it if
// there are other victims, and violate it otherwise.
func testBudget(t *testing.T, c *cluster) {
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: meta("covered"),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(1)),
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": "covered"}},
		},
	}
	covered := newPod("covered", "budget", low, asks("nvidia.com/gpu", "4"))
	covered.Labels = map[string]string{"app": "covered"}
	c.create(t, budget, covered)
	c.waitRunning(t, "covered")
	eventually(t, "the budget", func(ctx context.Context) string {
		if err := c.Get(ctx, client.ObjectKeyFromObject(budget), budget); err != nil {
			return err.Error()
		}
		if budget.Status.CurrentHealthy != 1 || budget.Status.DisruptionsAllowed != 0 {
			return "it does not know of its pod yet"
		}
		return ""
	})
	c.create(t, newPod("over-budget", "budget", high, asks("nvidia.com/gpu", "4")))
	c.waitRunning(t, "over-budget")
	c.waitGone(t, "covered")
}

func testPorts(t *testing.T, c *cluster) {
	port := func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080}}
	}
	c.create(t, newPod("port-low", "ports", low, port))
	c.waitRunning(t, "port-low")
	c.create(t, newPod("port-high", "ports", high, port))
	c.waitRunning(t, "port-high")
	c.waitGone(t, "port-low")
}

// testToleration checks that a toleration protects a pod for some seconds, and that the pod may be
// preempted afterwards.
func testToleration(t *testing.T, c *cluster) {
	class := priorityClass("guaranteed", lowValue)
	class.Annotations = map[string]string{
		preemptiontoleration.AnnotationMinimumPreemptablePriority: fmt.Sprint(highValue + 1),
		preemptiontoleration.AnnotationTolerationSeconds:          "5",
	}
	c.create(t, class, newPod("tolerating", "tolerations", class.Name, asks("nvidia.com/gpu", "4")))
	c.waitRunning(t, "tolerating")
	c.create(t, newPod("patient", "tolerations", high, asks("nvidia.com/gpu", "4")))
	c.waitEvent(t, "Pod", "patient", "FailedScheduling")
	c.waitRunning(t, "patient")
	c.waitGone(t, "tolerating")
}

// testTakeover stops the leader. The standby must become the leader and be able to preempt.
func testTakeover(t *testing.T, c *cluster) {
	c.create(t, newPod("before", "takeover", low, asks("nvidia.com/gpu", "4")))
	c.waitRunning(t, "before")
	was := c.leader(t)
	if err := c.schedulers[0].Kill(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.create(t, newPod("after", "takeover", high, asks("nvidia.com/gpu", "4")))
	c.waitRunning(t, "after")
	c.waitGone(t, "before")
	if is := c.leader(t); is == was || is == "" {
		t.Errorf("%q leads, as before the other has ended", is)
	}
}

// testRetry checks the events of a pod that fails repeatedly for the same reason. The pod must have
// one event with a count.
func testRetry(t *testing.T, c *cluster) {
	const label = "example.com/late"
	c.create(t, newPod("stuck", "retry", low, asks(corev1.ResourceCPU, "1000"), func(pod *corev1.Pod) {
		pod.Spec.NodeSelector[label] = "yes"
	}))
	c.waitEvent(t, "Pod", "stuck", "FailedScheduling")
	node := c.nodeOf(t, "retry")
	set := func(value string) {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, label, value))
		if err := c.Patch(t.Context(), node, patch); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "a repeated event", func(ctx context.Context) string {
		// The change to "yes" makes the scheduler retry the pod. The node matches the pod but is
		// always too small.
		set("no")
		set("yes")
		events := c.eventsOn(ctx, t, "Pod", "stuck", "FailedScheduling")
		if !slices.ContainsFunc(events, func(e eventsv1.Event) bool { return e.Series != nil }) {
			return fmt.Sprintf("none of %d has a count", len(events))
		}
		return ""
	})
}
