package deploy

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

// documentedRights returns the Role and the RoleBinding that the commands in docs/monitoring.md
// create. user is the user name of the ServiceAccount in these commands.
func documentedRights(t *testing.T) (role *rbacv1.Role, binding *rbacv1.RoleBinding, user string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(playgroundtest.ModuleRoot(t), "docs", "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	flag := func(command, name string) string {
		_, rest, _ := strings.Cut(command, " --"+name+"=")
		value, _, _ := strings.Cut(rest, " ")
		return value
	}
	for _, m := range regexp.MustCompile(`(?m)^\$ kubectl -n (\S+) create (role|rolebinding) (\S+) (.*)$`).FindAllStringSubmatch(string(page), -1) {
		object, flags := metav1.ObjectMeta{Namespace: m[1], Name: m[3]}, " "+m[4]
		if m[2] == "role" {
			role = &rbacv1.Role{ObjectMeta: object, Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{corev1.GroupName}, Resources: strings.Split(flag(flags, "resource"), ","), Verbs: strings.Split(flag(flags, "verb"), ","),
			}}}
			continue
		}
		account, name, _ := strings.Cut(flag(flags, "serviceaccount"), ":")
		user = "system:serviceaccount:" + account + ":" + name
		binding = &rbacv1.RoleBinding{
			ObjectMeta: object, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: flag(flags, "role")},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account, Name: name}},
		}
	}
	if role == nil || binding == nil {
		t.Fatal("docs/monitoring.md has no commands for a Role and its binding")
	}
	return role, binding, user
}

// testDocumentedRights checks that the permissions in docs/monitoring.md let Prometheus find the
// scheduler's Pods, as its documented configuration requires.
func testDocumentedRights(t *testing.T, c *cluster) {
	t.Helper()
	role, binding, user := documentedRights(t)
	c.create(t, role, binding)
	for _, discovery := range documentedPrometheus(t).ScrapeConfigs[0].Discovery {
		names, _ := discovery["namespaces"].(map[string]any)["names"].([]any)
		if discovery["role"] != "pod" || len(names) != 1 {
			t.Fatalf("docs/monitoring.md looks for %v, want pods of one namespace", discovery)
		}
		namespace, _ := names[0].(string)
		for _, verb := range []string{"get", "list", "watch"} {
			eventually(t, "Prometheus may "+verb+" the Pods", func(ctx context.Context) string {
				review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
					User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: "pods", Namespace: namespace},
				}}
				if err := c.Create(ctx, review); err != nil {
					return err.Error()
				}
				if !review.Status.Allowed {
					return "it may not"
				}
				return ""
			})
		}
	}
}
