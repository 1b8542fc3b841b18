package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/metrics"
)

// Inputs are what the plugins of a scheduler need of the process around them.
type Inputs struct {
	// Groups finds PodGroups, Registry keeps where gangs stand, and Evictor has victims removed.
	Groups   gang.Source
	Registry *gang.Registry
	Evictor  Evictor
	// Statuses writes why members of gangs are not placed that have no cycle of their own; nil for nothing that does.
	Statuses Statuses
	// Decisions keeps a record of decisions; nil for none.
	Decisions DecisionLog
	// Witness writes down what decisions go by; nil for nothing that does.
	Witness Witness
	// Refused has what the API server refuses to have deleted; nil for nothing.
	Refused *eviction.Refusals
	// Metrics measure preemptions; nil for metrics that nothing reads.
	Metrics *metrics.Metrics
	// Clock is nil for the real one.
	Clock clock.WithTicker
	// Derived knows the groups of pods that do not name one; nil for none.
	Derived Derived
	// Confined is true where the profiles' arguments keep pods off nodes though these do not say so, see [Confine].
	Confined bool
	// SchedulingGroups is true where pods name their PodGroup in spec.schedulingGroup as well: those that have finished are
	// followed then, too, which takes an informer of all that have.
	SchedulingGroups bool
}

// Plugins makes the plugins of one scheduler, profile by profile, and with the first of them the [Hub] that they share.
type Plugins struct {
	inputs Inputs

	making sync.Mutex
	hub    atomic.Pointer[Hub]
}

// NewPlugins returns the plugins of a scheduler, to be registered with [Plugins.Registry] before it is made.
func NewPlugins(inputs Inputs) *Plugins { return &Plugins{inputs: inputs} }

// Registry has the plugins' factories, under [Name], [GateName] and [SortName].
func (ps *Plugins) Registry() frameworkruntime.Registry {
	return frameworkruntime.Registry{Name: ps.newPlugin, GateName: ps.newGate, SortName: ps.newSort}
}

// Hub is what the plugins share; nil as long as no profile that has [Plugin] has been built.
func (ps *Plugins) Hub() *Hub { return ps.hub.Load() }

// newPlugin makes the plugin for one profile.
func (ps *Plugins) newPlugin(ctx context.Context, given runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	full, err := fullFramework(handle)
	if err != nil {
		return nil, err
	}
	args, err := configv1alpha1.Decode(given)
	if err != nil {
		return nil, fmt.Errorf("profile %s: plugin %s: %w", full.ProfileName(), Name, err)
	}
	hub, err := ps.hubOf(ctx, full)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", Name, err)
	}
	hub.profiles.add(full.ProfileName(), args, full.EventRecorder())
	p := newPlugin(hub, args, full)
	hub.profiles.setPlugins(full.ProfileName(), full.ListPlugins, full.PreEnqueuePlugins,
		slices.ContainsFunc(full.Extenders(), fwk.Extender.IsFilter), p.resources)
	hub.metrics.Serves(full.ProfileName())
	return p, nil
}

// newGate makes what holds pods of one profile back.
func (ps *Plugins) newGate(ctx context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	full, err := fullFramework(handle)
	if err != nil {
		return nil, err
	}
	hub, err := ps.hubOf(ctx, full)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", GateName, err)
	}
	return &Gate{hub: hub}, nil
}

// fullFramework is what planning takes, which runs the other members' PreFilter: only the full framework offers that.
func fullFramework(handle fwk.Handle) (framework.Framework, error) {
	full, ok := handle.(framework.Framework)
	if !ok {
		return nil, fmt.Errorf("plugin %s needs a framework that runs PreFilter plugins, got %T", Name, handle)
	}
	return full, nil
}

// hubOf is the hub of all profiles, made with the first one.
func (ps *Plugins) hubOf(ctx context.Context, handle framework.Framework) (*Hub, error) {
	ps.making.Lock()
	defer ps.making.Unlock()
	if hub := ps.hub.Load(); hub != nil {
		return hub, nil
	}
	hub, err := newHub(ctx, &ps.inputs, handle)
	if err != nil {
		return nil, err
	}
	ps.hub.Store(hub)
	return hub, nil
}

// newSort makes the queue's order for a profile. A profile can have it that does not have [Plugin].
func (ps *Plugins) newSort(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return &PrioritySort{plugins: ps}, nil
}
