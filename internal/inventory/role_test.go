package inventory_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// TestRole: the ClusterRole for users of kubectl reprieve lets them list what an inventory has, the kinds that groups are made for, and events, and do nothing else.
func TestRole(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "clusterroles-users.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"events.k8s.io/events list"}
	for _, kind := range inventory.Kinds() {
		want = append(want, kind.Group+"/"+kind.Resource+" list")
	}
	// The Jobs and RayClusters between others and their pods are among them.
	for _, rule := range grouping.BuiltIn() {
		want = append(want, rule.Kind.Group+"/"+rule.Resource+" list")
	}
	var got []string
	for part := range strings.SplitSeq(string(text), "---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(part), &role); err != nil {
			t.Fatal(err)
		}
		if role.Name != "reprieve-planner" {
			continue
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				got = append(got, rule.APIGroups[0]+"/"+resource+" "+strings.Join(rule.Verbs, ","))
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	// Jobs are asked for by both.
	want = slices.Compact(want)
	if !slices.Equal(got, want) {
		t.Errorf("The role allows\n%q\nwant\n%q", got, want)
	}
}
