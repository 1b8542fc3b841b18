package deploy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// These are parts of the messages of the policy pod-size.
const (
	tooMuchMetadata = "of a pod have at most 65536 bytes"
	tooLargePod     = "a pod has at most 1048576 bytes"
)

// annotated returns a function that adds an annotation of a size to a pod.
func annotated(key string, size int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[key] = strings.Repeat("x", size)
	}
}

// testPodSize checks the bounds on the size of a pod: when a user creates a pod, and when a user
// changes a pod that runs.
func testPodSize(t *testing.T, c *cluster, tenant client.Client) {
	arguments := func(size int) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Spec.Containers[0].Args = []string{strings.Repeat("x", size)} }
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"as usual":              {func(*corev1.Pod) {}, ""},
		"60 KiB of annotations": {annotated("a", 60<<10), ""},
		"70 KiB of annotations": {annotated("a", 70<<10), tooMuchMetadata},
		"of another scheduler": {func(pod *corev1.Pod) {
			annotated("a", 70<<10)(pod)
			pod.Spec.SchedulerName = "default-scheduler"
		}, ""},
		// In UTF-8, 35,000 of these characters are 70,000 bytes.
		"characters of two bytes": {func(pod *corev1.Pod) { pod.Annotations = map[string]string{"a": strings.Repeat("ä", 35000)} }, tooMuchMetadata},
		"many labels": {func(pod *corev1.Pod) {
			pod.Labels = map[string]string{}
			for i := range 8000 {
				pod.Labels[fmt.Sprintf("a%d", i)] = ""
			}
		}, tooMuchMetadata},
		"an owner of a long name": {func(pod *corev1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: strings.Repeat("x", 70<<10), UID: "u"}}
		}, tooMuchMetadata},
		"many finalizers": {func(pod *corev1.Pod) {
			for i := range 4000 {
				pod.Finalizers = append(pod.Finalizers, fmt.Sprintf("example.com/f%d", i))
			}
		}, tooMuchMetadata},
		"900 KiB of arguments":   {arguments(900 << 10), ""},
		"1.1 MiB of arguments":   {arguments(1100 << 10), tooLargePod},
		"all kinds of values":    {everyKind, ""},
		"1.1 MiB of environment": {func(pod *corev1.Pod) { manyVariables(pod, 11000) }, tooLargePod},
		"1.1 MiB of environment, of another scheduler": {func(pod *corev1.Pod) {
			manyVariables(pod, 11000)
			pod.Spec.SchedulerName = "default-scheduler"
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			eventually(t, "the answer", func(ctx context.Context) string {
				return refusedBy(tenant.Create(ctx, newPod("sized", tenantPool, low, tc.change), client.DryRunAll), tc.want)
			})
		})
	}
	t.Run("changes", func(t *testing.T) { testPodGrowth(t, tenant) })
	t.Run("field managers", func(t *testing.T) { testPodManagers(t, tenant) })
	t.Run("one that was too large before", func(t *testing.T) { testLargePodBefore(t, c, tenant) })
}

// everyKind gives a pod fields with numbers, booleans and an empty map.
func everyKind(pod *corev1.Pod) {
	grace, yes := int64(7), true
	pod.Spec.TerminationGracePeriodSeconds, pod.Spec.ShareProcessNamespace = &grace, &yes
	pod.Spec.Volumes = []corev1.Volume{{Name: "empty", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
}

// manyVariables gives a pod environment variables of 100 bytes each.
func manyVariables(pod *corev1.Pod, count int) {
	for i := range count {
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprintf("V%d", i), Value: strings.Repeat("x", 90)})
	}
}

// testPodGrowth checks changes of a running pod by its owner.
func testPodGrowth(t *testing.T, tenant client.Client) {
	image := func(size int) string {
		return fmt.Sprintf(`[{"op":"replace","path":"/spec/containers/0/image","value":%q}]`, "example.com/"+strings.Repeat("x", size))
	}
	for name, tc := range map[string]struct {
		kind        types.PatchType
		patch, want string
	}{
		"a label":               {types.MergePatchType, `{"metadata":{"labels":{"a":"b"}}}`, ""},
		"70 KiB of annotations": {types.MergePatchType, fmt.Sprintf(`{"metadata":{"annotations":{"a":%q}}}`, strings.Repeat("x", 70<<10)), tooMuchMetadata},
		"an owner":              {types.MergePatchType, fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"None","uid":"u","name":%q}]}}`, strings.Repeat("x", 1<<20)), tooMuchMetadata},
		"an image":              {types.JSONPatchType, image(1 << 10), ""},
		"an image of 1.1 MiB":   {types.JSONPatchType, image(1100 << 10), tooLargePod},
	} {
		t.Run(name, func(t *testing.T) {
			err := tenant.Patch(t.Context(), newPod("alone", "", ""), client.RawPatch(tc.kind, []byte(tc.patch)), client.DryRunAll)
			if why := refusedBy(err, tc.want); why != "" {
				t.Error(why)
			}
		})
	}
}

// testPodManagers checks that the names of fields in the list of field managers count: many
// managers may own the same annotations.
func testPodManagers(t *testing.T, tenant client.Client) {
	pod := newPod("managed", "no-such-pool", low)
	if err := tenant.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for i := range 500 {
		keys = append(keys, fmt.Sprintf(`"%s%d":""`, strings.Repeat("k", 57), i))
	}
	text := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{%s}}}`, strings.Join(keys, ","))
	for i := range 60 {
		err := tenant.Patch(t.Context(), newPod(pod.Name, "", ""), client.RawPatch(types.ApplyPatchType, text), client.FieldOwner(fmt.Sprintf("m%d", i)))
		if err != nil {
			if why := refusedBy(err, tooLargePod); why != "" || i < 8 {
				t.Errorf("after %d managers: %s", i, why)
			}
			return
		}
	}
	t.Error("no manager is refused")
}

// testLargePodBefore checks a pod that was above the bound before the policy: it may shrink, but
// not grow.
func testLargePodBefore(t *testing.T, c *cluster, tenant client.Client) {
	const policy = "pod-size.reprieve.dev"
	if err := c.Delete(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: policy}}); err != nil {
		t.Fatal(err)
	}
	old := newPod("old", "no-such-pool", low, annotated("a", 70<<10), annotated("b", 1<<10), func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/f"} })
	eventually(t, "the policy is off", func(ctx context.Context) string { return said(tenant.Create(ctx, old)) })
	c.create(t, c.manifests.find(t, "ValidatingAdmissionPolicyBinding", policy).DeepCopy())
	eventually(t, "the policy is on again", func(ctx context.Context) string {
		return refusedBy(tenant.Create(ctx, newPod("sized", "", low, annotated("a", 70<<10)), client.DryRunAll), tooMuchMetadata)
	})
	for patch, want := range map[string]string{
		`{"metadata":{"annotations":{"b":null}}}`:       "",
		`{"metadata":{"finalizers":null}}`:              "",
		`{"metadata":{"annotations":{"c":"one more"}}}`: tooMuchMetadata,
	} {
		err := tenant.Patch(t.Context(), newPod("old", "", ""), client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
		if why := refusedBy(err, want); why != "" {
			t.Errorf("%s: %s", patch, why)
		}
	}
	if err := tenant.Patch(t.Context(), newPod("old", "", ""), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Error(err)
	}
}
