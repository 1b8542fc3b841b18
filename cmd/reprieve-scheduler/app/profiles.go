package app

import (
	"fmt"
	"slices"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

// checkProfiles refuses profiles in which another plugin preempts as well: it comes to its turn whenever Reprieve
// finds nobody to take, takes single members of gangs, and knows of no protection.
func checkProfiles(cfg *config.KubeSchedulerConfiguration) error {
	for i := range cfg.Profiles {
		profile := &cfg.Profiles[i]
		plugins := profile.Plugins
		if !uses(profile, scheduler.Name) || !slices.Contains(inOrder(plugins, &plugins.PostFilter), names.DefaultPreemption) {
			continue
		}
		field, instead := "multiPoint", "write disabled: [{name: "+names.DefaultPreemption+"}] there"
		if has(plugins.PostFilter.Enabled, names.DefaultPreemption) {
			field, instead = "postFilter", "take it off there, and write disabled: [{name: "+names.DefaultPreemption+"}] under multiPoint"
		}
		return fmt.Errorf("profile %s: profiles[%d].plugins.%s leaves %s on, which would take what %s protects; %s",
			profile.SchedulerName, i, field, names.DefaultPreemption, scheduler.Name, instead)
	}
	return nil
}

// warnOfProfiles says where profiles have Reprieve in a way that works, and not as well as it could.
func warnOfProfiles(logger klog.Logger, cfg *config.KubeSchedulerConfiguration) {
	for i := range cfg.Profiles {
		profile := &cfg.Profiles[i]
		if !uses(profile, scheduler.Name) {
			continue
		}
		if sort := inOrder(profile.Plugins, &profile.Plugins.QueueSort); !slices.Contains(sort, scheduler.SortName) {
			logger.Info("The queue is in the order of the pods' own priorities, whatever their PodGroups' are; enable the plugin in queueSort, "+
				"and disable PrioritySort, in all profiles", "profile", profile.SchedulerName, "plugin", scheduler.SortName)
		}
		if first := inOrder(profile.Plugins, &profile.Plugins.PreFilter); len(first) > 0 && first[0] != scheduler.Name {
			logger.Info("Other PreFilter plugins come first, and may turn the member away that is to plan for its gang; "+
				"put the plugin first in preFilter.enabled", "profile", profile.SchedulerName, "plugin", scheduler.Name)
		}
	}
}

// uses reports whether a profile has a plugin at every extension point that it implements, or at some.
func uses(profile *config.KubeSchedulerProfile, plugin string) bool {
	p := profile.Plugins
	return p != nil && (has(p.MultiPoint.Enabled, plugin) || has(p.PreFilter.Enabled, plugin) || has(p.PostFilter.Enabled, plugin))
}

// inOrder are the plugins that may be called at an extension point, in the order of their calls: those of multiPoint
// that are named again, the rest of multiPoint, and all others. Which of multiPoint implement it is not known here.
func inOrder(plugins *config.Plugins, point *config.PluginSet) []string {
	var again, rest, others []string
	for _, p := range plugins.MultiPoint.Enabled {
		if !has(point.Enabled, p.Name) && !has(point.Disabled, p.Name) && !has(point.Disabled, "*") {
			rest = append(rest, p.Name)
		}
	}
	for _, p := range point.Enabled {
		if has(plugins.MultiPoint.Enabled, p.Name) && !has(point.Disabled, "*") {
			again = append(again, p.Name)
		} else {
			others = append(others, p.Name)
		}
	}
	return slices.Concat(again, rest, others)
}

func has(set []config.Plugin, plugin string) bool {
	return slices.ContainsFunc(set, func(p config.Plugin) bool { return p.Name == plugin })
}
