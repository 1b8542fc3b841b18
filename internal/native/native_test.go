package native

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// object returns a PodGroup of scheduling.k8s.io in the form in which clients read it.
func object(t *testing.T, version, spec string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON(fmt.Appendf(nil, "apiVersion: scheduling.k8s.io/%s\nkind: PodGroup\nmetadata: {namespace: ns, name: g, uid: u, resourceVersion: '7', generation: 3}\nspec: %s\n", version, spec))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestFromObject(t *testing.T) {
	t.Parallel()
	gangOf := func(minCount int32) *v1alpha1.SchedulingPolicy {
		return &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: minCount}}
	}
	basic := &v1alpha1.SchedulingPolicy{Basic: &v1alpha1.BasicSchedulingPolicy{}}
	cases := map[string]struct {
		version, spec string
		want          v1alpha1.PodGroupPolicy
	}{
		"basic":         {"v1alpha2", `{schedulingPolicy: {basic: {}}}`, v1alpha1.PodGroupPolicy{SchedulingPolicy: basic}},
		"gang":          {"v1alpha2", `{schedulingPolicy: {gang: {minCount: 4}}}`, v1alpha1.PodGroupPolicy{SchedulingPolicy: gangOf(4)}},
		"mode Pod":      {"v1alpha2", `{schedulingPolicy: {gang: {minCount: 4}}, disruptionMode: Pod}`, v1alpha1.PodGroupPolicy{SchedulingPolicy: gangOf(4), DisruptionMode: ptr.To(v1alpha1.DisruptionModePod)}},
		"mode PodGroup": {"v1alpha2", `{schedulingPolicy: {gang: {minCount: 4}}, disruptionMode: PodGroup}`, v1alpha1.PodGroupPolicy{SchedulingPolicy: gangOf(4), DisruptionMode: ptr.To(v1alpha1.DisruptionModePodGroup)}},
		"mode single":   {"v1beta1", `{schedulingPolicy: {gang: {minCount: 4}}, disruptionMode: {single: {}}}`, v1alpha1.PodGroupPolicy{SchedulingPolicy: gangOf(4), DisruptionMode: ptr.To(v1alpha1.DisruptionModePod)}},
		"mode all":      {"v1beta1", `{schedulingPolicy: {gang: {minCount: 4}}, disruptionMode: {all: {}}}`, v1alpha1.PodGroupPolicy{SchedulingPolicy: gangOf(4), DisruptionMode: ptr.To(v1alpha1.DisruptionModePodGroup)}},
		"basic, disrupted together": {"v1beta1", `{schedulingPolicy: {basic: {}}, disruptionMode: {all: {}}}`,
			v1alpha1.PodGroupPolicy{SchedulingPolicy: basic, DisruptionMode: ptr.To(v1alpha1.DisruptionModePodGroup)}},
		"an empty union": {"v1beta1", `{schedulingPolicy: {gang: {minCount: 4}}, disruptionMode: {}}`, v1alpha1.PodGroupPolicy{SchedulingPolicy: gangOf(4), DisruptionMode: ptr.To(v1alpha1.DisruptionModePod)}},
		"a mode that is not known keeps them together": {"v2", `{schedulingPolicy: {gang: {minCount: 4}}, disruptionMode: {some: {}}}`,
			v1alpha1.PodGroupPolicy{SchedulingPolicy: gangOf(4), DisruptionMode: ptr.To(v1alpha1.DisruptionModePodGroup)}},
		"a priority": {"v1alpha2", `{schedulingPolicy: {basic: {}}, priorityClassName: high, priority: -7}`,
			v1alpha1.PodGroupPolicy{SchedulingPolicy: basic, PriorityClassName: ptr.To("high"), Priority: ptr.To[int32](-7)}},
		"a policy": {"v1beta1", `{schedulingPolicy: {basic: {}}, priority: 0, preemptionPolicy: Never}`,
			v1alpha1.PodGroupPolicy{SchedulingPolicy: basic, Priority: ptr.To[int32](0), PreemptionPolicy: ptr.To(corev1.PreemptNever)}},
		"a topology key": {"v1beta1", `{schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: [{key: rack}]}}`,
			v1alpha1.PodGroupPolicy{
				SchedulingPolicy:      gangOf(2),
				SchedulingConstraints: &v1alpha1.SchedulingConstraints{Topology: []v1alpha1.TopologyConstraint{{Key: "rack"}}},
			}},
		"a topology key, placed one by one": {"v1beta1", `{schedulingPolicy: {basic: {}}, schedulingConstraints: {topology: [{key: rack}]}}`,
			v1alpha1.PodGroupPolicy{
				SchedulingPolicy:      gangOf(1),
				SchedulingConstraints: &v1alpha1.SchedulingConstraints{Topology: []v1alpha1.TopologyConstraint{{Key: "rack"}}},
			}},
		"fields that are not known": {"v2", `{schedulingPolicy: {other: {}}, priority: high, more: [1]}`, v1alpha1.PodGroupPolicy{SchedulingPolicy: basic}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := FromObject(object(t, c.version, c.spec))
			if !reflect.DeepEqual(got.Spec.PodGroupPolicy, c.want) {
				t.Errorf("Got %+v, want %+v", got.Spec.PodGroupPolicy, c.want)
			}
			if !IsNative(got) || got.APIVersion != "scheduling.k8s.io/"+c.version || got.Namespace != "ns" || got.Name != "g" || got.UID != "u" ||
				got.ResourceVersion != "7" || got.Generation != 3 {
				t.Errorf("Got %+v", got)
			}
		})
	}
	if IsNative(&v1alpha1.PodGroup{}) || IsNative(&v1alpha1.PodGroup{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String()}}) {
		t.Error("A PodGroup of reprieve.dev passes for one of scheduling.k8s.io")
	}
}

