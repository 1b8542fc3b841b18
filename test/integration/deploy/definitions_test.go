package deploy

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// treeName is the name of a CompositePodGroup. The chart of the last release has no CRD for this
// kind.
const treeName = "inference"

// treePods returns the names of the pods in the tree.
func treePods() []string { return []string{"prefill-0", "decode-0"} }

// createTree creates a CompositePodGroup with two PodGroups, and waits until their pods run.
func (h *helm) createTree(t *testing.T) {
	t.Helper()
	tree := &v1alpha1.CompositePodGroup{ObjectMeta: meta(treeName)}
	tree.Spec.SchedulingPolicy.Gang = &v1alpha1.CompositeGangSchedulingPolicy{MinGroupCount: 2}
	h.create(t, tree)
	for _, role := range []string{"prefill", "decode"} {
		policy := gangOfTwo(low)
		policy.SchedulingPolicy.Gang.MinCount, policy.ParentCompositePodGroupName, policy.PriorityClassName = 1, &tree.Name, nil
		h.create(t, &v1alpha1.PodGroup{ObjectMeta: meta(role), Spec: v1alpha1.PodGroupSpec{PodGroupPolicy: policy}},
			newPod(role+"-0", "stream", "", memberOf(role), asks(corev1.ResourceCPU, "50m")))
	}
	h.waitRunning(t, treePods()...)
}

// checkTree checks that the CompositePodGroup still exists.
func (h *helm) checkTree(t *testing.T) {
	t.Helper()
	if err := h.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: treeName}, &v1alpha1.CompositePodGroup{}); err != nil {
		t.Error(err)
	}
}

// addedDefinitions returns the CRDs of the chart that the installed release does not have.
func (h *helm) addedDefinitions(t *testing.T) manifests {
	t.Helper()
	const kind = "CustomResourceDefinition"
	installed := h.installed(t).ofKind(kind)
	var added manifests
	for _, crd := range render(t, deployPath(t)).ofKind(kind) {
		isInstalled := func(other *unstructured.Unstructured) bool { return other.GetName() == crd.GetName() }
		if !slices.ContainsFunc(installed, isInstalled) {
			added = append(added, crd)
		}
	}
	return added
}

// makeOlder changes an existing CRD to look like the CRD of an older version.
func (h *helm) makeOlder(t *testing.T, crd *unstructured.Unstructured) {
	t.Helper()
	var old apiextensionsv1.CustomResourceDefinition
	if err := h.Get(t.Context(), client.ObjectKeyFromObject(crd), &old); err != nil {
		t.Fatal(err)
	}
	for i := range old.Spec.Versions {
		old.Spec.Versions[i].AdditionalPrinterColumns = nil
		old.Spec.Versions[i].Schema.OpenAPIV3Schema.Description = "The description of an older version."
	}
	if err := h.Update(t.Context(), &old); err != nil {
		t.Fatal(err)
	}
}

// wantNewest checks that an existing CRD has the same API versions as the CRD in the chart.
func (h *helm) wantNewest(t *testing.T, crd *unstructured.Unstructured) {
	t.Helper()
	var got apiextensionsv1.CustomResourceDefinition
	if err := h.Get(t.Context(), client.ObjectKeyFromObject(crd), &got); err != nil {
		t.Fatal(err)
	}
	if want := typed[apiextensionsv1.CustomResourceDefinition](t, crd); !equality.Semantic.DeepEqual(got.Spec.Versions, want.Spec.Versions) {
		t.Errorf("the upgrade left the versions of %s at\n%+v\nwant\n%+v", got.Name, got.Spec.Versions, want.Spec.Versions)
	}
}
