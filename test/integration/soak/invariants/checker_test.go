package invariants

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// story is a sequence of states for a Checker. Each step takes one second.
type story struct {
	*Checker
	now time.Time
}

func newStory() *story {
	begin := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	s := &story{Checker: New(begin, DefaultBounds()), now: begin}
	for name, value := range map[string]int32{"low": 100, "high": 1000} {
		s.SeeClass(classOf(name, value, "", ""))
	}
	s.SeeClass(classOf("sturdy", 100, "5000", "-1"))
	s.SeeClass(classOf("brief", 100, "5000", "20"))
	for _, q := range []string{"a", "b"} {
		s.SeeQueue(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: q}, Spec: v1alpha1.QueueSpec{
			Parent:            ptr.To("root"),
			ReclaimMinRuntime: &metav1.Duration{Duration: 10 * time.Second}, PreemptMinRuntime: &metav1.Duration{Duration: 5 * time.Second},
		}})
	}
	s.SeeQueue(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "root"}, Spec: v1alpha1.QueueSpec{Limit: cpus(4)}})
	s.SeeNode(nodeOf("n", 8))
	return s
}

func classOf(name string, value int32, least, seconds string) *schedulingv1.PriorityClass {
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
	if seconds != "" {
		class.Annotations = map[string]string{minimumPriority: least, tolerationSeconds: seconds}
	}
	return class
}

func cpus(n int64) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(n, resource.DecimalSI)}
}

func nodeOf(name string, n int64) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Allocatable: cpus(n), Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
}

// wait advances the time by a number of seconds, and calls Tick after each.
func (s *story) wait(seconds int) {
	for range seconds {
		s.now = s.now.Add(time.Second)
		s.Tick(s.now)
	}
}

// pod reports a new pod that requests 1 CPU.
func (s *story) pod(name, class string, change ...func(*corev1.Pod)) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{}}}
	pod.Spec.PriorityClassName, pod.Spec.Priority = class, ptr.To(s.classes[class].Value)
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: cpus(1)}}}
	pod.Status.Phase = corev1.PodPending
	for _, f := range change {
		f(pod)
	}
	s.SeePod(s.now, pod)
}

func inGroup(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels[v1alpha1.LabelPodGroup] = name }
}

func inQueue(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels[v1alpha1.LabelQueue] = name }
}

func asking(n int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Requests = cpus(n) }
}

// change reports a changed state of a pod.
func (s *story) change(name string, edit func(*corev1.Pod)) {
	pod := s.pods[types.NamespacedName{Namespace: "ns", Name: name}].DeepCopy()
	edit(pod)
	s.SeePod(s.now, pod)
}

func (s *story) bind(names ...string) {
	for _, name := range names {
		s.change(name, func(pod *corev1.Pod) {
			pod.Spec.NodeName, pod.Status.Phase = "n", corev1.PodRunning
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
				Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.now),
			})
		})
	}
}

// mark reports that a pod is preempted. kind and by identify the preemptor in the pod's condition.
func (s *story) mark(name, kind, by string) {
	s.change(name, func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
			Message: fmt.Sprintf("preempted by %s ns/%s (priority 1000): LowerPriority, the victim's priority is 100", kind, by),
		})
	})
}

func (s *story) remove(name string) {
	s.change(name, func(pod *corev1.Pod) { pod.DeletionTimestamp = ptr.To(metav1.NewTime(s.now)) })
}

func (s *story) gone(name string) {
	s.PodGone(s.now, types.NamespacedName{Namespace: "ns", Name: name})
}

// group reports a new gang with its members.
func (s *story) group(name, class string, minCount, members int, change ...func(*v1alpha1.PodGroup)) {
	s.groupObject(name, class, minCount, "", change...)
	for i := range members {
		s.pod(fmt.Sprintf("%s-%d", name, i), class, inGroup(name))
	}
}

// groupObject reports a new PodGroup. Its UID is the name followed by the suffix.
func (s *story) groupObject(name, class string, minCount int, suffix string, change ...func(*v1alpha1.PodGroup)) {
	pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name + suffix)}}
	pg.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: int32(minCount)}}
	pg.Spec.PriorityClassName, pg.Spec.Priority = &class, ptr.To(s.classes[class].Value)
	for _, f := range change {
		f(pg)
	}
	s.SeeGroup(s.now, pg)
}

func whole(pg *v1alpha1.PodGroup) { pg.Spec.DisruptionMode = ptr.To(v1alpha1.DisruptionModePodGroup) }