func TestLabelsOfObject(t *testing.T) {
	u := object(t, "v1alpha2", "{}")
	u.SetLabels(map[string]string{v1alpha1.LabelQueue: "a"})
	if got := gang.FromPodGroup(FromObject(u)).Labels; got[v1alpha1.LabelQueue] != "a" {
		t.Errorf("labels %v, want the queue's", got)
	}
}

func TestUnsupported(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		`{schedulingPolicy: {basic: {}}}`: "",
		`{schedulingPolicy: {basic: {}}, schedulingConstraints: {}, parentCompositePodGroupName: ""}`:                 "",
		`{schedulingPolicy: {basic: {}}, schedulingConstraints: {topology: [{key: rack}]}}`:                           "",
		`{schedulingPolicy: {basic: {}}, schedulingConstraints: {topology: [{key: rack}, {key: zone}]}}`:              "spec.schedulingConstraints",
		`{schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: [{key: rack}]}}`:                 "",
		`{schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: [{key: rack}, {key: zone}]}}`:    "spec.schedulingConstraints",
		`{schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: [{key: rack, preferred: yes}]}}`: "spec.schedulingConstraints",
		`{schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: [{key: rack}], other: {}}}`:      "spec.schedulingConstraints",
		`{schedulingPolicy: {basic: {}}, resourceClaims: []}`:                                                         "",
		`{schedulingPolicy: {gang: {minCount: 2}}, resourceClaims: [{name: shared, resourceClaimName: c}]}`:           "spec.resourceClaims",
		`{schedulingPolicy: {basic: {}}, parentCompositePodGroupName: c}`:                                             "spec.parentCompositePodGroupName",
		`{schedulingPolicy: {basic: {}}, parentCompositePodGroupName: c, schedulingConstraints: {topology: []}}`:      "spec.schedulingConstraints and spec.parentCompositePodGroupName",
	} {
		if got := gang.FromPodGroup(FromObject(object(t, "v1alpha2", spec))).Unsupported; got != want {
			t.Errorf("%s: got %q, want %q", spec, got, want)
		}
	}
}

// TestStatusThereAndBack checks that reading a written status returns the data that is stored in
// conditions.
func TestStatusThereAndBack(t *testing.T) {
	t.Parallel()
	now := metav1.NewTime(time.Unix(1000, 0).UTC())
	conditions := []metav1.Condition{
		{Type: "PodGroupScheduled", Status: metav1.ConditionTrue, Reason: "Scheduled", Message: "2 members", LastTransitionTime: now, ObservedGeneration: 3},
		{Type: "example.com/Other", Status: metav1.ConditionFalse, Reason: "X", LastTransitionTime: now},
	}
	disruption := func(pods int) *v1alpha1.PodGroupDisruption {
		d := &v1alpha1.PodGroupDisruption{
			Preemptor: v1alpha1.DisruptionPreemptor{Kind: v1alpha1.PreemptorPod, Namespace: "ns", Name: "urgent", UID: "v"},
			Rule:      "LowerPriority", Message: strings.Repeat("ö", 200), Time: now,
		}
		for i := range pods {
			d.Pods = append(d.Pods, v1alpha1.DisruptedPod{Name: fmt.Sprintf("member-of-a-gang-with-a-long-name-%d", i), UID: types.UID(fmt.Sprintf("%036d", i))})
		}
		return d
	}
	cases := map[string]struct {
		status    v1alpha1.PodGroupStatus
		wantParts int
	}{
		"nothing":           {v1alpha1.PodGroupStatus{Conditions: []metav1.Condition{}}, 0},
		"conditions":        {v1alpha1.PodGroupStatus{Conditions: conditions}, 0},
		"a start":           {v1alpha1.PodGroupStatus{Conditions: conditions, StartTime: &now}, 0},
		"a disruption":      {v1alpha1.PodGroupStatus{Conditions: conditions, StartTime: &now, Disruption: disruption(2)}, 1},
		"one of many pods":  {v1alpha1.PodGroupStatus{Conditions: []metav1.Condition{}, Disruption: disruption(1000)}, 3},
		"one of many, many": {v1alpha1.PodGroupStatus{Conditions: []metav1.Condition{}, Disruption: disruption(10000)}, 29},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, err := allConditions(&c.status)
			if err != nil {
				t.Fatal(err)
			}
			parts := 0
			list := make([]any, len(all))
			for i := range all {
				if isPart(all[i].Type) {
					parts++
				}
				if len(all[i].Message) > longestMessage || !utf8.ValidString(all[i].Message) || all[i].Reason == "" || all[i].LastTransitionTime.IsZero() {
					t.Errorf("The API takes no condition like %s with a message of %d", all[i].Type, len(all[i].Message))
				}
				if list[i], err = runtime.DefaultUnstructuredConverter.ToUnstructured(&all[i]); err != nil {
					t.Fatal(err)
				}
			}
			if parts != c.wantParts {
				t.Errorf("The disruption takes %d conditions, want %d", parts, c.wantParts)
			}
			u := object(t, "v1alpha2", `{schedulingPolicy: {basic: {}}}`)
			u.Object["status"] = map[string]any{"conditions": list}
			got := FromObject(u).Status
			if fmt.Sprintf("%+v", got.Conditions) != fmt.Sprintf("%+v", c.status.Conditions) || !got.StartTime.Equal(c.status.StartTime) {
				t.Errorf("Got %+v, want %+v", got, c.status)
			}
			if (got.Disruption == nil) != (c.status.Disruption == nil) || got.Disruption != nil &&
				(!reflect.DeepEqual(got.Disruption.Pods, c.status.Disruption.Pods) || got.Disruption.Message != c.status.Disruption.Message ||
					got.Disruption.Preemptor != c.status.Disruption.Preemptor || !got.Disruption.Time.Equal(&c.status.Disruption.Time)) {
				t.Errorf("Got %+v, want %+v", got.Disruption, c.status.Disruption)
			}
		})
	}
}

