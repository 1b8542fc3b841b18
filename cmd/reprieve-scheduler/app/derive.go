package app

import (
	"context"
	"fmt"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	restclient "k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/controller"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

// deriveGroups creates the parts that derive PodGroups from the owners of pods, if the arguments of
// a profile request such groups.
func (p *parts) deriveGroups(rest *restclient.Config, profiles []config.KubeSchedulerProfile) error {
	settings, err := grouping.SettingsOf(profiles, scheduler.Name)
	if err != nil {
		return err
	}
	p.derivedChanged, p.holdChanged = &controller.Trigger{}, &controller.Trigger{}
	resolver, err := grouping.NewResolver(settings, p.derivedChanged.Request)
	if err != nil {
		return err
	}
	resolver.TellHolds(p.holdChanged.Request)
	if p.inputs != nil {
		resolver.RecordTo(p.inputs)
		p.inputs.FollowRoots(rootsOf(resolver))
	}
	if !resolver.Used() {
		return nil
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

// rootsOf returns the kinds of objects that PodGroups are derived from, in the format of the
// decision log.
func rootsOf(resolver *grouping.Resolver) []decisionlog.Root {
	kinds := resolver.Kinds()
	out := make([]decisionlog.Root, len(kinds))
	for i := range kinds {
		out[i] = decisionlog.Root{APIVersion: kinds[i].GroupVersion().String(), Kind: kinds[i].Kind, Resource: kinds[i].Resource}
	}
	return out
}

// follow starts to watch the owners of pods, and returns when their caches have synced. If no
// groups are derived, it does nothing.
func (p *parts) follow(ctx context.Context, shared *scheduler.Scheduler) error {
	if p.derived == nil {
		return nil
	}
	p.derived.Attach(shared)
	if err := p.follower.Start(ctx); err != nil {
		return fmt.Errorf("read the objects that groups are derived for: %w", err)
	}
	go p.follower.Run(ctx)
	return nil
}

// membership returns the function that maps pods to groups.
func (p *parts) membership() gang.Membership {
	if p.derived == nil {
		return p.trees.Membership(gang.Named{})
	}
	return p.trees.Membership(p.derived)
}

// schedulerDerived returns the derived groups as the interface that the plugins use. If no groups
// are derived, it returns a nil interface: a nil *grouping.Resolver would make the interface
// non-nil.
func (p *parts) schedulerDerived() cluster.Derived {
	if p.derived == nil {
		return nil
	}
	return p.derived
}
