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
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/reporter"
)

// Inputs holds the dependencies of a scheduler's plugins.
type Inputs struct {
	// Groups finds PodGroups.
	Groups gang.Source
	// Engine has the records of workloads. If it is nil, the scheduler creates an empty Engine.
	Engine *engine.Engine
	// Evictor evicts victims.
	Evictor Evictor
	// Statuses writes the conditions of gang members whose own cycles do not write them; nil to
	// write none.
	Statuses reporter.Statuses
	// Decisions records decisions; nil to record none.
	Decisions DecisionLog
	// Recorder records the inputs of decisions; nil to record none.
	Recorder Recorder
	// Refused lists the pods that the API server refuses to delete. A nil value is an empty list.
	Refused *eviction.Refusals
	// Metrics holds the metrics. If it is nil, the plugins use metrics that are not registered.
	Metrics *metrics.Metrics
	// Clock is the source of time; nil for the real clock.
	Clock clock.WithTicker
	// Derived finds the derived groups; nil if there are none. See [cluster.Derived].
	Derived cluster.Derived
	// Trees finds the trees of groups; nil if there are none. The Source in the field Groups must
	// also return the groups of these trees.
	Trees *gang.Trees
	// Confined is the result of profiles.Confine for the scheduler's configuration.
	Confined bool
	// SchedulingGroups is true if pods may name their PodGroup in spec.schedulingGroup. The
	// scheduler then needs an informer for all finished pods, because no selector can find the pods
	// of such groups.
	SchedulingGroups bool
}

// Plugins creates the plugins of one scheduler, one for each profile. The first plugin also creates
// the [Scheduler] that all plugins share.
type Plugins struct {
	inputs Inputs

	making sync.Mutex
	sched  atomic.Pointer[Scheduler]
}

// NewPlugins returns the Plugins of a scheduler. Pass [Plugins.Registry] to the scheduler when it
// is created.
func NewPlugins(inputs Inputs) *Plugins { return &Plugins{inputs: inputs} }

// Registry returns the factories of the plugins [Name], [GateName] and [SortName].
func (ps *Plugins) Registry() frameworkruntime.Registry {
	return frameworkruntime.Registry{Name: ps.newPlugin, GateName: ps.newGate, SortName: ps.newSort}
}

// Scheduler returns the Scheduler that the plugins share; nil until a profile with [Plugin] exists.
func (ps *Plugins) Scheduler() *Scheduler { return ps.sched.Load() }

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
	sched.index.Profiles.Add(full.ProfileName(), args, full.EventRecorder())
	p := newPlugin(sched, args, full)
	sched.index.Profiles.SetPlugins(full.ProfileName(), full.ListPlugins, full.PreEnqueuePlugins,
		slices.ContainsFunc(full.Extenders(), fwk.Extender.IsFilter), p.resources)
	sched.metrics.Serves(full.ProfileName())
	return p, nil
}

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

// fullFramework returns the complete framework behind a handle. Planning needs it to run the
// PreFilter plugins for other members.
func fullFramework(handle fwk.Handle) (framework.Framework, error) {
	full, ok := handle.(framework.Framework)
	if !ok {
		return nil, fmt.Errorf("plugin %s needs a framework that runs PreFilter plugins, got %T", Name, handle)
	}
	return full, nil
}

// schedulerOf returns the Scheduler that all profiles share. The first call creates it.
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

// newSort creates the queue's order for a profile. A profile can use the order without [Plugin].
func (ps *Plugins) newSort(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return &PrioritySort{plugins: ps}, nil
}
