package controller

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/native"
)

// fixedMembers is a lister that returns the same members for every group.
type fixedMembers gang.Members

func (m fixedMembers) Members(types.NamespacedName) gang.Members { return gang.Members(m) }

func (fixedMembers) GangGatedBy(*gang.Members) string { return "" }

// referring returns a pod that names a group of a Workload.
func referring(name, class string, priority int32, ref native.WorkloadRef) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{native.AnnotationWorkloadRef: ref.String()}},
		Spec:       corev1.PodSpec{PriorityClassName: class, Priority: ptr.To(priority)},
	}
}

func TestWorkloadGroups(t *testing.T) {
	t.Parallel()
	ref := native.WorkloadRef{Workload: "w", PodGroup: "g"}
	kind := schema.GroupVersionKind{Group: native.Group, Version: "v1alpha1", Kind: "Workload"}
	// Each test needs a separate object, because the client changes the object's version.
	workload := func() client.Object {
		out := native.NewObject(kind)
		out.SetNamespace("ns")
		out.SetName("w")
		out.SetUID("u")
		out.Object["spec"] = map[string]any{"podGroups": []any{
			map[string]any{"name": "g", "policy": map[string]any{"gang": map[string]any{"minCount": int64(2)}}},
		}}
		return out
	}
	other := native.WorkloadRef{Workload: "w", PodGroup: "other"}
	members := fixedMembers{Pending: []*corev1.Pod{referring("p", "high", 10, ref), referring("q", "low", 1, ref)}}
	cases := map[string]struct {
		objects  []client.Object
		ref      native.WorkloadRef
		members  fixedMembers
		wantMade bool
		wantTold string
	}{
		"it is made":                    {objects: []client.Object{workload()}, ref: ref, members: members, wantMade: true},
		"nothing names it":              {objects: []client.Object{workload()}, ref: ref, members: fixedMembers{Pending: []*corev1.Pod{{}}}},
		"there is no Workload":          {ref: ref, members: members, wantTold: "Workload w, which spec.workloadRef names, does not exist"},
		"there is none, and none waits": {ref: ref, members: fixedMembers{Assigned: members.Pending}},
		"the Workload does not have it": {
			objects: []client.Object{workload()}, ref: other, members: fixedMembers{Gated: []*corev1.Pod{referring("p", "", 0, other)}},
			wantTold: "Workload w has no group other",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			// The builder registers a type only if it gets an object of the type, so register it
			// here.
			scheme.AddKnownTypeWithName(kind, native.NewObject(kind))
			cl := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(c.objects...).Build()
			recorder := events.NewFakeRecorder(4)
			r := NewWorkloadGroups(cl, kind, c.members, func(*corev1.Pod) string { return v1alpha1.LabelQueue }, nil, gangsOf(), recorder)
			key := types.NamespacedName{Namespace: "ns", Name: c.ref.GroupName()}
			for range 2 {
				if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
					t.Fatal(err)
				}
			}
			var pg v1alpha1.PodGroup
			err := cl.Get(t.Context(), key, &pg)
			if (err == nil) != c.wantMade || err != nil && !apierrors.IsNotFound(err) {
				t.Fatalf("the PodGroup: %v, want it made: %t", err, c.wantMade)
			}
			if c.wantMade && (pg.Spec.SchedulingPolicy.Gang.MinCount != 2 || *pg.Spec.PriorityClassName != "low" || pg.OwnerReferences[0].UID != "u") {
				t.Errorf("it is %+v, owned by %+v", pg.Spec, pg.OwnerReferences)
			}
			told := ""
			for len(recorder.Events) > 0 {
				told += <-recorder.Events
			}
			if strings.Count(told, c.wantTold) != 1 && c.wantTold != "" || c.wantTold == "" && told != "" {
				t.Errorf("told %q, want %q once", told, c.wantTold)
			}
		})
	}
}

// TestWorkloadGroupsAnew checks that a PodGroup is replaced if its class has a higher priority than
// its pods. The PodGroup must not be replaced in three cases: a member has a node, the group is
// being placed, or a user created the PodGroup.
func TestWorkloadGroupsAnew(t *testing.T) {
	t.Parallel()
	ref := native.WorkloadRef{Workload: "w", PodGroup: "g"}
	kind := schema.GroupVersionKind{Group: native.Group, Version: "v1alpha1", Kind: "Workload"}
	high, low := referring("p", "high", 10, ref), referring("q", "low", 1, ref)
	cases := map[string]struct {
		then      fixedMembers
		placing   bool
		ofUser    bool
		wantClass string
		wantAgain bool
	}{
		"a lower pod has come":                             {then: fixedMembers{Pending: []*corev1.Pod{high, low}}, wantClass: "low"},
		"a lower pod has come, and one runs":               {then: fixedMembers{Pending: []*corev1.Pod{low}, Assigned: []*corev1.Pod{high}}, wantClass: "high"},
		"a lower pod has come, and the others are planned": {then: fixedMembers{Pending: []*corev1.Pod{high, low}}, placing: true, wantClass: "high", wantAgain: true},
		"a lower pod has come to one of a user":            {then: fixedMembers{Pending: []*corev1.Pod{high, low}}, ofUser: true, wantClass: "high"},
		"all have gone":                                    {wantClass: "high"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			workload := native.NewObject(kind)
			workload.SetNamespace("ns")
			workload.SetName("w")
			workload.SetUID("u")
			workload.Object["spec"] = map[string]any{"podGroups": []any{
				map[string]any{"name": "g", "policy": map[string]any{"gang": map[string]any{"minCount": int64(2)}}},
			}}
			stored := interceptor.Funcs{Create: func(ctx context.Context, cl client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				if pg, ok := obj.(*v1alpha1.PodGroup); ok && c.ofUser {
					pg.Labels = nil
				}
				return cl.Create(ctx, obj, opts...)
			}}
			cl := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(workload).WithInterceptorFuncs(stored).Build()
			key := types.NamespacedName{Namespace: "ns", Name: ref.GroupName()}
			members, gangs := fixedMembers{Pending: []*corev1.Pod{high}}, gangsOf(key)
			r := NewWorkloadGroups(cl, kind, &members, func(*corev1.Pod) string { return "" }, nil, gangs, events.NewFakeRecorder(4))
			look := func() (again bool) {
				t.Helper()
				result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
				if err != nil {
					t.Fatal(err)
				}
				return result.RequeueAfter > 0
			}
			look()
			if members = c.then; c.placing {
				gangs.SetPlan(gang.KeyOf(key), []engine.Assignment{{Member: "p", Node: "node-0"}})
			}
			again := look()
			for range 2 {
				look()
			}
			var pg v1alpha1.PodGroup
			if err := cl.Get(t.Context(), key, &pg); err != nil || *pg.Spec.PriorityClassName != c.wantClass {
				t.Errorf("its class is %q, error %v, want %q", ptr.Deref(pg.Spec.PriorityClassName, ""), err, c.wantClass)
			}
			if again != c.wantAgain {
				t.Errorf("it is looked at again: %t, want %t", again, c.wantAgain)
			}
		})
	}
}
