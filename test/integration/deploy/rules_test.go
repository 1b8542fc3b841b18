package deploy

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// permission allows one verb on one resource.
type permission struct {
	// namespace is the namespace of the permission, or "" for all namespaces.
	namespace string
	group     string
	// resource is the plural name, such as pods, or has a subresource, such as pods/status.
	resource string
	verb     string
	// object is the name of the only permitted object, or "" for all objects.
	object string
}

func (p permission) String() string {
	s := strings.TrimSuffix(p.verb+" "+p.resource+"."+p.group, ".")
	if p.object != "" {
		s += " " + p.object
	}
	if p.namespace != "" {
		s += " in " + p.namespace
	}
	return s
}

// covers reports whether the permission permits the request of an audit event.
func (p permission) covers(event *auditv1.Event) bool {
	ref := event.ObjectRef
	if ref == nil || ref.APIGroup != p.group || event.Verb != p.verb {
		return false
	}
	resource := ref.Resource
	if ref.Subresource != "" {
		resource += "/" + ref.Subresource
	}
	return resource == p.resource && (p.object == "" || ref.Name == p.object) &&
		(p.namespace == "" || ref.Namespace == p.namespace)
}

// permissions returns the permissions of the scheduler's roles in the manifests.
func permissions(t *testing.T, m manifests) []permission {
	t.Helper()
	out := expand("", typed[rbacv1.ClusterRole](t, m.find(t, "ClusterRole", name)).Rules)
	role := typed[rbacv1.Role](t, m.find(t, "Role", name))
	out = append(out, expand(role.Namespace, role.Rules)...)
	// Fail if the manifests have a role that the tests do not know. Another test compares the role
	// for kubectl reprieve with the requests in internal/inventory.
	if n := len(m.ofKind("ClusterRole")) + len(m.ofKind("Role")) - len(userRoles()); n != 5 {
		t.Fatalf("there are %d roles besides those for users; the tests know of 5, among them one each for metrics, for decisions and for kubectl reprieve", n)
	}
	return out
}

func expand(namespace string, rules []rbacv1.PolicyRule) []permission {
	var out []permission
	for _, rule := range rules {
		objects := rule.ResourceNames
		if len(objects) == 0 {
			objects = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, object := range objects {
						out = append(out, permission{namespace: namespace, group: group, resource: resource, verb: verb, object: object})
					}
				}
			}
		}
	}
	return out
}

// These are reasons why the scheduler has a permission that it does not use in the tests.
const (
	afterConflict  = "only after a conflict with another writer"
	bindingFailed  = "only where binding fails after the devices were reserved"
	insideOfServer = "the API server asks itself for it when the status is written; the test fails without it"
	forGroups      = "only for an object that asks for a group; test/integration/groups has some"
	notServed      = "the cluster of the test does not serve the kind"
	patchOfBinding = "as above, where binding fails after the devices were reserved"
)

// unseen maps the permissions that the scheduler does not use in the tests to the reasons why it
// needs them.
func unseen() map[permission]string {
	const group = "resource.k8s.io"
	out := map[permission]string{
		{group: group, resource: "resourceclaims", verb: "get"}:            afterConflict,
		{group: group, resource: "resourceclaims", verb: "delete"}:         bindingFailed,
		{group: group, resource: "resourceclaims/status", verb: "patch"}:   bindingFailed,
		{group: group, resource: "resourceclaims/binding", verb: "update"}: insideOfServer,
		{group: group, resource: "resourceclaims/binding", verb: "patch"}:  patchOfBinding,
		{group: "reprieve.dev", resource: "podgroups", verb: "create"}:     forGroups,
		{group: "reprieve.dev", resource: "podgroups", verb: "delete"}:     forGroups,

		{group: "reprieve.dev", resource: "compositepodgroups", verb: "create"}: forGroups,
		{group: "reprieve.dev", resource: "compositepodgroups", verb: "delete"}: forGroups,
	}
	for resource, group := range map[string]string{
		"jobsets": "jobset.x-k8s.io", "leaderworkersets": "leaderworkerset.x-k8s.io", "mpijobs": "kubeflow.org", "pytorchjobs": "kubeflow.org",
		"rayclusters": "ray.io", "rayjobs": "ray.io", "sparkapplications": "sparkoperator.k8s.io",
	} {
		for _, verb := range []string{"list", "watch"} {
			out[permission{group: group, resource: resource, verb: verb}] = notServed
		}
	}
	for _, group := range []string{"scheduling.x-k8s.io", "scheduling.volcano.sh", "scheduling.run.ai", "scheduling.sigs.k8s.io"} {
		for _, verb := range []string{"list", "watch"} {
			out[permission{group: group, resource: "podgroups", verb: verb}] = notServed
		}
	}
	return out
}

// builtIn returns one permission for each binding to a built-in role. The built-in role grants this
// permission.
func builtIn() []permission {
	return []permission{
		{group: "authentication.k8s.io", resource: "tokenreviews", verb: "create"},
		{group: "authorization.k8s.io", resource: "subjectaccessreviews", verb: "create"},
		{resource: "configmaps", verb: "watch", namespace: "kube-system"},
	}
}

// unused returns the permissions that no request in the audit log uses, except the permissions in
// unseen.
func unused(granted []permission, events []*auditv1.Event) []permission {
	reasons := unseen()
	var out []permission
	for _, p := range granted {
		if _, ok := reasons[p]; !ok && !used(p, events) {
			out = append(out, p)
		}
	}
	return out
}

func used(p permission, events []*auditv1.Event) bool {
	for _, event := range events {
		if p.covers(event) {
			return true
		}
	}
	return false
}

// TestReasons checks that unseen contains only permissions that the manifests grant.
func TestReasons(t *testing.T) {
	granted := map[permission]bool{}
	for _, p := range permissions(t, render(t, deployPath(t))) {
		if granted[p] {
			t.Errorf("%s is granted twice", p)
		}
		granted[p] = true
	}
	for p, reason := range unseen() {
		if !granted[p] {
			t.Errorf("a reason is given for %s, which is not granted: %s", p, reason)
		}
	}
}

// TestCovers checks which requests a permission covers.
func TestCovers(t *testing.T) {
	event := func(verb, namespace, resource, subresource, object string) *auditv1.Event {
		return &auditv1.Event{Verb: verb, ObjectRef: &auditv1.ObjectReference{
			Namespace: namespace, Resource: resource, Subresource: subresource, Name: object, APIGroup: "g",
		}}
	}
	p := permission{namespace: "n", group: "g", resource: "r/s", verb: "get", object: "o"}
	for i, tc := range []struct {
		event *auditv1.Event
		want  bool
	}{
		{event("get", "n", "r", "s", "o"), true},
		{event("list", "n", "r", "s", "o"), false},
		{event("get", "other", "r", "s", "o"), false},
		{event("get", "n", "r", "", "o"), false},
		{event("get", "n", "r", "s", "other"), false},
		{&auditv1.Event{Verb: "get"}, false},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			if got := p.covers(tc.event); got != tc.want {
				t.Errorf("%s covers %+v: %t, want %t", p, tc.event.ObjectRef, got, tc.want)
			}
		})
	}
	if left := unused([]permission{p}, []*auditv1.Event{event("list", "n", "r", "s", "o")}); len(left) != 1 {
		t.Errorf("unused: %v, want %s", left, p)
	}
}
