package inventory_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/derived"
	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

// TestRole checks the ClusterRole for users of kubectl reprieve. It must permit listing events, the
// kinds of an Inventory and the kinds of root objects, including kinds of other schedulers. It must
// permit nothing else.
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
	// The kinds of the built-in rules include kinds that are between a root object and its pods,
	// such as the Jobs of a JobSet.
	for _, rule := range grouping.BuiltIn() {
		want = append(want, rule.Kind.Group+"/"+rule.Resource+" list")
	}
	for _, root := range foreignRoots(t) {
		want = append(want, root.GroupVersionResource().Group+"/"+root.Resource+" list")
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
	// Jobs are in the list twice: as a kind of the Inventory, and as a kind of root object.
	want = slices.Compact(want)
	if !slices.Equal(got, want) {
		t.Errorf("The role allows\n%q\nwant\n%q", got, want)
	}
}

// foreignRoots returns the root kinds of a configuration that recognizes the groups of all other
// schedulers.
func foreignRoots(t *testing.T) []inventory.Root {
	t.Helper()
	args, err := json.Marshal(map[string]any{"groups": map[string]any{"labels": configv1alpha1.KnownLabels()}})
	if err != nil {
		t.Fatal(err)
	}
	roots, err := derived.Roots(&config.KubeSchedulerConfiguration{Profiles: []config.KubeSchedulerProfile{{
		SchedulerName: "reprieve-scheduler",
		PluginConfig:  []config.PluginConfig{{Name: scheduler.Name, Args: &runtime.Unknown{Raw: args}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(roots) < len(configv1alpha1.KnownLabels()) {
		t.Fatalf("There are %d kinds for %v", len(roots), configv1alpha1.KnownLabels())
	}
	return roots
}
