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

// checkArguments rejects two kinds of arguments under pluginConfig, before anything starts. The
// first kind are arguments that no plugin reads. The library ignores such arguments, so a
// misspelled plugin name would silently remove the protection that they configure. The second kind
// are invalid arguments of Reprieve.
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

// fieldsOfFlags maps flags to fields of the configuration file. If there is a configuration file,
// the library ignores these flags, and the fields replace them.
func fieldsOfFlags() map[string]string {
	return map[string]string{
		"kube-api-qps": "clientConnection.qps", "kube-api-burst": "clientConnection.burst", "kube-api-content-type": "clientConnection.contentType",
		"profiling": "enableProfiling", "contention-profiling": "enableContentionProfiling",
	}
}

// warnOfFlags logs each given flag that the library ignores because there is a configuration file.
func warnOfFlags(logger klog.Logger, opts *Options) {
	fields := fieldsOfFlags()
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if opts.ConfigFile != "" && opts.isChanged(name) {
			logger.Info("A flag is not read beside --config; write its field in that file", "flag", "--"+name, "field", fields[name])
		}
	}
}
