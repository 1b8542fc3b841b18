package tenants

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// fill adds an owner to an object until etcd accepts no larger object. The owner has a very long
// name, and a kind that does not exist. So the garbage collector keeps the object.
func (e *env) fill(obj client.Object) {
	e.Helper()
	const etcdMost, exactly = 1536 << 10, 64
	size := 0
	for step := etcdMost; step >= exactly; step /= 2 {
		patch := fmt.Appendf(nil, `{"metadata":{"ownerReferences":[{"apiVersion":"example.com/v1","kind":"None","uid":"none","name":%q}]}}`,
			strings.Repeat("x", size+step))
		switch err := e.edit.Patch(e.Context(), obj, client.RawPatch(types.MergePatchType, patch)); {
		case err == nil:
			size += step
		case !strings.Contains(err.Error(), "too large"):
			e.Fatal(err)
		}
	}
	e.Logf("%s has an owner with a name of %d bytes", obj.GetName(), size)
}

// shrink removes the owners and annotations of an object.
func (e *env) shrink(obj client.Object, name string) {
	e.Helper()
	obj.SetNamespace(e.Namespace)
	obj.SetName(name)
	// The context of the test has ended.
	ctx := context.WithoutCancel(e.Context())
	if err := e.Objects.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null,"annotations":null}}`))); err != nil {
		e.Error(err)
	}
}

// TestTooLargeToMark tests a user who fills the objects of a running gang until the API server
// accepts no larger object. Then the scheduler cannot write an intent or a condition to these
// objects. It must select another victim, even if that victim has a higher priority. The policies
// podgroup-size and pod-size refuse such objects, but do not apply here.
func TestTooLargeToMark(t *testing.T) {
	t.Parallel()
	for what, tc := range map[string]struct {
		// fill makes the objects of the gang too large.
		fill func(e *env)
		// says has parts of the event about the failed preemption.
		says []string
	}{
		"a PodGroup": {func(e *env) {
			e.do(e.edit.Create(e.Context(), e.group("large", "low", "", 1)))
			e.running("large-0", "low", "a", 1, inGroup("large"))
			e.fill(&v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "large"}})
		}, []string{"mark PodGroup", "too large"}},
		"a tree": {func(e *env) {
			tree := e.tree("large", "low")
			e.do(e.edit.Create(e.Context(), tree))
			part := e.group("part", "low", "", 1)
			part.Spec.ParentCompositePodGroupName = ptr.To("large")
			e.do(e.edit.Create(e.Context(), part))
			e.running("large-0", "low", "a", 1, inGroup("part"))
			e.fill(&v1alpha1.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "large"}})
		}, []string{"mark PodGroup", "too large"}},
		"a pod": {func(e *env) {
			e.running("large-0", "low", "a", 1)
			e.fill(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "large-0"}})
		}, []string{"set condition DisruptionTarget", "too large"}},
		// The annotations have the maximum size. With the scheduler's record, which the API server
		// adds without this check, they exceed it. Then every change of the pod is invalid.
		"the annotations of a pod": {func(e *env) {
			const key, most = "example.com/a", 256 << 10
			e.pod("large-0", "low", "a", func(pod *corev1.Pod) {
				pod.Annotations = map[string]string{key: strings.Repeat("x", most-len(key))}
			})
			e.Eventually("the pod has a node", func(context.Context) string {
				if e.Pod("large-0").Spec.NodeName == "" {
					return "it has none"
				}
				return ""
			})
		}, []string{"set condition DisruptionTarget", "metadata.annotations: Too long"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e := newUnguarded(t)
			e.AddNodes(4, "a", "b")
			tc.fill(e)
			// A pod of this size cannot be deleted.
			e.Cleanup(func() { e.shrink(&corev1.Pod{}, "large-0") })
			e.running("other", "mid", "b", 1)
			e.urgent(false)
			e.Gone("other")
			e.Runs("urgent", 1)
			e.WaitEvent("urgent", "PreemptionFailed", tc.says...)
			if pod := e.Pod("large-0"); pod.DeletionTimestamp != nil {
				t.Error("the pod that cannot be marked terminates")
			}
		})
	}
}
