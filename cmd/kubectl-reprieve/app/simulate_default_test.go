package app

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/simulation"
)

// TestDefaultOrderOfPolicies checks that the named policies compare victims as a profile without
// arguments does, and that the policy priority compares them by the order of KEP-5710.
func TestDefaultOrderOfPolicies(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config.yaml")
	const config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: plain\n" +
		"  plugins: {multiPoint: {disabled: [{name: DefaultPreemption}], enabled: [{name: Reprieve}]}, queueSort: {enabled: [{name: ReprievePrioritySort}], disabled: [{name: PrioritySort}]}, preFilter: {enabled: [{name: Reprieve}]}}\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	want, err := policyOf(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	if want.Order != core.OrderLostWork || want.Step == 0 || want.PodCost == 0 {
		t.Fatalf("by default %+v, want lost work in steps", want)
	}
	for _, p := range simulation.NamedPolicies() {
		byDefault := p.Order == want.Order && p.Step == want.Step && p.PodCost == want.PodCost && p.Restart == want.Restart
		if wantDefault := slices.Contains([]string{"lost-work", "queues", "bands-of-three"}, p.Name); byDefault != wantDefault {
			t.Errorf("%s: the default order is %v, want %v", p.Name, byDefault, wantDefault)
		}
	}
}