// list reports a PodGroup whose status.disruption has the named pods. Without pods, it removes
// status.disruption.
func (s *story) list(name, by string, pods ...string) {
	pg := s.groups[types.NamespacedName{Namespace: "ns", Name: name}].DeepCopy()
	pg.Status.Disruption = nil
	if len(pods) > 0 {
		pg.Status.Disruption = &v1alpha1.PodGroupDisruption{
			Preemptor: v1alpha1.DisruptionPreemptor{Kind: v1alpha1.PreemptorPod, Namespace: "ns", Name: by}, Time: metav1.NewTime(s.now),
		}
	}
	for _, pod := range pods {
		pg.Status.Disruption.Pods = append(pg.Status.Disruption.Pods, v1alpha1.DisruptedPod{Name: pod, UID: types.UID(pod)})
	}
	s.SeeGroup(s.now, pg)
}

// pair reports a running gang of two that is evicted as a whole, and a preemptor.
func (s *story) pair() {
	s.group("g", "low", 2, 2, whole)
	s.bind("g-0", "g-1")
	s.wait(30)
	s.pod("taker", "high", asking(8))
}

func TestGangs(t *testing.T) {
	t.Parallel()
	run(t, map[string]caseOf{
		"a gang that is bound within its bound": {tell: func(s *story) {
			s.group("g", "low", 3, 3)
			s.bind("g-0", "g-1")
			s.wait(25)
			s.bind("g-2")
			s.wait(60)
		}},
		"one that stays half bound": {want: GangPartlyBound, tell: func(s *story) {
			s.group("g", "low", 3, 3)
			s.bind("g-0", "g-1")
			s.wait(32)
		}},
		"while the scheduler cannot work, the bound stands still": {tell: func(s *story) {
			s.group("g", "low", 3, 3)
			s.bind("g-0")
			s.wait(10)
			s.Pause(s.now)
			s.wait(60)
			s.Resume(s.now)
			s.wait(19)
			s.bind("g-1", "g-2")
			s.wait(60)
		}},
		"and goes on after that": {want: GangPartlyBound, tell: func(s *story) {
			s.group("g", "low", 3, 3)
			s.bind("g-0")
			s.wait(10)
			s.Pause(s.now)
			s.wait(60)
			s.Resume(s.now)
			s.wait(25)
		}},
		"one that loses a member after it was whole may wait for another": {tell: func(s *story) {
			s.group("g", "low", 2, 2)
			s.bind("g-0", "g-1")
			s.remove("g-1")
			s.wait(60)
		}},
		"one that loses a member before that, as well": {tell: func(s *story) {
			s.group("g", "low", 3, 3)
			s.bind("g-0", "g-1")
			s.remove("g-1")
			s.wait(60)
		}},
		"once none is left it starts anew": {want: GangPartlyBound, tell: func(s *story) {
			s.group("g", "low", 2, 3)
			s.bind("g-0", "g-1")
			s.gone("g-0")
			s.gone("g-1")
			s.pod("g-3", "low", inGroup("g"))
			s.bind("g-2")
			s.wait(32)
		}},
	})
}

func TestGroups(t *testing.T) {
	t.Parallel()
	run(t, map[string]caseOf{
		"a group that goes whole": {tell: func(s *story) {
			s.pair()
			s.list("g", "taker", "g-0", "g-1")
			for _, pod := range []string{"g-0", "g-1"} {
				s.mark(pod, "Pod", "taker")
				s.remove(pod)
				s.wait(5)
				s.gone(pod)
			}
			s.list("g", "")
			s.wait(60)
		}},
		"one of which a pod stays": {want: GroupPartlyEvicted, tell: func(s *story) {
			s.pair()
			s.list("g", "taker", "g-0", "g-1")
			s.mark("g-0", "Pod", "taker")
			s.remove("g-0")
			s.wait(32)
		}},
		"whose record is taken off meanwhile": {want: GroupPartlyEvicted, tell: func(s *story) {
			s.pair()
			s.list("g", "taker", "g-0", "g-1")
			s.mark("g-0", "Pod", "taker")
			s.remove("g-0")
			s.list("g", "")
			s.wait(32)
		}},
		"which is let go before anything is touched": {tell: func(s *story) {
			s.pair()
			s.list("g", "taker", "g-0", "g-1")
			s.mark("g-0", "Pod", "taker")
			s.list("g", "")
			s.wait(60)
		}},
		"of which somebody else deletes a pod": {tell: func(s *story) {
			s.pair()
			s.list("g", "taker", "g-0", "g-1")
			s.mark("g-0", "Pod", "taker")
			s.Release("g-0")
			s.remove("g-0")
			s.list("g", "")
			s.wait(60)
		}},
		"of which a pod goes that is not on record": {want: GroupPartlyEvicted, tell: func(s *story) {
			s.pair()
			s.mark("g-0", "Pod", "taker")
		}},
		"of which one that had a node was left off the record": {want: GroupPartlyEvicted, tell: func(s *story) {
			s.pair()
			s.list("g", "taker", "g-0")
			s.mark("g-0", "Pod", "taker")
			s.remove("g-0")
			s.wait(1)
		}},
		"whose record is the next one's before the last has gone": {want: GroupPartlyEvicted, tell: func(s *story) {
			s.pair()
			s.pod("other", "high")
			s.list("g", "taker", "g-0", "g-1")
			s.mark("g-0", "Pod", "taker")
			s.remove("g-0")
			s.wait(20)
			s.list("g", "other", "g-0", "g-1")
			s.wait(15)
		}},
	})
}

