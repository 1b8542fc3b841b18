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
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/metrics"
)

// Inputs holds everything that the plugins of a scheduler need from the process.
type Inputs struct {
	// Groups finds PodGroups, and Evictor evicts victims. Engine has the records of workloads. If
	// it is nil, the scheduler makes an empty Engine.
	Groups  gang.Source
	Engine  *engine.Engine
	Evictor Evictor
	// Statuses writes conditions of gang members that have no cycle of their own; nil to write
	// none.
	Statuses Statuses
	// Decisions records decisions; nil to record none.
	Decisions DecisionLog
	// Recorder records the inputs of decisions; nil to record none.
	Recorder Recorder
	// Refused lists the pods that the API server refuses to delete; nil for an empty list.
	Refused *eviction.Refusals
	// Metrics measures preemptions. If it is nil, the plugins keep metrics without a reader.
	Metrics *metrics.Metrics
	// Clock is nil for the real clock.
	Clock clock.WithTicker
	// Derived finds the groups of pods that name no PodGroup; nil if there are no such groups.
	Derived Derived
	// Trees has the trees of groups; nil if there are none. Groups has their groups too.
	Trees *gang.Trees
	// Confined is true if arguments of the profiles restrict the nodes of pods that do not ask for
	// it, see [Confine].
	Confined bool
	// SchedulingGroups is true if pods may also name their PodGroup in spec.schedulingGroup. Then
	// the scheduler also follows finished pods of such groups. That takes an informer for all
	// finished pods.
	SchedulingGroups bool
}

// Plugins makes the plugins of one scheduler, one for each profile. With the first plugin it makes
// the adapter that all of them share.
type Plugins struct {
	inputs Inputs

	making sync.Mutex
	sched  atomic.Pointer[Scheduler]
}

// NewPlugins returns the plugins of a scheduler. Register them with [Plugins.Registry] before the
// scheduler is made.
func NewPlugins(inputs Inputs) *Plugins { return &Plugins{inputs: inputs} }

// Registry returns the factories of the plugins, under [Name], [GateName] and [SortName].
func (ps *Plugins) Registry() frameworkruntime.Registry {
	return frameworkruntime.Registry{Name: ps.newPlugin, GateName: ps.newGate, SortName: ps.newSort}
}

// Scheduler returns the adapter that the plugins share; nil until a profile with [Plugin] has been
// built.
func (ps *Plugins) Scheduler() *Scheduler { return ps.sched.Load() }

// newPlugin returns the plugin for one profile.
func (ps *Plugins) newPlugin(ctx context.Context, given runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	full, err := fullFramework(handle)
	if err != nil {
		return nil, err
	}
	args, err := configv1alpha1.Decode(given)
	if err != nil {
		return nil, fmt.Errorf("profile %s: plugin %s: %w", full.ProfileName(), Name, err)
	}
	sched, err := ps.schedulerOf(ctx, full)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", Name, err)
	}
	sched.profiles.add(full.ProfileName(), args, full.EventRecorder())
	p := newPlugin(sched, args, full)
	sched.profiles.setPlugins(full.ProfileName(), full.ListPlugins, full.PreEnqueuePlugins,
		slices.ContainsFunc(full.Extenders(), fwk.Extender.IsFilter), p.resources)
	sched.metrics.Serves(full.ProfileName())
	return p, nil
}

// newGate returns the plugin that gates the pods of one profile.
func (ps *Plugins) newGate(ctx context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	full, err := fullFramework(handle)
	if err != nil {
		return nil, err
	}
	sched, err := ps.schedulerOf(ctx, full)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", GateName, err)
	}
	return &Gate{sched: sched}, nil
}

// fullFramework returns the full framework behind a handle. Planning runs the PreFilter plugins of
// other members, and only the full framework offers that.
func fullFramework(handle fwk.Handle) (framework.Framework, error) {
	full, ok := handle.(framework.Framework)
	if !ok {
		return nil, fmt.Errorf("plugin %s needs a framework that runs PreFilter plugins, got %T", Name, handle)
	}
	return full, nil
}

// schedulerOf returns the adapter of all profiles. The first call makes it.
func (ps *Plugins) schedulerOf(ctx context.Context, handle framework.Framework) (*Scheduler, error) {
	ps.making.Lock()
	defer ps.making.Unlock()
	if sched := ps.sched.Load(); sched != nil {
		return sched, nil
	}
	sched, err := newScheduler(ctx, &ps.inputs, handle)
	if err != nil {
		return nil, err
	}
	ps.sched.Store(sched)
	return sched, nil
}

// newSort returns the queue's order for a profile. A profile may use it without [Plugin].
func (ps *Plugins) newSort(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return &PrioritySort{plugins: ps}, nil
}
