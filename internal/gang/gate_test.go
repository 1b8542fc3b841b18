package gang

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

func named(prefix string, count int, change ...func(*corev1.Pod)) []*corev1.Pod {
	out := make([]*corev1.Pod, count)
	for i := range out {
		pod := &corev1.Pod{}
		pod.Namespace = "ns"
		pod.Name = fmt.Sprintf("%s-%d", prefix, i)
		pod.UID = types.UID(pod.Name)
		pod.Spec.SchedulerName = "reprieve-scheduler"
		for _, c := range change {
			c(pod)
		}
		out[i] = pod
	}
	return out
}

func by(scheduler string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.SchedulerName = scheduler }
}

func inGroup(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name} }
}

func labelled(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels = map[string]string{v1alpha1.LabelPodGroup: name} }
}

func TestGate(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "ns", Name: "g"}
	ready := Group{Key: key, MinCount: 3, Priority: ptr.To[int32](0)}
	group := func(change func(*Group)) *Group {
		g := ready
		change(&g)
		return &g
	}
	cases := map[string]struct {
		group    *Group
		members  Members
		want     string
		mentions []string
	}{
		"enough": {group: &ready, members: Members{Pending: named("p", 3)}},
		"enough with those that run": {
			group: &ready, members: Members{Pending: named("p", 1), Assigned: named("a", 2)},
		},
		"enough with those that have succeeded": {
			group: &ready, members: Members{Pending: named("p", 1), Succeeded: named("s", 2)},
		},
		"no PodGroup": {want: ReasonPodGroupNotFound, mentions: []string{"PodGroup ns/g does not exist"}},
		"no PodGroup, of those that may be elsewhere": {
			members: Members{Pending: named("p", 1, inGroup("g"))},
			want:    ReasonPodGroupNotFound, mentions: []string{"PodGroup ns/g does not exist", "scheduling.k8s.io"},
		},
		"two PodGroups of that name": {
			group:   group(func(g *Group) { g.Ambiguous = true }),
			members: Members{Pending: named("p", 3)}, want: v1alpha1.ReasonAmbiguousName, mentions: []string{"ns/g"},
		},
		"what is not supported": {
			group:   group(func(g *Group) { g.Unsupported = "spec.x" }),
			members: Members{Pending: named("p", 3)}, want: v1alpha1.ReasonUnsupported, mentions: []string{"spec.x"},
		},
		"an API that has no priorities": {
			group:   group(func(g *Group) { g.Priority, g.PodPriorities = nil, true }),
			members: Members{Pending: named("p", 3)},
		},
		"those that name two groups count for nobody": {
			group: &ready, members: Members{Pending: named("p", 2), Refused: named("r", 5)},
			want: v1alpha1.ReasonNotEnoughMembers, mentions: []string{"has 2"},
		},
		"no template": {
			group:   group(func(g *Group) { g.Template, g.Priority = "w/t", nil }),
			members: Members{Pending: named("p", 3)}, want: v1alpha1.ReasonTemplateNotFound, mentions: []string{"w/t"},
		},
		"no PriorityClass": {
			group: group(func(g *Group) { g.PriorityClassName, g.Priority = "gone", nil }),
			want:  v1alpha1.ReasonPriorityClassNotFound, mentions: []string{`"gone"`},
		},
		"a class that has been deleted since": {
			group:   group(func(g *Group) { g.PriorityClassName = "gone" }),
			members: Members{Pending: named("p", 3)},
		},
		"no priority yet": {group: group(func(g *Group) { g.Priority = nil }), want: v1alpha1.ReasonPending},
		"too few": {
			group: &ready, members: Members{Pending: named("p", 1), Assigned: named("a", 1)},
			want: v1alpha1.ReasonNotEnoughMembers, mentions: []string{"needs 3 members and has 2"},
		},
		"too few without the gated, the terminating and the failed": {
			group: &ready,
			members: Members{
				Pending: named("p", 2), Gated: named("g", 1), Terminating: named("t", 2), Finished: named("f", 9),
			},
			want:     v1alpha1.ReasonNotEnoughMembers,
			mentions: []string{"has 2", "1 more wait for a scheduling gate", "2 more are terminating"},
		},
		"two schedulers": {
			group:    &ready,
			members:  Members{Pending: named("p", 2), Gated: named("g", 1, by("other"))},
			want:     v1alpha1.ReasonMixedSchedulerNames,
			mentions: []string{`"other" (pod g-0)`, `"reprieve-scheduler" (pod p-0)`},
		},
		"two schedulers come before too few": {
			group: &ready, members: Members{Pending: named("p", 1), Assigned: named("a", 1, by("other"))},
			want: v1alpha1.ReasonMixedSchedulerNames,
		},
		"those that go, or are done, disagree with nobody": {
			group: &ready,
			members: Members{
				Pending: named("p", 3), Terminating: named("t", 1, by("other")), Succeeded: named("s", 1, by("other")),
			},
		},
		"a basic group needs nobody": {
			group:   group(func(g *Group) { g.MinCount = 0 }),
			members: Members{Pending: append(named("p", 1), named("q", 1, by("other"))...)},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Gate(key, c.group, &c.members)
			if got.Reason != c.want {
				t.Errorf("Reason %q, want %q (%s)", got.Reason, c.want, got.Message)
			}
			if (got.Message == "") != (c.want == "") {
				t.Errorf("Message %q with reason %q", got.Message, got.Reason)
			}
			for _, m := range c.mentions {
				if !strings.Contains(got.Message, m) {
					t.Errorf("Message %q does not mention %q", got.Message, m)
				}
			}
		})
	}
}

