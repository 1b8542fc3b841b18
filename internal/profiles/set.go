package profiles

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// Set holds the facts about each profile that has the plugin, by the scheduler name of the profile.
// The zero value is ready to use. It is safe for concurrent use.
type Set struct {
	mu     sync.RWMutex
	byName map[string]facts
	// requireQueues is true if any profile rejects work without a queue.
	requireQueues atomic.Bool
	// Confined is the result of Confine for the scheduler's configuration. Set it before the first
	// call of Add.
	Confined bool
	// filtersKnown is the cached result of KnowFilters, of the type answer.
	filtersKnown atomic.Int32
}

// facts holds the facts about one profile.
type facts struct {
	args     *configv1alpha1.ReprieveArgs
	recorder events.EventRecorder
	// minRuntime is the profile's min-runtimes, for work without a setting in its queue.
	minRuntime *core.MinRuntime
	// plugins returns the plugins of the profile. Call it only when the profile is complete.
	plugins func() *config.Plugins
	// preEnqueue returns the PreEnqueue plugins of the profile.
	preEnqueue func() []fwk.PreEnqueuePlugin
	// resources selects the requested resources that the profile counts; nil until these are known.
	resources snapshot.ResourceFilter
	// extended is true if an extender may reject pods of the profile.
	extended bool
}

// RequireQueues reports whether any profile rejects work without a queue.
func (ps *Set) RequireQueues() bool { return ps.requireQueues.Load() }

// Add records a profile with its arguments and its recorder of events.
func (ps *Set) Add(name string, args *configv1alpha1.ReprieveArgs, recorder events.EventRecorder) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.byName == nil {
		ps.byName = make(map[string]facts)
	}
	ps.byName[name] = facts{args: args, recorder: recorder, minRuntime: MinRuntimeIn(args)}
	if ptr.Deref(args.Queues.Required, false) {
		ps.requireQueues.Store(true)
	}
}

// SetPlugins records the plugins of a profile that was added before, and whether an extender may
// reject its pods.
func (ps *Set) SetPlugins(name string, plugins func() *config.Plugins, preEnqueue func() []fwk.PreEnqueuePlugin, extended bool, resources snapshot.ResourceFilter) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	facts := ps.byName[name]
	facts.plugins, facts.preEnqueue, facts.extended, facts.resources = plugins, preEnqueue, extended, resources
	ps.byName[name] = facts
	ps.filtersKnown.Store(0)
}

// Resources returns the filter for the resources that a profile counts. It returns nil for a
// profile that lacks the plugin or does not check resources.
func (ps *Set) Resources(name string) snapshot.ResourceFilter {
	if !ps.Filters(name).Has(names.NodeResourcesFit) {
		return nil
	}
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	if facts := ps.byName[name]; facts.resources != nil {
		return facts.resources
	}
	return nil
}

// PreEnqueue returns the PreEnqueue plugins of a profile; none for a profile that lacks the plugin.
func (ps *Set) PreEnqueue(name string) []fwk.PreEnqueuePlugin {
	ps.mu.RLock()
	plugins := ps.byName[name].preEnqueue
	ps.mu.RUnlock()
	if plugins == nil {
		return nil
	}
	return plugins()
}

// Of returns the arguments of a profile; nil for a profile that lacks the plugin. The arguments
// never change.
func (ps *Set) Of(name string) *configv1alpha1.ReprieveArgs {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	return ps.byName[name].args
}

// SettleTime returns the settle time that all profiles have; false if the profiles differ. With
// equal times, callers need not find the profile of a gang's members.
func (ps *Set) SettleTime() (same time.Duration, ok bool) {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	for _, facts := range ps.byName {
		switch {
		case facts.args == nil:
			return 0, false
		case !ok:
			same, ok = facts.args.Gang.SettleTime.Duration, true
		case facts.args.Gang.SettleTime.Duration != same:
			return 0, false
		}
	}
	return same, ok
}

