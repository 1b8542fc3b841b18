package app

import (
	"testing"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

func TestGuardRow(t *testing.T) {
	t.Parallel()
	five := int32(5)
	for name, tt := range map[string]struct {
		guard            scheduler.Guard
		wantBy, wantFrom string
	}{
		"a static pod":         {scheduler.Guard{Rule: core.RuleStaticPod}, "StaticPod", "all"},
		"a toleration":         {scheduler.Guard{Rule: core.RuleToleration, Below: &five}, "PreemptionToleration", "priorities below 5"},
		"a class that is gone": {scheduler.Guard{Rule: core.RuleClassNotFound, Below: &five}, "PriorityClassNotFound", "priorities below 5"},
		"a min-runtime": {
			scheduler.Guard{Rule: core.RulePreemptMinRuntime}, "MinRuntime", "some preemptor at least; of others it may end earlier",
		},
		"a rule that is new": {scheduler.Guard{Rule: "Frozen"}, "Frozen", "all"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if row := guardRow(&tt.guard); row.By != tt.wantBy || row.From != tt.wantFrom {
				t.Errorf("by %q from %q, want by %q from %q", row.By, row.From, tt.wantBy, tt.wantFrom)
			}
		})
	}
}
