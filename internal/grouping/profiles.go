package grouping

import (
	"fmt"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
)

// SettingsOf returns the settings of each profile by its name, from the arguments of the named
// plugin. It omits profiles without rules. The error names the profile and the invalid argument.
func SettingsOf(profiles []config.KubeSchedulerProfile, plugin string) (map[string]*Settings, error) {
	out := make(map[string]*Settings)
	for i := range profiles {
		for _, given := range profiles[i].PluginConfig {
			if given.Name != plugin {
				continue
			}
			args, err := configv1alpha1.Decode(given.Args)
			if err != nil {
				return nil, fmt.Errorf("profile %s: plugin %s: %w", profiles[i].SchedulerName, plugin, err)
			}
			if !*args.WorkloadAware {
				continue
			}
			rules, err := FromArgs(&args.Groups)
			if err != nil {
				return nil, fmt.Errorf("profile %s: plugin %s: args: %w", profiles[i].SchedulerName, plugin, err)
			}
			if len(rules) > 0 {
				out[profiles[i].SchedulerName] = NewSettings(rules, *args.Groups.OptIn == configv1alpha1.OptInAlways).Understand(args.Groups.Labels)
			}
		}
	}
	return out, nil
}
