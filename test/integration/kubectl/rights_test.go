package kubectl

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

// edit grants the reader the built-in ClusterRole edit in the namespace. It includes the rules that
// deploy/ aggregates to this role.
func (s *stand) edit() {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(playgroundtest.ModuleRoot(s), "deploy", "clusterroles-users.yaml"))
	if err != nil {
		s.Fatal(err)
	}
	for part := range strings.SplitSeq(string(text), "---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(part), &role); err != nil {
			s.Fatal(err)
		}
		if slices.Contains([]string{"reprieve-edit", "reprieve-view", "reprieve-view-queues"}, role.Name) {
			s.must(s.kube.RbacV1().ClusterRoles().Create(s.Context(), &role, metav1.CreateOptions{}))
		}
	}
	s.must(s.kube.RbacV1().RoleBindings(namespace).Create(s.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader-edit"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "reader"}},
	}, metav1.CreateOptions{}))
}

// TestWhyWithTheRightsOfANamespace tests the command why for a user with the role edit in a
// namespace. The command must print the conditions and events, and name the objects that the user
// may not read.
func TestWhyWithTheRightsOfANamespace(t *testing.T) {
	s := newStand(t)
	s.create(strings.ReplaceAll(train, "priorityClassName: high", "priorityClassName: low"))
	s.eventually("the gang is told why it waits", func() bool {
		_, reason := s.condition("train")
		return reason == v1alpha1.ReasonUnschedulable
	})
	s.edit()
	s.eventually("the reader may list pods and PodGroups", func() bool {
		code, out, _ := s.ask("", "why", "podgroup/train")
		return code == 0 && !strings.Contains(out, "podgroups.reprieve.dev")
	})
	_, out, errOut := s.ask("", "why", "podgroup/train")
	for _, want := range []string{
		"podgroup default/train: pending (2 pending", "Told: podgroup default/train (PodGroupScheduled, Unschedulable, since ", "nvidia.com/gpu",
		"Not seen: ", "nodes", "priorityclasses.scheduling.k8s.io", "queues.reprieve.dev", "ask for the ClusterRole reprieve-planner",
	} {
		if !strings.Contains(out, want) || errOut != "" {
			t.Errorf("It says %q, %q; want %q", out, errOut, want)
		}
	}
	if strings.Count(out, "Not seen") != 1 {
		t.Errorf("What is not seen is not one line: %q", out)
	}
	for _, args := range [][]string{{"why", "train-0"}, {"why", "low-0"}, {"why", "podgroup/train", "-o", "json"}, {"history"}} {
		if code, out, errOut := s.ask("", args...); code != 0 || out == "" {
			t.Errorf("%v: exit code %d, %q, %q", args, code, out, errOut)
		}
	}
	for verb, n := range s.verbs() {
		if verb != "list" && verb != "get" {
			t.Errorf("The command makes %d requests %q", n, verb)
		}
	}
}