func TestMembersOf(t *testing.T) {
	t.Parallel()
	deleted := func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{} }
	onNode := func(pod *corev1.Pod) { pod.Spec.NodeName = "n" }
	gated := func(pod *corev1.Pod) { pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "x"}} }
	phase := func(p corev1.PodPhase) func(*corev1.Pod) { return func(pod *corev1.Pod) { pod.Status.Phase = p } }
	cases := map[string]struct {
		change []func(*corev1.Pod)
		of     func(*Members) []*corev1.Pod
	}{
		"pending":              {nil, func(m *Members) []*corev1.Pod { return m.Pending }},
		"gated":                {[]func(*corev1.Pod){gated}, func(m *Members) []*corev1.Pod { return m.Gated }},
		"of two groups":        {[]func(*corev1.Pod){inGroup("a"), labelled("b")}, func(m *Members) []*corev1.Pod { return m.Refused }},
		"of one, twice":        {[]func(*corev1.Pod){inGroup("a"), labelled("a")}, func(m *Members) []*corev1.Pod { return m.Pending }},
		"of two, on a node":    {[]func(*corev1.Pod){inGroup("a"), labelled("b"), onNode}, func(m *Members) []*corev1.Pod { return m.Assigned }},
		"assigned":             {[]func(*corev1.Pod){onNode}, func(m *Members) []*corev1.Pod { return m.Assigned }},
		"terminating":          {[]func(*corev1.Pod){onNode, deleted}, func(m *Members) []*corev1.Pod { return m.Terminating }},
		"terminating, no node": {[]func(*corev1.Pod){deleted}, func(m *Members) []*corev1.Pod { return m.Terminating }},
		"succeeded":            {[]func(*corev1.Pod){onNode, phase(corev1.PodSucceeded)}, func(m *Members) []*corev1.Pod { return m.Succeeded }},
		"succeeded, deleted":   {[]func(*corev1.Pod){phase(corev1.PodSucceeded), deleted}, func(m *Members) []*corev1.Pod { return m.Finished }},
		"failed":               {[]func(*corev1.Pod){onNode, phase(corev1.PodFailed)}, func(m *Members) []*corev1.Pod { return m.Finished }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := MembersOf(named("p", 1, c.change...))
			if len(c.of(&m)) != 1 || m.Total() != 1 {
				t.Errorf("Members are %+v", m)
			}
		})
	}
}

// bounded is a Bounds with all pods in one group. Its value is the result of IsBounded for that
// group.
type bounded bool

func (bounded) GroupOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	return types.NamespacedName{Namespace: pod.Namespace, Name: "g"}, pod.Namespace != ""
}
func (b bounded) IsBounded(types.NamespacedName) bool { return bool(b) }

