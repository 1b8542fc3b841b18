package deploy

import (
	"os"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// readmePatch returns the first patch that follows the words in deploy/README.md.
func readmePatch(t *testing.T, words string) string {
	t.Helper()
	raw, err := os.ReadFile(deployPath(t, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	const indent = "      "
	_, rest, said := strings.Cut(string(raw), words)
	_, rest, found := strings.Cut(rest, "\n"+indent+"patches:\n")
	block, _, ended := strings.Cut(rest, "\n\n")
	if !said || !found || !ended {
		t.Fatal("the README has no patch")
	}
	return "patches:\n" + strings.ReplaceAll("\n"+block, "\n"+indent, "\n")[1:] + "\n"
}

// TestRenamedAccount applies the patch in deploy/README.md for another user name of the scheduler.
// All admission policies must then give this user the rights of Reprieve.
func TestRenamedAccount(t *testing.T) {
	patch := strings.NewReplacer("NAMESPACE", "batch", "NAME", "placer").Replace(readmePatch(t, "To patch the policies:"))
	const want = "request.userInfo.username != 'system:serviceaccount:batch:placer'"
	exempt := 0
	for _, object := range overlay(t, patch).ofKind("ValidatingAdmissionPolicy") {
		policy := typed[admissionv1.ValidatingAdmissionPolicy](t, object)
		for _, c := range policy.Spec.MatchConditions {
			if c.Name != "not-reprieve" {
				continue
			}
			exempt++
			if c.Expression != want {
				t.Errorf("policy %s: %s, want %s", policy.Name, c.Expression, want)
			}
		}
	}
	if exempt < 11 {
		t.Errorf("%d policies let somebody through, want 11 at least", exempt)
	}
}

// TestMoreSystemNamespaces applies the patch in deploy/README.md for another system namespace.
// PodGroups and Workloads in this namespace may then use the system's PriorityClasses.
func TestMoreSystemNamespaces(t *testing.T) {
	patch := strings.ReplaceAll(readmePatch(t, "are for `kube-system`"), "NAMESPACE", "node-agents")
	m := overlay(t, patch)
	for _, name := range []string{"podgroup-system-classes.reprieve.dev", "workload-system-classes.reprieve.dev"} {
		policy := typed[admissionv1.ValidatingAdmissionPolicy](t, m.find(t, "ValidatingAdmissionPolicy", name))
		selector := policy.Spec.MatchConstraints.NamespaceSelector.MatchExpressions
		if want := []string{"kube-system", "node-agents"}; len(selector) != 1 || !slices.Equal(selector[0].Values, want) {
			t.Errorf("%s is for all but %+v, want %v", name, selector, want)
		}
	}
}
