package whatif_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/manifest"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// TestPlanByPriorityAlone checks that a plan has the cost of the victims that would be chosen by
// priorities alone, if these differ from the plan's victims.
func TestPlanByPriorityAlone(t *testing.T) {
	t.Parallel()
	lostWork := configv1alpha1.VictimOrders(configv1alpha1.CascadeOff)[0]
	for name, c := range map[string]struct {
		order    []configv1alpha1.VictimCriterion
		gpus     int64
		want     float64
		wantPods int
	}{
		"by lost work, two young pods instead of an old one": {order: lostWork, gpus: 4, want: 40, wantPods: 1},
		"by lost work, the same victim":                      {order: lostWork, gpus: 2},
		"by the default order":                               {gpus: 4, want: 40, wantPods: 1},
		"by priorities":                                      {order: configv1alpha1.PriorityOrder(configv1alpha1.CascadeOff), gpus: 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(noon)
			s.node("node-a", 4)
			s.node("node-b", 4)
			s.running("old", "", "node-a", 4, 10, 10*time.Hour)
			s.running("young-0", "", "node-b", 2, 10, time.Hour)
			s.running("young-1", "", "node-b", 2, 10, time.Hour)
			cfg := configuration(t)
			for i, given := range cfg.Profiles[0].PluginConfig {
				if given.Name == scheduler.Name {
					cfg.Profiles[0].PluginConfig[i].Args = &configv1alpha1.ReprieveArgs{VictimOrder: c.order}
				}
			}
			w := manifest.Workload{Kind: "Pod", Namespace: "ns", Name: "next", Pods: []*corev1.Pod{s.pending("next", "", c.gpus, 100)}}
			results, err := whatif.Plan(t.Context(), s.inventory(t), cfg, []manifest.Workload{w}, nil)
			if err != nil {
				t.Fatal(err)
			}
			step := results[0].Steps[0]
			if len(step.Victims) == 0 {
				t.Fatalf("%s: %s", step.Outcome, step.Message)
			}
			switch other := step.ByPriority; {
			case c.wantPods == 0 && other != nil:
				t.Errorf("by priorities alone %+v, want nothing", *other)
			case c.wantPods > 0 && (other == nil || other.Pods != c.wantPods || other.GPUHours != c.want):
				t.Errorf("by priorities alone %+v, want %d pods and %v GPU-hours", other, c.wantPods, c.want)
			}
		})
	}
}