// TestOutranked checks which pods are blocked because their group outranks them.
func TestOutranked(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		bounds   bounded
		group    Group
		priority int32
		policy   corev1.PreemptionPolicy
		want     bool
	}{
		"a higher pod":               {bounds: true, group: Group{Priority: ptr.To[int32](5)}, priority: 6},
		"one that stands as high":    {bounds: true, group: Group{Priority: ptr.To[int32](5), PreemptionPolicy: corev1.PreemptLowerPriority}, priority: 5, policy: corev1.PreemptLowerPriority},
		"a lower one":                {bounds: true, group: Group{Priority: ptr.To[int32](5)}, priority: 4, want: true},
		"a lower one, of namesakes":  {bounds: false, group: Group{Priority: ptr.To[int32](5)}, priority: 4},
		"a lower one, of a Workload": {bounds: false, group: Group{Priority: ptr.To[int32](5), Bounded: true}, priority: 4, want: true},
		"a lower one, and the class is that of the namespace": {bounds: true, group: Group{Priority: ptr.To[int32](5), ClassOfNamespace: true}, priority: 4},
		"one that may not preempt":                            {bounds: true, group: Group{Priority: ptr.To[int32](5), PreemptionPolicy: corev1.PreemptLowerPriority}, priority: 5, policy: corev1.PreemptNever, want: true},
		"a group that may not either":                         {bounds: true, group: Group{Priority: ptr.To[int32](5), PreemptionPolicy: corev1.PreemptNever}, priority: 5, policy: corev1.PreemptNever},
		"a group without a priority":                          {bounds: true, priority: -1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var groups Store
			c.group.Key = types.NamespacedName{Namespace: "ns", Name: "g"}
			groups.Set(&c.group)
			pod := named("p", 1)[0]
			pod.Spec.Priority, pod.Spec.PreemptionPolicy = &c.priority, &c.policy
			v := Outranked(c.bounds, &groups, pod)
			if c.want != (v.Reason == v1alpha1.ReasonPriorityAbovePods) || !c.want && v != (Verdict{}) {
				t.Errorf("it says %+v, want that it waits: %t", v, c.want)
			}
			const message = "PodGroup ns/g was made for pods of a higher class than that of pod p-0; the scheduler recreates it once no member has a node"
			if c.want && v.Message != message {
				t.Errorf("it says %q, want %q", v.Message, message)
			}
			pod.Namespace = ""
			if v := Outranked(c.bounds, &groups, pod); v != (Verdict{}) {
				t.Errorf("a pod of no group hears %+v", v)
			}
		})
	}
}

// TestBounded checks which PodGroups are recognized as created by Reprieve for the pods of a
// Workload.
func TestBounded(t *testing.T) {
	t.Parallel()
	ours, theirs := map[string]string{LabelManagedBy: ManagedBy}, map[string]string{LabelManagedBy: "helm"}
	workload := metav1.OwnerReference{APIVersion: "scheduling.k8s.io/v1alpha1", Kind: "Workload"}
	cases := map[string]struct {
		labels map[string]string
		owner  metav1.OwnerReference
		want   bool
	}{
		"for a Workload":               {ours, workload, true},
		"for a Job":                    {ours, metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job"}, false},
		"for a Workload of reprieve's": {ours, metav1.OwnerReference{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Workload"}, false},
		"by a user":                    {theirs, workload, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Labels: c.labels, OwnerReferences: []metav1.OwnerReference{c.owner}}}
			if got := FromPodGroup(pg).Bounded; got != c.want {
				t.Errorf("it is bounded: %t, want %t", got, c.want)
			}
		})
	}
}

// TestClassOfNamespace checks that the annotation with the origin of the class counts only on
// groups that Reprieve wrote.
func TestClassOfNamespace(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		managedBy, classOf string
		want               bool
	}{
		"of its namespace": {ManagedBy, v1alpha1.FromNamespace, true},
		"of its object":    {ManagedBy, v1alpha1.FromObject, false},
		"of its pods":      {managedBy: ManagedBy},
		"by a user":        {"helm", v1alpha1.FromNamespace, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{
				Labels: map[string]string{LabelManagedBy: c.managedBy}, Annotations: map[string]string{v1alpha1.AnnotationClassOf: c.classOf},
			}}
			if got := FromPodGroup(pg).ClassOfNamespace; got != c.want {
				t.Errorf("it has its namespace's class: %t, want %t", got, c.want)
			}
		})
	}
}
