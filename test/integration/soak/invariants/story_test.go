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
