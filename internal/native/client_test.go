package native

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

func newTestClient(t *testing.T, objects ...client.Object) *Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, schedulingv1beta1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.PodGroup{}, &schedulingv1beta1.PodGroup{}).Build()
	return NewClient(c, schedulingv1beta1.SchemeGroupVersion.WithKind("PodGroup"))
}

func own(name string) *v1alpha1.PodGroup {
	return &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "own"}}
}

func theirs(name string) *schedulingv1beta1.PodGroup {
	pg := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "theirs"}}
	pg.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 3}
	pg.Spec.Priority = ptr.To[int32](9)
	return pg
}

func TestGetsBoth(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, own("own"), theirs("theirs"), own("both"), theirs("both"), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod"}})
	for name, want := range map[string]string{"own": "own", "theirs": "theirs", "both": "own", "neither": ""} {
		var pg v1alpha1.PodGroup
		err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, &pg)
		if want == "" {
			if !apierrors.IsNotFound(err) {
				t.Errorf("%s: got %+v, error %v", name, pg, err)
			}
			continue
		}
		if err != nil || string(pg.UID) != want || IsNative(&pg) != (want == "theirs") {
			t.Errorf("%s: got %+v, error %v, want %s", name, pg, err, want)
		}
	}
	var pod corev1.Pod
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "pod"}, &pod); err != nil {
		t.Error(err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "theirs"}, &pod); !apierrors.IsNotFound(err) {
		t.Errorf("A pod of that name: %v", err)
	}
	var all v1alpha1.PodGroupList
	if err := c.List(t.Context(), &all, client.Limit(500), client.Continue("")); err != nil || len(all.Items) != 4 {
		t.Errorf("Listed %d, error %v", len(all.Items), err)
	}
	var pods corev1.PodList
	if err := c.List(t.Context(), &pods); err != nil || len(pods.Items) != 1 {
		t.Errorf("Listed %d pods, error %v", len(pods.Items), err)
	}
}

func TestWritesStatus(t *testing.T) {
	t.Parallel()
	now := metav1.NewTime(time.Unix(1000, 0))
	condition := metav1.Condition{Type: "PodGroupScheduled", Status: metav1.ConditionTrue, Reason: "Scheduled", LastTransitionTime: now}
	cases := map[string]struct {
		change func(*v1alpha1.PodGroupStatus)
		// wantWritten is false if the status of scheduling.k8s.io cannot store the changed fields.
		wantWritten bool
		want        []string
	}{
		"a condition": {func(st *v1alpha1.PodGroupStatus) { meta.SetStatusCondition(&st.Conditions, condition) }, true, []string{"Before", "PodGroupScheduled", conditionInitially}},
		"a start":     {func(st *v1alpha1.PodGroupStatus) { st.StartTime = &now }, true, []string{"Before", ConditionStarted}},
		"a disruption": {func(st *v1alpha1.PodGroupStatus) {
			st.Disruption = &v1alpha1.PodGroupDisruption{Time: now, Pods: []v1alpha1.DisruptedPod{{Name: "p"}}}
		}, true, []string{"Before", ConditionDisruption}},
		"counts":  {func(st *v1alpha1.PodGroupStatus) { st.Running, st.Pending = 7, 1 }, false, []string{"Before"}},
		"nothing": {func(*v1alpha1.PodGroupStatus) {}, false, []string{"Before"}},
	}
	for name, c := range cases {
		for _, verb := range []string{"patch", "update"} {
			t.Run(name+" by "+verb, func(t *testing.T) {
				t.Parallel()
				before := theirs("g")
				before.Status.Conditions = []metav1.Condition{{Type: "Before", Status: metav1.ConditionTrue, Reason: "X", LastTransitionTime: now}}
				cl := newTestClient(t, before)
				key := client.ObjectKeyFromObject(before)
				var pg v1alpha1.PodGroup
				if err := cl.Get(t.Context(), key, &pg); err != nil {
					t.Fatal(err)
				}
				was := pg.DeepCopy()
				c.change(&pg.Status)
				var err error
				if verb == "patch" {
					err = cl.Status().Patch(t.Context(), &pg, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}))
				} else {
					err = cl.Status().Update(t.Context(), &pg)
				}
				if err != nil {
					t.Fatal(err)
				}
				var got schedulingv1beta1.PodGroup
				if err := cl.Client.Get(t.Context(), key, &got); err != nil {
					t.Fatal(err)
				}
				if len(got.Status.Conditions) != len(c.want) {
					t.Errorf("The conditions are %+v, want %q", got.Status.Conditions, c.want)
				}
				for _, kind := range c.want {
					if meta.FindStatusCondition(got.Status.Conditions, kind) == nil {
						t.Errorf("There is no condition %s among %+v", kind, got.Status.Conditions)
					}
				}
				if got.Spec.SchedulingPolicy.Gang == nil || *got.Spec.Priority != 9 {
					t.Errorf("The spec has become %+v", got.Spec)
				}
				if verb == "patch" && (got.ResourceVersion != was.ResourceVersion) != c.wantWritten {
					t.Errorf("Written: %t", !c.wantWritten)
				}
				if pg.ResourceVersion != got.ResourceVersion {
					t.Errorf("The object has version %s, want %s", pg.ResourceVersion, got.ResourceVersion)
				}
				// An update of an outdated object must fail with a conflict.
				stale := was.DeepCopy()
				stale.Status.StartTime = &metav1.Time{Time: time.Unix(5, 0)}
				err = cl.Status().Update(t.Context(), stale)
				if (got.ResourceVersion != was.ResourceVersion) != apierrors.IsConflict(err) {
					t.Errorf("A write on top of an old version: %v", err)
				}
			})
		}
	}
}

