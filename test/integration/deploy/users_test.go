package deploy

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// userRoles returns the ClusterRoles for users. It maps the name of a role to its resources, and a
// resource to the permitted verbs.
func userRoles() map[string]map[string][]string {
	read := []string{"get", "list", "watch"}
	write := []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	return map[string]map[string][]string{
		"reprieve-edit":        {"podgroups": write, "compositepodgroups": write, "workloads": write},
		"reprieve-view":        {"podgroups": read, "compositepodgroups": read, "workloads": read},
		"reprieve-view-queues": {"queues": read},
	}
}

// metricsRole is the name of the ClusterRole for users who read the scheduler's metrics.
const metricsRole = "reprieve-metrics-reader"

// decisionsRole is the name of the ClusterRole for users who read the scheduler's decisions.
const decisionsRole = "reprieve-decisions-reader"

func TestUserRoles(t *testing.T) {
	m := render(t, deployPath(t))
	for role, paths := range map[string][]string{
		metricsRole:   {"/metrics"},
		decisionsRole: {"/debug/reprieve/decisions", "/debug/reprieve/snapshot"},
	} {
		want := []rbacv1.PolicyRule{{NonResourceURLs: paths, Verbs: []string{"get"}}}
		if got := typed[rbacv1.ClusterRole](t, m.find(t, "ClusterRole", role)).Rules; !reflect.DeepEqual(got, want) {
			t.Errorf("%s grants %v, want %v", role, got, want)
		}
	}
	for role, want := range userRoles() {
		got := map[string][]string{}
		for _, rule := range typed[rbacv1.ClusterRole](t, m.find(t, "ClusterRole", role)).Rules {
			for _, resource := range rule.Resources {
				got[resource] = slices.Sorted(slices.Values(rule.Verbs))
			}
			if !slices.Equal(rule.APIGroups, []string{v1alpha1.GroupName}) {
				t.Errorf("%s is about %v", role, rule.APIGroups)
			}
		}
		if !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s grants %v, want %v", role, got, want)
		}
	}
}

// bindUsers binds the built-in roles view, edit and admin to users in a namespace. It binds the
// role for Queues to a user in the whole cluster.
func (c *cluster) bindUsers(t *testing.T) {
	t.Helper()
	for _, role := range []string{"view", "edit", "admin"} {
		c.create(t, &rbacv1.RoleBinding{
			ObjectMeta: meta("user-" + role),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "user-" + role}},
		})
	}
	c.create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "user-queues"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reprieve-view-queues"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "user-queues"}},
	})
	// Wait until the permissions are effective: a controller aggregates the built-in roles, and the
	// authorizer receives them through a watch.
	for user, sign := range map[string]authorizationv1.ResourceAttributes{
		"user-view":   {Verb: "list", Resource: "podgroups", Namespace: metav1.NamespaceDefault},
		"user-edit":   {Verb: "create", Resource: "podgroups", Namespace: metav1.NamespaceDefault},
		"user-admin":  {Verb: "create", Resource: "podgroups", Namespace: metav1.NamespaceDefault},
		"user-queues": {Verb: "list", Resource: "queues"},
	} {
		sign.Group = v1alpha1.GroupName
		eventually(t, "the rights of "+user, func(ctx context.Context) string {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &sign}}
			if err := c.Create(ctx, review); err != nil {
				return err.Error()
			}
			if !review.Status.Allowed {
				return "not yet"
			}
			return ""
		})
	}
}

