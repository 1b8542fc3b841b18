package app

import (
	"context"
	"fmt"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	restclient "k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/controller"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

// deriveGroups makes what derives groups, where a profile asks for it.
func (p *parts) deriveGroups(rest *restclient.Config, profiles []config.KubeSchedulerProfile) error {
	settings, err := groupSettings(profiles)
	if err != nil {
		return err
	}
	p.derivedChanged = &controller.Trigger{}
	resolver, err := grouping.NewResolver(settings, p.derivedChanged.Request)
	if err != nil || !resolver.Used() {
		return err
	}
	objects, err := dynamic.NewForConfig(rest)
	if err != nil {
		return fmt.Errorf("make the client of objects that groups are made for: %w", err)
	}
	served, err := discovery.NewDiscoveryClientForConfig(rest)
	if err != nil {
		return fmt.Errorf("make a discovery client: %w", err)
	}
	p.derived, p.follower = resolver, grouping.NewFollower(resolver, objects, served)
	return nil
}

// groupSettings are what the profiles ask for. Arguments that cannot be read are left to the plugin, which refuses them.
func groupSettings(profiles []config.KubeSchedulerProfile) (map[string]*grouping.Settings, error) {
	out := make(map[string]*grouping.Settings)
	for i := range profiles {
		for _, given := range profiles[i].PluginConfig {
			if given.Name != scheduler.Name {
				continue
			}
			args, err := configv1alpha1.Decode(given.Args)
			if err != nil || !*args.WorkloadAware {
				continue
			}
			rules, err := grouping.FromArgs(&args.Groups)
			if err != nil {
				return nil, fmt.Errorf("profile %s: plugin %s: args: %w", profiles[i].SchedulerName, scheduler.Name, err)
			}
			if len(rules) > 0 {
				out[profiles[i].SchedulerName] = grouping.NewSettings(rules, *args.Groups.OptIn == configv1alpha1.OptInAlways)
			}
		}
	}
	return out, nil
}

// follow has the objects known that pods belong to.
func (p *parts) follow(ctx context.Context, hub *scheduler.Hub) error {
	if p.derived == nil {
		return nil
	}
	p.derived.Attach(hub)
	if err := p.follower.Start(ctx); err != nil {
		return fmt.Errorf("read what groups are made for: %w", err)
	}
	go p.follower.Run(ctx)
	return nil
}

// membership says which group a pod belongs to.
func (p *parts) membership() gang.Membership {
	if p.derived == nil {
		return gang.Named{}
	}
	return p.derived
}

// schedulerDerived is what the plugins are told: nil, and not a nil *grouping.Resolver, for nothing.
func (p *parts) schedulerDerived() scheduler.Derived {
	if p.derived == nil {
		return nil
	}
	return p.derived
}
