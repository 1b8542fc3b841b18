package app

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

// enableIt is YAML for a profile that enables Reprieve and disables DefaultPreemption. Error
// messages suggest it.
const enableIt = "plugins: {multiPoint: {enabled: [{name: " + scheduler.Name + "}], disabled: [{name: " + names.DefaultPreemption + "}]}}"

// checkProfiles rejects configurations that the library accepts although they do not work:
//
//   - No profile enables Reprieve.
//   - A profile enables Reprieve only in part.
//   - A profile enables no plugin that preempts.
//   - A profile enables both Reprieve and DefaultPreemption.
//   - A profile does not use Reprieve's QueueSort plugin alone.
func checkProfiles(cfg *config.KubeSchedulerConfiguration) error {
	if !slices.ContainsFunc(cfg.Profiles, func(p config.KubeSchedulerProfile) bool { return uses(&p, scheduler.Name) }) {
		return fmt.Errorf("no profile has the plugin %[1]s, so nothing would be scheduled as %[1]s does; write %[2]s in profiles[0]", scheduler.Name, enableIt)
	}
	for i := range cfg.Profiles {
		profile := &cfg.Profiles[i]
		check := checkOther
		if uses(profile, scheduler.Name) {
			check = checkOurs
		}
		at := fmt.Sprintf("profiles[%d]", i)
		if err := cmp.Or(check(at, profile.Plugins), checkOrder(at, profile.Plugins)); err != nil {
			return fmt.Errorf("profile %s: %w", profile.SchedulerName, err)
		}
	}
	return nil
}

// checkNames rejects two profiles with the same schedulerName. The library rejects them too, but
// its error has neither the name nor the index of the first profile.
func checkNames(cfg *config.KubeSchedulerConfiguration) error {
	first := make(map[string]int)
	for i := range cfg.Profiles {
		name := cfg.Profiles[i].SchedulerName
		if j, ok := first[name]; ok {
			return fmt.Errorf("profiles[%d].schedulerName: profiles[%d] is named %q already; give each profile a name of its own", i, j, name)
		}
		first[name] = i
	}
	return nil
}

// checkOther checks a profile without Reprieve. It returns an error if the profile does not enable
// DefaultPreemption, because its pods could then never preempt.
func checkOther(at string, plugins *config.Plugins) error {
	if plugins == nil || slices.Contains(inOrder(plugins, &plugins.PostFilter), names.DefaultPreemption) {
		return nil
	}
	return fmt.Errorf("%s has neither %s nor %s, so nothing would ever be preempted for its pods; write %s there",
		at, scheduler.Name, names.DefaultPreemption, enableIt)
}

// checkOurs checks a profile with Reprieve. It returns an error in three cases:
//
//   - Reprieve is not enabled at one of its extension points.
//   - Reprieve is not the first plugin at PreFilter, and preFilter.enabled does not name it. If
//     preFilter.enabled names it after another plugin, warnOfProfiles logs a warning.
//   - DefaultPreemption is enabled too. It would run whenever Reprieve finds no victims. It would
//     then evict single members of gangs, and ignore protections.
func checkOurs(at string, plugins *config.Plugins) error {
	for _, point := range ourPoints(plugins) {
		if !slices.Contains(inOrder(plugins, point.set), scheduler.Name) {
			return fmt.Errorf("%s.plugins.%s leaves %s out, which has to be at all of its extension points; "+
				"enable it under multiPoint, and disable it nowhere", at, point.name, scheduler.Name)
		}
	}
	if slices.Contains(inOrder(plugins, &plugins.PostFilter), names.DefaultPreemption) {
		field, instead := "multiPoint", "write disabled: [{name: "+names.DefaultPreemption+"}] there"
		if has(plugins.PostFilter.Enabled, names.DefaultPreemption) {
			field, instead = "postFilter", "take it off there, and write disabled: [{name: "+names.DefaultPreemption+"}] under multiPoint"
		}
		return fmt.Errorf("%s.plugins.%s leaves %s on, which would take what %s protects; %s", at, field, names.DefaultPreemption, scheduler.Name, instead)
	}
	if inOrder(plugins, &plugins.PreFilter)[0] != scheduler.Name && !has(plugins.PreFilter.Enabled, scheduler.Name) {
		return fmt.Errorf("%s.plugins.preFilter does not put %[2]s first, so that other plugins turn members of gangs away before %[2]s has planned; "+
			"write preFilter: {enabled: [{name: %[2]s}]}", at, scheduler.Name)
	}
	return nil
}

// checkOrder returns an error if a profile does not enable Reprieve's QueueSort plugin, or if it
// also enables PrioritySort. This applies to profiles without Reprieve too: all profiles share one
// queue, and the priorities of PodGroups order it.
func checkOrder(at string, plugins *config.Plugins) error {
	if plugins == nil {
		return nil
	}
	if sort := inOrder(plugins, &plugins.QueueSort); !slices.Contains(sort, scheduler.SortName) || slices.Contains(sort, names.PrioritySort) {
		return fmt.Errorf("%s.plugins.queueSort does not have %[2]s alone, without which the queue goes by the pods' own priorities and not by "+
			"their PodGroups'; write queueSort: {enabled: [{name: %[2]s}], disabled: [{name: %[3]s}]} in all profiles",
			at, scheduler.SortName, names.PrioritySort)
	}
	return nil
}

// extensionPoint is an extension point of a profile, with the plugins that the profile configures
// for it.
type extensionPoint struct {
	name string
	set  *config.PluginSet
}

func ourPoints(p *config.Plugins) []extensionPoint {
	return []extensionPoint{
		{"preFilter", &p.PreFilter},
		{"filter", &p.Filter},
		{"postFilter", &p.PostFilter},
		{"reserve", &p.Reserve},
		{"permit", &p.Permit},
	}
}

// warnOfProfiles logs two kinds of profiles that are valid but probably a mistake: profiles without
// Reprieve, and profiles that call other PreFilter plugins before it.
func warnOfProfiles(logger klog.Logger, cfg *config.KubeSchedulerConfiguration) {
	for i := range cfg.Profiles {
		profile := &cfg.Profiles[i]
		if !uses(profile, scheduler.Name) {
			logger.Info("The profile has no Reprieve: its pods are placed one by one, and they preempt without regard to gangs, queues, min-runtimes and tolerations; "+
				"to go by pods on purpose, use the plugin with workloadAware: false", "profile", profile.SchedulerName, "plugin", scheduler.Name)
			continue
		}
		if inOrder(profile.Plugins, &profile.Plugins.PreFilter)[0] != scheduler.Name {
			logger.Info("Other PreFilter plugins come first, and may turn the member away that is to plan for its gang; "+
				"put the plugin first in preFilter.enabled", "profile", profile.SchedulerName, "plugin", scheduler.Name)
		}
	}
}

// uses reports whether a profile enables a plugin under multiPoint, or at any of Reprieve's
// extension points.
func uses(profile *config.KubeSchedulerProfile, plugin string) bool {
	p := profile.Plugins
	return p != nil && (has(p.MultiPoint.Enabled, plugin) ||
		slices.ContainsFunc(ourPoints(p), func(point extensionPoint) bool { return has(point.set.Enabled, plugin) }))
}

// inOrder lists the plugins at an extension point in the order of their calls:
//
//  1. plugins that are enabled both under multiPoint and at the extension point;
//  2. plugins that are enabled under multiPoint only;
//  3. plugins that are enabled at the extension point only.
//
// The list may contain plugins of multiPoint that do not implement the extension point.
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
