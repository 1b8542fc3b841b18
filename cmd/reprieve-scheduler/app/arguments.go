package app

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"

	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

// checkArguments rejects arguments under pluginConfig that no plugin reads. The library ignores
// them, and the pods that they should protect would be preempted. It also rejects arguments of
// Reprieve that cannot be read, before anything starts.
func checkArguments(cfg *config.KubeSchedulerConfiguration) error {
	known := sets.KeySet(plugins.NewInTreeRegistry()).Insert(scheduler.Name, scheduler.GateName, scheduler.SortName)
	for i := range cfg.Profiles {
		profile := &cfg.Profiles[i]
		for j := range profile.PluginConfig {
			at, name := fmt.Sprintf("profiles[%d].pluginConfig[%d]", i, j), profile.PluginConfig[j].Name
			switch {
			case !known.Has(name):
				return fmt.Errorf("profile %s: %s.name: there is no plugin %q, so its args would be read by none; "+
					"write the name of a plugin, such as %s, or leave the entry out", profile.SchedulerName, at, name, scheduler.Name)
			case name == scheduler.GateName || name == scheduler.SortName:
				return fmt.Errorf("profile %s: %s.name: %s takes no arguments; write them in the entry of %s", profile.SchedulerName, at, name, scheduler.Name)
			case name == scheduler.Name && !uses(profile, name):
				return fmt.Errorf("profile %s: %s has the arguments of %s, which the profile does not have; write %s there, or leave the entry out",
					profile.SchedulerName, at, name, enableIt)
			}
		}
	}
	_, err := grouping.SettingsOf(cfg.Profiles, scheduler.Name)
	return err
}

// fieldsOfFlags returns the flags that the library ignores if there is a configuration file, each
// with the field of the file that replaces it.
func fieldsOfFlags() map[string]string {
	return map[string]string{
		"kube-api-qps": "clientConnection.qps", "kube-api-burst": "clientConnection.burst", "kube-api-content-type": "clientConnection.contentType",
		"profiling": "enableProfiling", "contention-profiling": "enableContentionProfiling",
	}
}

// warnOfFlags logs the flags that are ignored because there is a configuration file.
func warnOfFlags(logger klog.Logger, opts *Options) {
	fields := fieldsOfFlags()
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if opts.ConfigFile != "" && opts.isChanged(name) {
			logger.Info("A flag is not read beside --config; write its field in that file", "flag", "--"+name, "field", fields[name])
		}
	}
}
