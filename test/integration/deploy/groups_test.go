package deploy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
)

// customRules has grouping rules for kinds that the ClusterRole in deploy/ does not include.
const customRules = `
            rules:
              - {apiVersion: example.com/v1, kind: Trainer, resource: trainers, roles: [{name: worker, replicas: spec.workers}]}
              - {apiVersion: example.com/v1, kind: Mill, resource: mills, roles: [{name: worker, replicas: spec.wheels}]}
              - {apiVersion: example.com/v1, kind: Ghost, resource: ghosts, roles: [{name: worker, replicas: spec.workers}]}
              - {apiVersion: example.com/v1, kind: Troupe, resource: troupes, roleLabel: role, roles: [{name: lead, replicas: spec.leads}, {name: worker, replicas: spec.workers}]}`

// TestGroups tests derived groups with the permissions of the manifests. If the scheduler cannot
// read the owner of a pod, the pod must wait. A condition and an event must report the reason. All
// pods must run after the problem is fixed.
func TestGroups(t *testing.T) {
	const kinds = "kinds: [Job, JobSet, LeaderWorkerSet]"
	rendered := render(t, deployPath(t))
	for _, object := range rendered.ofKind("ConfigMap") {
		text, _, err := unstructured.NestedString(object.Object, "data", configKey)
		if err != nil || !strings.Contains(text, kinds) {
			t.Fatalf("the ConfigMap does not say %q: %v", kinds, err)
		}
		if err := unstructured.SetNestedField(object.Object, strings.Replace(text, kinds, kinds+customRules, 1), "data", configKey); err != nil {
			t.Fatal(err)
		}
	}
	c := startClusterOf(t, rendered, map[string]int{"groups": 1}, playground.Options{})
	c.serveKind(t, "Trainer", "trainers")
	c.serveKind(t, "Mill", "mills")
	c.serveKind(t, "Troupe", "troupes")
	c.mayRead(t, "mills")
	c.mayRead(t, "troupes")
	c.startScheduler(t, name+"-0")

	trainer := c.owner(t, "Trainer", map[string]any{"workers": int64(2)})
	mill := c.owner(t, "Mill", map[string]any{"sails": int64(2)})
	ghost := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Ghost"}}
	ghost.SetName("ghost")
	ghost.SetUID("c0ffee00-0000-0000-0000-000000000000")
	for _, owner := range []*unstructured.Unstructured{trainer, mill, ghost} {
		for i := range 2 {
			c.create(t, podOf(owner, i))
		}
	}
	c.waitHeld(t, trainer, "OwnerUnknown", "it may not list and watch trainers.example.com, which its role has to allow")
	c.waitHeld(t, mill, "NotGroupable", "Mill mill: spec.wheels matches nothing")
	c.waitHeld(t, ghost, "OwnerUnknown", "the API server does not serve ghosts of example.com/v1")
	c.testShape(t)
	c.testTree(t)

	c.mayRead(t, "trainers")
	c.waitRunning(t, "trainer-0", "trainer-1")
	before := mill.DeepCopy()
	if err := unstructured.SetNestedField(mill.Object, int64(2), "spec", "wheels"); err != nil {
		t.Fatal(err)
	}
	if err := c.Patch(t.Context(), mill, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	c.waitRunning(t, "mill-0", "mill-1")
	for _, owner := range []*unstructured.Unstructured{trainer, mill} {
		if pg := c.groupOf(t, owner); pg == nil || pg.Spec.SchedulingPolicy.Gang.MinCount != 2 {
			t.Errorf("the group of %s is %+v", owner.GetName(), pg)
		}
	}
	c.waitHeld(t, ghost, "OwnerUnknown", "does not serve")
}

// testShape checks that the pods of an annotated Job become a gang. If the annotation is changed to
// false while the pods run, they must stay a gang. An event on the PodGroup must report that the
// change has no effect.
func (c *cluster) testShape(t *testing.T) {
	t.Helper()
	template := newPod("", "groups", "").Spec
	template.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{ObjectMeta: meta("shape"), Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](2), Template: corev1.PodTemplateSpec{Spec: template}}}
	job.Annotations = map[string]string{v1alpha1.AnnotationGang: "true"}
	c.create(t, job)
	running := func(ctx context.Context) string {
		var pods corev1.PodList
		if err := c.List(ctx, &pods, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{batchv1.JobNameLabel: "shape"}); err != nil {
			return err.Error()
		}
		n := 0
		for i := range pods.Items {
			if pods.Items[i].Status.Phase == corev1.PodRunning && pods.Items[i].DeletionTimestamp == nil {
				n++
			}
		}
		if n != 2 {
			return fmt.Sprintf("%d run", n)
		}
		return ""
	}
	eventually(t, "both pods of the Job", running)
	owner := &unstructured.Unstructured{}
	owner.SetUID(job.UID)
	pg := c.groupOf(t, owner)
	if pg == nil {
		t.Fatal("the Job has no PodGroup")
	}
	before := job.DeepCopy()
	job.Annotations[v1alpha1.AnnotationGang] = "false"
	if err := c.Patch(t.Context(), job, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	c.waitEvent(t, "PodGroup", pg.Name, "ObjectNotFollowed")
	if why := running(t.Context()); why != "" || c.groupOf(t, owner) == nil {
		t.Errorf("the Job has changed under its pods: %s", why)
	}
}