// testUserRoles checks the permissions of users with the built-in roles in a namespace.
func testUserRoles(t *testing.T, c *cluster) {
	c.bindUsers(t)
	create := func(o client.Object) func(context.Context, client.Client) error {
		return func(ctx context.Context, as client.Client) error { return as.Create(ctx, o, client.DryRunAll) }
	}
	list := func(l client.ObjectList, opts ...client.ListOption) func(context.Context, client.Client) error {
		return func(ctx context.Context, as client.Client) error { return as.List(ctx, l, opts...) }
	}
	here := client.InNamespace(metav1.NamespaceDefault)
	group := groupOf(gangOfTwo(low))
	elsewhere := groupOf(gangOfTwo(low))
	elsewhere.Namespace = namespace
	queue := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "it"}}
	for name, tc := range map[string]struct {
		user string
		do   func(context.Context, client.Client) error
		want bool
	}{
		"view lists PodGroups":              {"view", list(&v1alpha1.PodGroupList{}, here), true},
		"view creates a PodGroup":           {"view", create(group.DeepCopy()), false},
		"edit creates a PodGroup":           {"edit", create(group.DeepCopy()), true},
		"edit creates a Workload":           {"edit", create(workloadOf(gangOfTwo(low))), true},
		"edit lists PodGroups":              {"edit", list(&v1alpha1.PodGroupList{}, here), true},
		"edit creates a PodGroup elsewhere": {"edit", create(elsewhere), false},
		"edit creates a Queue":              {"edit", create(queue.DeepCopy()), false},
		"edit lists Queues":                 {"edit", list(&v1alpha1.QueueList{}), false},
		"edit writes a status": {"edit", func(ctx context.Context, as client.Client) error {
			return as.Status().Patch(ctx, group.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"status":{"running":1}}`)), client.DryRunAll)
		}, false},
		"admin creates a PodGroup": {"admin", create(group.DeepCopy()), true},
		"admin creates a Queue":    {"admin", create(queue.DeepCopy()), false},
		"queues lists Queues":      {"queues", list(&v1alpha1.QueueList{}), true},
		"queues creates a Queue":   {"queues", create(queue.DeepCopy()), false},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.do(t.Context(), c.as(t, "user-"+tc.user))
			if tc.want && err != nil || !tc.want && !apierrors.IsForbidden(err) {
				t.Errorf("%v, want it allowed: %t", err, tc.want)
			}
		})
	}
}

const (
	groupClassRefused = `podgroups.reprieve.dev "it" is forbidden: ValidatingAdmissionPolicy 'podgroup-system-classes.reprieve.dev' with binding 'podgroup-system-classes.reprieve.dev' denied request: ` +
		`PriorityClasses whose names begin with system- are for PodGroups in the namespaces of the policy, such as kube-system`
	templateClassRefused = `workloads.reprieve.dev "it" is forbidden: ValidatingAdmissionPolicy 'workload-system-classes.reprieve.dev' with binding 'workload-system-classes.reprieve.dev' denied request: ` +
		`PriorityClasses whose names begin with system- are for templates in the namespaces of the policy, such as kube-system`
	critical = "system-node-critical"
)

// testSystemClasses checks which namespaces may use the system's PriorityClasses.
func testSystemClasses(t *testing.T, c *cluster) {
	inSystem := func(o client.Object) client.Object {
		o.SetNamespace(metav1.NamespaceSystem)
		return o
	}
	for kind, tc := range map[string]struct {
		object client.Object
		want   string
	}{
		"PodGroup": {groupOf(gangOfTwo(critical)), groupClassRefused},
		"Workload": {workloadOf(gangOfTwo(critical)), templateClassRefused},
	} {
		// A new policy takes effect after a moment, when the API server has received it through a
		// watch.
		eventually(t, "the policy for "+kind, func(ctx context.Context) string {
			if got := said(c.Create(ctx, tc.object, client.DryRunAll)); got != tc.want {
				return fmt.Sprintf("got %q, want %q", got, tc.want)
			}
			return ""
		})
	}
	for name, tc := range map[string]struct {
		object client.Object
		want   string
	}{
		"a group with a class of one's own": {object: groupOf(gangOfTwo(low))},
		"a group with no class":             {object: groupOf(gangWithout())},
		"a group with the other class":      {groupOf(gangOfTwo("system-cluster-critical")), groupClassRefused},
		"a group in kube-system":            {object: inSystem(groupOf(gangOfTwo(critical)))},
		"a Workload with one such template": {workloadOf(gangOfTwo(low), gangOfTwo(critical)), templateClassRefused},
		"a Workload without":                {object: workloadOf(gangOfTwo(low), gangWithout())},
		"a Workload in kube-system":         {object: inSystem(workloadOf(gangOfTwo(critical)))},
	} {
		t.Run(name, func(t *testing.T) {
			if got := said(c.Create(t.Context(), tc.object, client.DryRunAll)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	t.Run("updates", func(t *testing.T) { testSystemClassUpdates(t, c) })
}

// testSystemClassUpdates checks updates of objects with a PriorityClass of the system. The policy
// must accept an existing class, and check a class that the update adds.
func testSystemClassUpdates(t *testing.T, c *cluster) {
	open := groupOf(v1alpha1.PodGroupPolicy{})
	open.Name = "made-from-a-template"
	open.Spec.PodGroupTemplateRef = &v1alpha1.PodGroupTemplateReference{WorkloadName: "missing", PodGroupTemplateName: "t0"}
	old := groupOf(gangOfTwo(critical))
	old.Name = "old"
	c.create(t, open)
	// Before Reprieve was installed, every user could create such an object. Now only the
	// scheduler's account may create it.
	if err := c.as(t, account, "system:masters").Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		before *v1alpha1.PodGroup
		change func(*v1alpha1.PodGroup)
		want   bool
	}{
		"another field": {old, func(pg *v1alpha1.PodGroup) { pg.Labels = map[string]string{"changed": "yes"} }, true},
		"the class":     {open, func(pg *v1alpha1.PodGroup) { pg.Spec.PriorityClassName = ptr.To(critical) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			after := tc.before.DeepCopy()
			tc.change(after)
			err := c.Patch(t.Context(), after, client.MergeFrom(tc.before), client.DryRunAll)
			if tc.want && err != nil || !tc.want && !apierrors.IsForbidden(err) {
				t.Errorf("%v, want it allowed: %t", err, tc.want)
			}
		})
	}
	for _, pg := range []*v1alpha1.PodGroup{open, old} {
		if err := c.Delete(t.Context(), pg); err != nil {
			t.Error(err)
		}
	}
}

// gangWithout returns the policy of a gang that names no PriorityClass.
func gangWithout() v1alpha1.PodGroupPolicy {
	policy := gangOfTwo(low)
	policy.PriorityClassName = nil
	return policy
}
