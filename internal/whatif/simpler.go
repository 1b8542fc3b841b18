package whatif

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// ByPriorityAlone returns the cost of the victims that the scheduler would choose by priorities
// alone, that is, by the order of KEP-5710 and without bands. It returns nil if the step has no
// victims or if the victims would be the same. If the pod's profile has another order or bands, it
// makes one more decision.
func ByPriorityAlone(ctx context.Context, objects *inventory.Inventory, cfg *config.KubeSchedulerConfiguration, key types.NamespacedName, profile string, step *Step) (*Cost, error) {
	if step.Outcome != core.Preempts {
		return nil, nil
	}
	simpler, err := byPriorities(cfg, profile)
	if simpler == nil || err != nil {
		return nil, err
	}
	cluster, err := New(ctx, objects, simpler)
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	other, err := cluster.Decide(ctx, key)
	if err != nil || other.Outcome != core.Preempts || sameVictims(step, &other) {
		return nil, err
	}
	return &other.Cost, nil
}

// byPriorities returns a configuration whose profile compares victims by priorities alone. It
// returns nil if the profile does that already.
func byPriorities(cfg *config.KubeSchedulerConfiguration, profile string) (*config.KubeSchedulerConfiguration, error) {
	for i := range cfg.Profiles {
		if cfg.Profiles[i].SchedulerName != profile {
			continue
		}
		for j, given := range cfg.Profiles[i].PluginConfig {
			if given.Name != configv1alpha1.PluginName {
				continue
			}
			args, err := configv1alpha1.Decode(given.Args)
			if err != nil || !args.CountsLostWork() && !args.CountsStops() && len(args.PriorityBands) == 0 && *args.Cascade != configv1alpha1.CascadeDecide {
				return nil, err
			}
			args.VictimOrder, args.PriorityBands, args.Cascade = configv1alpha1.PriorityOrder(configv1alpha1.CascadeOff), nil, nil
			out := cfg.DeepCopy()
			out.Profiles[i].PluginConfig[j].Args = args
			return out, nil
		}
	}
	return nil, nil
}

func sameVictims(a, b *Step) bool {
	of := make(map[string]bool, len(a.Victims))
	for _, v := range a.Victims {
		of[v.UID] = true
	}
	for _, v := range b.Victims {
		if !of[v.UID] {
			return false
		}
	}
	return len(a.Victims) == len(b.Victims)
}
