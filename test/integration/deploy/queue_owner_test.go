package deploy

import (
	"context"
	"reflect"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// testQueueOwner checks that the owner of a Queue may change only its min-runtimes, and only up to
// the maximum in the annotations of the parent Queue.
func testQueueOwner(t *testing.T, c *cluster) {
	const owner, capped, onlyThese = "owner", "is above the cap of Queue", "may change spec.preemptMinRuntime and spec.reclaimMinRuntime only"
	parent := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "org", Annotations: map[string]string{
		v1alpha1.AnnotationMaxPreemptMinRuntime: "1h30m", v1alpha1.AnnotationMaxReclaimMinRuntime: "20m",
	}}}
	c.create(t, parent, &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "uncapped"}})
	for name, below := range map[string]string{"owned": "org", "without-cap": "uncapped", "of-others": "org", "lost": "missing"} {
		q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}}
		q.Spec.Parent = &below
		c.create(t, q)
	}
	const lost = `{"status":{"conditions":[{"type":"Ready","status":"False","reason":"ParentNotFound","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
	if err := c.Client.Status().Patch(t.Context(), &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "lost"}}, client.RawPatch(types.MergePatchType, []byte(lost))); err != nil {
		t.Fatal(err)
	}
	c.create(t,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: owner}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"queues"}, ResourceNames: []string{"owned", "without-cap", "org", "lost"},
			Verbs: []string{"get", "patch", "update"},
		}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: owner},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: owner},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: owner}},
		})
	as := c.as(t, owner)
	for name, tc := range map[string]struct {
		queue, patch string
		by           client.Client
		want         string
	}{
		"up to the cap":                       {queue: "owned", patch: `{"spec":{"preemptMinRuntime":"90m","reclaimMinRuntime":"0s"}}`},
		"preemption above the cap":            {queue: "owned", patch: `{"spec":{"preemptMinRuntime":"91m"}}`, want: "spec.preemptMinRuntime " + capped + ` "org", its annotation reprieve.dev/max-preempt-min-runtime, which is 1h30m`},
		"reclaim above the cap":               {queue: "owned", patch: `{"spec":{"reclaimMinRuntime":"1200001ms"}}`, want: "spec.reclaimMinRuntime " + capped},
		"no longer set":                       {queue: "owned", patch: `{"spec":{"preemptMinRuntime":null}}`},
		"without a cap":                       {queue: "without-cap", patch: `{"spec":{"preemptMinRuntime":"1s"}}`, want: "which is not set"},
		"below a missing parent":              {queue: "lost", patch: `{"spec":{"preemptMinRuntime":"1s"}}`, want: "does not exist, so no cap applies"},
		"at the top":                          {queue: "org", patch: `{"spec":{"preemptMinRuntime":"1s"}}`, want: "a Queue at the top of the tree has no parent with a cap"},
		"the quota":                           {queue: "owned", patch: `{"spec":{"quota":{"cpu":"1"}}}`, want: onlyThese},
		"the parent":                          {queue: "owned", patch: `{"spec":{"parent":"uncapped"}}`, want: onlyThese},
		"the caps":                            {queue: "org", patch: `{"metadata":{"annotations":{"reprieve.dev/max-preempt-min-runtime":"9h"}}}`, want: onlyThese},
		"of others":                           {queue: "of-others", patch: `{"spec":{"preemptMinRuntime":"1s"}}`, want: `cannot patch resource "queues"`},
		"an administrator is above the cap":   {queue: "owned", patch: `{"spec":{"preemptMinRuntime":"9h"}}`, by: c.Client},
		"an administrator changes the others": {queue: "owned", patch: `{"spec":{"quota":{"cpu":"1"},"parent":null}}`, by: c.Client},
	} {
		t.Run(name, func(t *testing.T) {
			by := as
			if tc.by != nil {
				by = tc.by
			}
			q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: tc.queue}}
			eventually(t, "the answer", func(ctx context.Context) string {
				return refusedBy(by.Patch(ctx, q.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(tc.patch)), client.DryRunAll), tc.want)
			})
		})
	}
}

// TestQueueOwnerFields checks that the admission policy for owners compares every field in the spec
// of a Queue.
func TestQueueOwnerFields(t *testing.T) {
	policy := typed[admissionv1.ValidatingAdmissionPolicy](t, render(t, deployPath(t)).find(t, "ValidatingAdmissionPolicy", "queue-owners.reprieve.dev"))
	var all string
	for _, v := range policy.Spec.Variables {
		all += v.Expression + "\n"
	}
	spec := reflect.TypeFor[v1alpha1.QueueSpec]()
	for i := range spec.NumField() {
		f := spec.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !strings.Contains(all, "object.?spec.?"+name+" == oldObject.?spec.?"+name) {
			t.Errorf("the policy does not compare spec.%s", name)
		}
	}
}
