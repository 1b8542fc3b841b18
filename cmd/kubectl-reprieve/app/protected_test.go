package app

import (
	"strings"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
	"github.com/reprieve-dev/reprieve/internal/whatif"
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
			if row := guardRow(&whatif.Guard{Guard: tt.guard}); row.By != tt.wantBy || row.From != tt.wantFrom {
				t.Errorf("by %q from %q, want by %q from %q", row.By, row.From, tt.wantBy, tt.wantFrom)
			}
		})
	}
}

// TestShowProtected checks that the output names the profiles that a protection is limited to.
func TestShowProtected(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		profiles []string
		want     string
	}{
		"of all":  {want: "  priorities below 300\n"},
		"of one":  {profiles: []string{"batch"}, want: "  only of batch: priorities below 300\n"},
		"of some": {profiles: []string{"batch", "night"}, want: "  only of batch, night: priorities below 300\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			below := int32(300)
			row := guardRow(&whatif.Guard{Guard: scheduler.Guard{Rule: core.RuleToleration, Below: &below}, Profiles: tt.profiles})
			var out strings.Builder
			if err := showProtected(&out, &protectedAnswer{Protected: []protectedRow{row}}, false); err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(out.String(), tt.want) {
				t.Errorf("It shows\n%s\nwant %q at the end", out.String(), tt.want)
			}
		})
	}
}
