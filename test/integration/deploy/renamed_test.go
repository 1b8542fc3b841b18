package deploy

import (
	"os"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// readmePatch is the patch of deploy/README.md for who renames the ServiceAccount.
func readmePatch(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(deployPath(t, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	const indent = "      "
	_, rest, found := strings.Cut(string(raw), "\n"+indent+"patches:\n")
	block, _, ended := strings.Cut(rest, "\n\n")
	if !found || !ended {
		t.Fatal("the README has no patch")
	}
	return "patches:\n" + strings.ReplaceAll("\n"+block, "\n"+indent, "\n")[1:] + "\n"
}

// TestRenamedAccount: with the README's patch, all policies let another user do what is Reprieve's, the optional ones
// included.
func TestRenamedAccount(t *testing.T) {
	patch := strings.NewReplacer("NAMESPACE", "batch", "NAME", "placer").Replace(readmePatch(t))
	const want = "request.userInfo.username != 'system:serviceaccount:batch:placer'"
	exempt := 0
	for _, object := range overlay(t, systemClassesComponent+patch).ofKind("ValidatingAdmissionPolicy") {
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
	if exempt < 4 {
		t.Errorf("%d policies let somebody through, want 4 at least", exempt)
	}
}