// MinRuntimeIn returns the minimum runtimes of a profile's arguments.
func MinRuntimeIn(args *configv1alpha1.ReprieveArgs) *core.MinRuntime {
	return &core.MinRuntime{
		Preempt: int64(ptr.Deref(args.PreemptMinRuntime, metav1.Duration{}).Duration),
		Reclaim: int64(ptr.Deref(args.ReclaimMinRuntime, metav1.Duration{}).Duration),
		Resolve: core.ResolveMethod(ptr.Deref(args.ReclaimResolveMethod, configv1alpha1.ResolveLCA)),
	}
}

// MinRuntimeOf returns the min-runtimes of a profile; nil for a profile that lacks the plugin. They
// apply to work without a setting in its queue.
func (ps *Set) MinRuntimeOf(name string) *core.MinRuntime {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	return ps.byName[name].minRuntime
}

// MinRuntime returns the min-runtimes that all profiles have; false if the profiles differ. With
// equal min-runtimes, callers need not find the profile of a group's members.
func (ps *Set) MinRuntime() (only *core.MinRuntime, ok bool) {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	for _, facts := range ps.byName {
		switch {
		case only == nil:
			only = facts.minRuntime
		case facts.minRuntime == nil || *facts.minRuntime != *only:
			return nil, false
		}
	}
	return only, only != nil
}

// Recorder returns the recorder for events of the profile with the given name.
func (ps *Set) Recorder(name string) events.EventRecorder {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	return ps.byName[name].recorder
}

// Filters returns the names of the Filter plugins that a profile runs.
func (ps *Set) Filters(name string) sets.Set[string] {
	ps.mu.RLock()
	plugins := ps.byName[name].plugins
	ps.mu.RUnlock()
	out := sets.New[string]()
	if plugins == nil {
		return out
	}
	for _, p := range plugins().Filter.Enabled {
		out.Insert(p.Name)
	}
	return out
}

// DeletedTimeout returns how long a deleted Queue with running work is kept. It is the longest
// timeout of all profiles, because the profiles share the queues.
func (ps *Set) DeletedTimeout() (longest time.Duration) {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	for _, facts := range ps.byName {
		longest = max(longest, facts.args.Queues.DeletedTimeout.Duration)
	}
	return longest
}

// Limits bounds how long planning counts a terminating pod as gone.
type Limits struct {
	// Grace is the longest grace period that planning waits for.
	Grace time.Duration
	// Timeout is the time that planning waits after the grace period.
	Timeout time.Duration
}

// DepartureLimits returns the longest limits of all profiles. The profiles share one snapshot, so a
// pod must be either terminating or overdue for all of them.
func (ps *Set) DepartureLimits() Limits {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	if len(ps.byName) == 0 {
		return Limits{Grace: math.MaxInt64, Timeout: math.MaxInt64}
	}
	var longest Limits
	for _, facts := range ps.byName {
		longest.Grace = max(longest.Grace, facts.args.MaxGracePeriod.Duration)
		longest.Timeout = max(longest.Timeout, facts.args.TerminationTimeout.Duration)
	}
	return longest
}

// Cut reports whether the grace period of a terminating pod is longer than planning waits for.
func (l Limits) Cut(pod *corev1.Pod) bool {
	return ptr.Deref(pod.DeletionGracePeriodSeconds, 0) > int64(l.Grace/time.Second)
}

// OverdueAt returns the time when a terminating pod becomes overdue: Timeout after the end of its
// grace period. If the grace period is longer than Grace, only Grace counts.
//
// The deletion timestamp is the end of the grace period. So the deletion began at the timestamp
// minus the grace period, even if the grace period was shortened later.
func (l Limits) OverdueAt(pod *corev1.Pod) time.Time {
	if !l.Cut(pod) {
		return pod.DeletionTimestamp.Add(l.Timeout)
	}
	// For a grace period over 292 years, the addition in the API server overflows. This subtraction
	// overflows in the same way, so the result is exact.
	begun := pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
	return begun.Add(l.Grace).Add(l.Timeout)
}