func TestDiscover(t *testing.T) {
	t.Parallel()
	version := func(v string, resources ...string) *metav1.APIResourceList {
		out := &metav1.APIResourceList{GroupVersion: "scheduling.k8s.io/" + v}
		for _, r := range resources {
			out.APIResources = append(out.APIResources, metav1.APIResource{Name: r, Kind: "PodGroup"})
		}
		return out
	}
	cases := map[string]struct {
		served []*metav1.APIResourceList
		want   string
	}{
		"1.34":         {served: []*metav1.APIResourceList{version("v1", "priorityclasses")}},
		"1.35":         {served: []*metav1.APIResourceList{version("v1", "priorityclasses"), version("v1alpha1", "workloads")}},
		"1.36":         {served: []*metav1.APIResourceList{version("v1", "priorityclasses"), version("v1alpha2", "workloads", "podgroups", "podgroups/status")}, want: "v1alpha2"},
		"two versions": {served: []*metav1.APIResourceList{version("v1alpha3", "podgroups"), version("v1", "priorityclasses"), version("v1beta1", "podgroups"), version("v1alpha2", "podgroups")}, want: "v1beta1"},
		"in time":      {served: []*metav1.APIResourceList{version("v1beta1", "podgroups"), version("v1", "priorityclasses", "podgroups")}, want: "v1"},
		"elsewhere":    {served: []*metav1.APIResourceList{{GroupVersion: "reprieve.dev/v1alpha1", APIResources: []metav1.APIResource{{Name: "podgroups", Kind: "PodGroup"}}}}},
		"nothing":      {},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Discover(&fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: c.served}})
			if c.want == "" {
				if !errors.Is(err, ErrNotServed) {
					t.Errorf("Found %v, error %v", got, err)
				}
				return
			}
			if want := (schema.GroupVersionKind{Group: Group, Version: c.want, Kind: "PodGroup"}); err != nil || got != want {
				t.Errorf("Found %v, error %v, want %v", got, err, want)
			}
		})
	}
}

// TestInitially checks that the condition PodGroupInitiallyScheduled stays True once it was True.
func TestInitially(t *testing.T) {
	t.Parallel()
	scheduled := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(time.Unix(1000, 0))}
	}
	const now = v1alpha1.ConditionPodGroupScheduled
	cases := map[string]struct {
		given []metav1.Condition
		want  string
	}{
		"nothing is known":    {},
		"not yet":             {given: []metav1.Condition{scheduled(now, metav1.ConditionFalse, "Pending")}, want: "False Pending"},
		"for another reason":  {given: []metav1.Condition{scheduled(now, metav1.ConditionFalse, "Unschedulable"), scheduled(conditionInitially, metav1.ConditionFalse, "Pending")}, want: "False Unschedulable"},
		"for the first time":  {given: []metav1.Condition{scheduled(now, metav1.ConditionTrue, "Scheduled"), scheduled(conditionInitially, metav1.ConditionFalse, "Pending")}, want: "True Scheduled"},
		"no more, but it was": {given: []metav1.Condition{scheduled(now, metav1.ConditionFalse, "Pending"), scheduled(conditionInitially, metav1.ConditionTrue, "Scheduled")}, want: "True Scheduled"},
		"whoever has said so": {given: []metav1.Condition{scheduled(conditionInitially, metav1.ConditionTrue, "X")}, want: "True X"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			setInitially(&c.given)
			got := ""
			if found := meta.FindStatusCondition(c.given, conditionInitially); found != nil {
				got = string(found.Status) + " " + found.Reason
			}
			if got != c.want {
				t.Errorf("It is %q, want %q", got, c.want)
			}
		})
	}
}