// TestWritesStatusOfFirstVersion checks that a PodGroup of v1alpha2 gets the condition
// PodGroupScheduled only, and not the condition of later versions.
func TestWritesStatusOfFirstVersion(t *testing.T) {
	t.Parallel()
	kind := schema.GroupVersionKind{Group: Group, Version: firstVersion, Kind: "PodGroup"}
	before := object(t, firstVersion, `{schedulingPolicy: {gang: {minCount: 3}}}`)
	before.SetResourceVersion("")
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cl := NewClient(fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(before).WithStatusSubresource(before).Build(), kind)
	var pg v1alpha1.PodGroup
	if err := cl.Get(t.Context(), client.ObjectKeyFromObject(before), &pg); err != nil {
		t.Fatal(err)
	}
	pg.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionPodGroupScheduled, Status: metav1.ConditionTrue, Reason: "Scheduled", LastTransitionTime: metav1.NewTime(time.Unix(1000, 0)),
	}}
	if err := cl.Status().Update(t.Context(), &pg); err != nil {
		t.Fatal(err)
	}
	got := NewObject(kind)
	if err := cl.Client.Get(t.Context(), client.ObjectKeyFromObject(before), got); err != nil {
		t.Fatal(err)
	}
	if all := ReadConditions(got); len(all) != 1 || all[0].Type != v1alpha1.ConditionPodGroupScheduled {
		t.Errorf("The conditions are %+v, want PodGroupScheduled alone", all)
	}
}

func TestWritesOwnStatus(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, own("g"), theirs("g"))
	var pg v1alpha1.PodGroup
	key := client.ObjectKey{Namespace: "ns", Name: "g"}
	if err := c.Get(t.Context(), key, &pg); err != nil {
		t.Fatal(err)
	}
	before := pg.DeepCopy()
	pg.Status.Running = 7
	if err := c.Status().Patch(t.Context(), &pg, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	pg.Status.Pending = 3
	if err := c.Status().Update(t.Context(), &pg); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), key, &pg); err != nil || pg.Status.Running != 7 || pg.Status.Pending != 3 {
		t.Errorf("Got %+v, error %v", pg.Status, err)
	}
}