func TestVictims(t *testing.T) {
	t.Parallel()
	run(t, map[string]caseOf{
		"a pod goes for one that stands above it": {tell: func(s *story) {
			s.pod("v", "low")
			s.bind("v")
			s.pod("taker", "high")
			s.mark("v", "Pod", "taker")
		}},
		"for one that does not": {want: VictimWithoutCause, tell: func(s *story) {
			s.pod("v", "low")
			s.bind("v")
			s.pod("taker", "low")
			s.mark("v", "Pod", "taker")
		}},
		"for one that never was": {want: VictimWithoutCause, tell: func(s *story) {
			s.pod("v", "low")
			s.bind("v")
			s.mark("v", "Pod", "taker")
		}},
		"for one that has just gone": {tell: func(s *story) {
			s.pod("v", "low")
			s.bind("v")
			s.pod("taker", "high")
			s.remove("taker")
			s.wait(3)
			s.mark("v", "Pod", "taker")
		}},
		"for one that has long gone": {want: VictimWithoutCause, tell: func(s *story) {
			s.pod("v", "low")
			s.bind("v")
			s.pod("taker", "high")
			s.gone("taker")
			s.wait(11)
			s.mark("v", "Pod", "taker")
		}},
		"for one that has long had a node": {want: VictimWithoutCause, tell: func(s *story) {
			s.pod("v", "low")
			s.pod("taker", "high")
			s.bind("v", "taker")
			s.wait(11)
			s.mark("v", "Pod", "taker")
		}},
		"for a gang that has all it wants": {want: VictimWithoutCause, tell: func(s *story) {
			s.group("taker", "high", 2, 2)
			s.pod("v", "low")
			s.bind("v", "taker-0", "taker-1")
			s.wait(11)
			s.mark("v", "PodGroup", "taker")
		}},
		"for a gang that waits for one again": {tell: func(s *story) {
			s.group("taker", "high", 2, 2)
			s.pod("v", "low")
			s.bind("v", "taker-0", "taker-1")
			s.wait(11)
			s.gone("taker-0")
			s.pod("taker-2", "high", inGroup("taker"))
			s.mark("v", "PodGroup", "taker")
		}},
		"without a word of whom for": {want: VictimWithoutCause, tell: func(s *story) {
			s.pod("v", "low")
			s.bind("v")
			s.change("v", func(pod *corev1.Pod) {
				pod.Status.Conditions = []corev1.PodCondition{{
					Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler, Message: "preempted",
				}}
			})
		}},
		"a group goes for one that has long gone": {want: VictimWithoutCause, tell: func(s *story) {
			s.pair()
			s.gone("taker")
			s.wait(11)
			s.list("g", "taker", "g-0", "g-1")
		}},
		"what has begun goes on without its reason": {tell: func(s *story) {
			s.pair()
			s.list("g", "taker", "g-0", "g-1")
			s.gone("taker")
			s.wait(11)
			for _, pod := range []string{"g-0", "g-1"} {
				s.mark(pod, "Pod", "taker")
				s.remove(pod)
			}
			s.wait(60)
		}},
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	run(t, map[string]caseOf{
		"up to the limit of the queue above": {tell: func(s *story) {
			s.pod("x", "low", inQueue("a"), asking(2))
			s.pod("y", "low", inQueue("b"), asking(2))
			s.bind("x", "y")
		}},
		"past it": {want: LimitExceeded, tell: func(s *story) {
			s.pod("x", "low", inQueue("a"), asking(2))
			s.pod("y", "low", inQueue("b"), asking(3))
			s.bind("x", "y")
		}},
		"what is on its way out counts": {want: LimitExceeded, tell: func(s *story) {
			s.pod("x", "low", inQueue("a"), asking(4))
			s.pod("y", "low", inQueue("a"), asking(4))
			s.bind("x")
			s.remove("x")
			s.bind("y")
		}},
		"what has gone does not": {tell: func(s *story) {
			s.pod("x", "low", inQueue("a"), asking(4))
			s.pod("y", "low", inQueue("a"), asking(4))
			s.bind("x")
			s.gone("x")
			s.bind("y")
		}},
		"members count for the queue of their group": {want: LimitExceeded, tell: func(s *story) {
			s.group("g", "low", 5, 5, func(pg *v1alpha1.PodGroup) { pg.Spec.QueueName = ptr.To("a") })
			s.bind("g-0", "g-1", "g-2", "g-3", "g-4")
		}},
	})
}

func TestProtections(t *testing.T) {
	t.Parallel()
	// taken returns a story: a victim runs for some seconds, and is then evicted for a preemptor.
	taken := func(victim, queue, taker, takerQueue string, after int) func(*story) {
		return func(s *story) {
			s.pod("v", victim, inQueue(queue))
			s.bind("v")
			s.wait(after)
			s.pod("taker", taker, inQueue(takerQueue), asking(8))
			s.mark("v", "Pod", "taker")
		}
	}
	run(t, map[string]caseOf{
		"a toleration for good":                     {want: ProtectionBroken, tell: taken("sturdy", "", "high", "", 1000)},
		"a toleration that has not ended":           {want: ProtectionBroken, tell: taken("brief", "", "high", "", 18)},
		"one that has":                              {tell: taken("brief", "", "high", "", 20)},
		"a min-runtime inside the queue":            {want: ProtectionBroken, tell: taken("low", "a", "high", "a", 3)},
		"one that has ended":                        {tell: taken("low", "a", "high", "a", 5)},
		"between queues it is another that counts":  {want: ProtectionBroken, tell: taken("low", "a", "high", "b", 8)},
		"which ends as well":                        {tell: taken("low", "a", "low", "b", 10)},
		"from outside the queues it is by priority": {want: ProtectionBroken, tell: taken("low", "a", "high", "", 3)},
		"one without any":                           {tell: taken("low", "", "high", "", 0)},
		"a whole group before its minCount ran long": {want: ProtectionBroken, tell: func(s *story) {
			s.group("g", "low", 2, 2, whole, func(pg *v1alpha1.PodGroup) { pg.Spec.QueueName = ptr.To("a") })
			s.bind("g-0")
			s.wait(10)
			s.bind("g-1")
			s.wait(3)
			s.pod("taker", "high", inQueue("a"))
			s.list("g", "taker", "g-0", "g-1")
		}},
		"a member that has come later to a gang that has run long": {tell: func(s *story) {
			s.group("g", "brief", 2, 4)
			s.bind("g-0", "g-1", "g-2")
			s.wait(20)
			s.gone("g-0")
			s.bind("g-3")
			s.wait(2)
			s.pod("taker", "high", asking(8))
			s.mark("g-3", "Pod", "taker")
		}},
		"a gang whose members are replaced one by one": {tell: func(s *story) {
			s.group("g", "brief", 2, 4)
			s.bind("g-0", "g-1")
			s.wait(20)
			s.gone("g-0")
			s.bind("g-2")
			s.wait(1)
			s.gone("g-1")
			s.bind("g-3")
			s.pod("taker", "high", asking(8))
			s.mark("g-2", "Pod", "taker")
		}},
		"a gang that runs again with new members": {want: ProtectionBroken, tell: func(s *story) {
			s.group("g", "brief", 2, 4)
			s.bind("g-0", "g-1")
			s.wait(20)
			s.gone("g-0")
			s.gone("g-1")
			s.bind("g-2", "g-3")
			s.wait(2)
			s.pod("taker", "high", asking(8))
			s.mark("g-2", "Pod", "taker")
		}},
		"a record that stays when its pods have gone": {tell: func(s *story) {
			s.group("g", "low", 2, 4, whole, func(pg *v1alpha1.PodGroup) { pg.Spec.QueueName = ptr.To("a") })
			s.bind("g-0", "g-1")
			s.wait(10)
			s.pod("taker", "high", inQueue("a"))
			s.list("g", "taker", "g-0", "g-1")
			for _, pod := range []string{"g-0", "g-1"} {
				s.mark(pod, "Pod", "taker")
				s.remove(pod)
			}
			s.wait(1)
			s.gone("g-0")
			s.bind("g-2", "g-3")
			s.SeeGroup(s.now, s.groups[types.NamespacedName{Namespace: "ns", Name: "g"}].DeepCopy())
		}},
		"for a preemptor that is to take nothing": {want: ProtectionBroken, tell: func(s *story) {
			s.pod("v", "low")
			s.bind("v")
			s.pod("taker", "high", func(pod *corev1.Pod) { pod.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever) })
			s.mark("v", "Pod", "taker")
		}},
	})
}

func TestForgotten(t *testing.T) {
	t.Parallel()
	calm := func(s *story) {
		s.BeginCalm()
		s.wait(40)
		s.EndCalm()
	}
	full := func(s *story) {
		s.pod("big", "low", asking(8))
		s.bind("big")
	}
	run(t, map[string]caseOf{
		"nothing waits":                      {tell: func(s *story) { full(s); calm(s) }},
		"a pod waits for room":               {tell: func(s *story) { full(s); s.pod("x", "low"); calm(s) }},
		"a pod waits although there is some": {want: WorkForgotten, tell: func(s *story) { s.pod("x", "low"); calm(s) }},
		"not for long":                       {tell: func(s *story) { s.pod("x", "low"); s.BeginCalm(); s.wait(20); s.bind("x"); s.wait(30) }},
		"there was calm only later": {tell: func(s *story) {
			s.pod("x", "low")
			s.wait(30)
			s.BeginCalm()
			s.wait(20)
			s.EndCalm()
			s.wait(20)
		}},
		"on a node that takes none": {tell: func(s *story) {
			s.pod("x", "low")
			n := nodeOf("n", 8)
			n.Spec.Unschedulable = true
			s.SeeNode(n)
			calm(s)
		}},
		"past the limit of its queue":       {tell: func(s *story) { s.pod("x", "low", inQueue("a"), asking(5)); calm(s) }},
		"a pod that could take from others": {want: WorkForgotten, tell: func(s *story) { full(s); s.pod("x", "high"); calm(s) }},
		"a pod that is to take nothing": {tell: func(s *story) {
			full(s)
			s.pod("x", "high", func(pod *corev1.Pod) { pod.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever) })
			calm(s)
		}},
		"a pod whose prey tolerates it":             {tell: func(s *story) { s.pod("v", "sturdy", asking(8)); s.bind("v"); s.pod("x", "high"); calm(s) }},
		"a gang for which there is room":            {want: WorkForgotten, tell: func(s *story) { s.group("g", "low", 3, 3); calm(s) }},
		"a gang for all of which there is not":      {tell: func(s *story) { s.pod("big", "low", asking(6)); s.bind("big"); s.group("g", "low", 3, 3); calm(s) }},
		"a gang that lacks members":                 {tell: func(s *story) { s.group("g", "low", 3, 2); calm(s) }},
		"a member past minCount for which there is": {want: WorkForgotten, tell: func(s *story) { s.group("g", "low", 2, 3); s.bind("g-0", "g-1"); calm(s) }},
		"a member past minCount takes nothing": {tell: func(s *story) {
			s.group("g", "high", 1, 1)
			s.bind("g-0")
			full(s)
			s.pod("g-1", "high", inGroup("g"))
			calm(s)
		}},
		"one that is needed may": {want: WorkForgotten, tell: func(s *story) { full(s); s.group("g", "high", 1, 1); calm(s) }},
	})
}