// Sentence returns a message about an overdue pod. It names the time since the grace period ended,
// and the reason why the pod counts as staying.
func (l Limits) Sentence(pod *corev1.Pod) string {
	if l.Cut(pod) {
		return fmt.Sprintf("%s was deleted with a grace period of %d s, longer than maxGracePeriod (%v), and is still here %v after that",
			klog.KObj(pod), *pod.DeletionGracePeriodSeconds, l.Grace, l.Timeout)
	}
	return fmt.Sprintf("%s is still here %v after its grace period: node %s may not answer", klog.KObj(pod), l.Timeout, pod.Spec.NodeName)
}

// KnowFilters reports whether the scheduler knows the inputs of all plugins that may reject a pod.
// This is true if each profile runs only in-tree plugins of that kind, and no extender filters.
func (ps *Set) KnowFilters() bool {
	switch ps.filtersKnown.Load() {
	case yes:
		return true
	case no:
		return false
	}
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	known := yes
	if ps.Confined {
		known = no
	}
	for name := range ps.byName {
		if facts := ps.byName[name]; facts.plugins == nil || !areKnown(facts.plugins()) || facts.extended {
			known = no
		}
	}
	ps.filtersKnown.Store(known)
	return known == yes
}

// answer is yes, no, or 0 if it is not known.
type answer = int32

const (
	yes answer = iota + 1
	no
)

// Confine reports whether the configuration can make the check for plenty of room wrong. By this
// check, the scheduler admits workloads without a turn if all queued work has room. The check is
// wrong in two cases:
//
//   - Arguments of a plugin restrict the nodes of pods that do not request it.
//   - Arguments or an extender let pods use nodes with less free room than the quota ledger
//     assumes.
func Confine(profiles []config.KubeSchedulerProfile, extenders []config.Extender) bool {
	ignores := func(r config.ExtenderManagedResource) bool { return r.IgnoredByScheduler }
	if slices.ContainsFunc(extenders, func(e config.Extender) bool { return slices.ContainsFunc(e.ManagedResources, ignores) }) {
		return true
	}
	return slices.ContainsFunc(profiles, func(p config.KubeSchedulerProfile) bool { return slices.ContainsFunc(p.PluginConfig, confines) })
}

// confines reports whether the arguments of a plugin have an effect that Confine checks for.
func confines(c config.PluginConfig) bool {
	switch args := c.Args.(type) {
	case *config.NodeAffinityArgs:
		return args.AddedAffinity != nil && args.AddedAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil
	case *config.PodTopologySpreadArgs:
		return slices.ContainsFunc(args.DefaultConstraints, func(c corev1.TopologySpreadConstraint) bool {
			return c.WhenUnsatisfiable == corev1.DoNotSchedule
		})
	case *config.NodeResourcesFitArgs:
		return len(args.IgnoredResources)+len(args.IgnoredResourceGroups) > 0
	}
	return false
}

// areKnown reports whether a profile runs only known plugins among the plugins that may reject a
// pod. Known plugins depend only on room or on fields of the pod. The profile must also run the
// plugins that the quota ledger relies on.
func areKnown(plugins *config.Plugins) bool {
	runs := sets.New[string]()
	for _, p := range plugins.Filter.Enabled {
		runs.Insert(p.Name)
	}
	if !runs.HasAll(names.NodeUnschedulable, names.NodeAffinity, names.TaintToleration, names.NodeResourcesFit) {
		return false
	}
	known := sets.New(
		configv1alpha1.PluginName, names.NodeName, names.NodeUnschedulable, names.NodeAffinity, names.NodePorts, names.TaintToleration, names.NodeResourcesFit,
		names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeBinding, names.VolumeZone, names.PodTopologySpread,
		names.InterPodAffinity, names.DynamicResources, names.NodeDeclaredFeatures,
	)
	return !slices.ContainsFunc(slices.Concat(plugins.PreFilter.Enabled, plugins.Filter.Enabled), func(p config.Plugin) bool {
		return !known.Has(p.Name)
	})
}