// testTree checks that the roles of an object become a tree of PodGroups, with the scheduler's own
// permissions.
func (c *cluster) testTree(t *testing.T) {
	t.Helper()
	troupe := c.owner(t, "Troupe", map[string]any{"leads": int64(1), "workers": int64(1)})
	before := troupe.DeepCopy()
	troupe.SetAnnotations(map[string]string{v1alpha1.AnnotationGang: "true", v1alpha1.AnnotationGangPer: v1alpha1.GangPerTree})
	if err := c.Patch(t.Context(), troupe, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	pods := make([]*corev1.Pod, 2)
	for i, role := range []string{"lead", "worker"} {
		pods[i] = podOf(troupe, i)
		pods[i].Labels = map[string]string{"role": role}
		c.create(t, pods[i])
	}
	c.waitRunning(t, pods[0].Name, pods[1].Name)
	trees := func(ctx context.Context) (n int) {
		var list v1alpha1.CompositePodGroupList
		if err := c.List(ctx, &list, client.InNamespace(metav1.NamespaceDefault)); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if slices.ContainsFunc(list.Items[i].OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == troupe.GetUID() }) {
				n++
			}
		}
		return n
	}
	if n := trees(t.Context()); n != 1 {
		t.Errorf("the Troupe has %d CompositePodGroups, want 1", n)
	}
}

// serveKind creates a CRD whose schema accepts all fields.
func (c *cluster) serveKind(t *testing.T, kind, plural string) {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: plural + ".example.com"}}
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}},
		}},
	}
	c.create(t, crd)
	made := &unstructured.Unstructured{}
	made.SetName(crd.Name)
	c.waitServed(t, made)
}

// mayRead lets the scheduler read a kind of the API group example.com.
func (c *cluster) mayRead(t *testing.T, plural string) {
	t.Helper()
	role := metav1.ObjectMeta{Name: "groups-" + plural}
	c.create(t,
		&rbacv1.ClusterRole{ObjectMeta: role, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"example.com"}, Resources: []string{plural}, Verbs: []string{"list", "watch"}}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: role, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
		})
}

// owner creates an object of the API group example.com with an annotation that requests a gang.
func (c *cluster) owner(t *testing.T, kind string, spec map[string]any) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": kind, "spec": spec}}
	u.SetNamespace(metav1.NamespaceDefault)
	u.SetName(strings.ToLower(kind))
	u.SetAnnotations(map[string]string{v1alpha1.AnnotationGang: "true"})
	eventually(t, "a "+kind+" can be made", func(ctx context.Context) string {
		if err := c.Create(ctx, u); err != nil {
			return err.Error()
		}
		return ""
	})
	return u
}

// podOf returns a pod of an owner, as the controller of the owner would create it.
func podOf(owner *unstructured.Unstructured, index int) *corev1.Pod {
	pod := newPod(fmt.Sprintf("%s-%d", owner.GetName(), index), "groups", "")
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), Controller: ptr.To(true),
	}}
	return pod
}

// waitHeld waits until both pods of an owner have a condition with the reason, and one of them has
// an event. The pods must not have a node.
func (c *cluster) waitHeld(t *testing.T, owner *unstructured.Unstructured, reason, words string) {
	t.Helper()
	var events int
	eventually(t, "the pods of "+owner.GetName()+" say "+reason, func(ctx context.Context) string {
		events = 0
		for i := range 2 {
			var pod corev1.Pod
			if err := c.Get(ctx, client.ObjectKeyFromObject(podOf(owner, i)), &pod); err != nil {
				return err.Error()
			}
			if pod.Spec.NodeName != "" {
				t.Fatalf("%s has a node", pod.Name)
			}
			said := ""
			for _, condition := range pod.Status.Conditions {
				if condition.Type == corev1.PodScheduled && condition.Reason == reason {
					said = condition.Message
				}
			}
			if !strings.Contains(said, words) {
				return fmt.Sprintf("%s says %q of %+v", pod.Name, said, pod.Status.Conditions)
			}
			for _, e := range c.eventsOn(ctx, t, "Pod", pod.Name, reason) {
				if strings.Contains(e.Note, words) {
					events++
				}
			}
		}
		if events == 0 {
			return "there is no event"
		}
		return ""
	})
}

// groupOf returns the PodGroup that an object owns, or nil.
func (c *cluster) groupOf(t *testing.T, owner *unstructured.Unstructured) *v1alpha1.PodGroup {
	t.Helper()
	var list v1alpha1.PodGroupList
	if err := c.List(t.Context(), &list, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		for _, o := range list.Items[i].OwnerReferences {
			if o.UID == owner.GetUID() {
				return &list.Items[i]
			}
		}
	}
	return nil
}