// caseOf is a story and the name of the invariant that it violates once. The name is "" if the
// story violates none.
type caseOf struct {
	tell func(*story)
	want Invariant
}

func run(t *testing.T, cases map[string]caseOf) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory()
			c.tell(s)
			var want []Invariant
			if c.want != "" {
				want = []Invariant{c.want}
			}
			var got []Invariant
			for _, v := range s.Violations() {
				got = append(got, v.Invariant)
				if line := v.String(); !strings.Contains(line, string(v.Invariant)) || v.Text == "" {
					t.Errorf("It says %q", line)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("Broken are %q (%v), want %q", got, s.Violations(), want)
			}
		})
	}
}

// TestCounts checks the numbers of checks for a story. The report shows these numbers.
func TestCounts(t *testing.T) {
	t.Parallel()
	s := newStory()
	s.pair()
	s.list("g", "taker", "g-0", "g-1")
	for _, pod := range []string{"g-0", "g-1"} {
		s.mark(pod, "Pod", "taker")
		s.remove(pod)
		s.gone(pod)
	}
	s.wait(1)
	got := s.Counts()
	if got.Pods != 3 || got.Bound != 2 || got.Victims != 2 || got.Whole != 1 || got.Groups != 1 || got.Reclaims != 0 || got.Judged[VictimWithoutCause] != 1 {
		t.Errorf("%+v", got)
	}
}
