package scheduler

import (
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// profiles holds the facts about each profile that has the plugin, by the scheduler name of the
// profile. The zero value is ready to use. It is safe for concurrent use.
type profiles struct {
	mu     sync.RWMutex
	byName map[string]profileFacts
	// requireQueues is true if any profile rejects work without a queue.
	requireQueues atomic.Bool
	// confine is the result of Confine for the scheduler's configuration.
	confine bool
	// filtersKnown is the cached result of knowFilters; see answer.
	filtersKnown atomic.Int32
}

// profileFacts holds the facts about one profile.
type profileFacts struct {
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

func (ps *profiles) add(name string, args *configv1alpha1.ReprieveArgs, recorder events.EventRecorder) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.byName == nil {
		ps.byName = make(map[string]profileFacts)
	}
	ps.byName[name] = profileFacts{args: args, recorder: recorder, minRuntime: minRuntimeIn(args)}
	if ptr.Deref(args.Queues.Required, false) {
		ps.requireQueues.Store(true)
	}
}

// setPlugins records the plugins of a profile that was added before, and whether an extender may
// reject its pods.
func (ps *profiles) setPlugins(name string, plugins func() *config.Plugins, preEnqueue func() []fwk.PreEnqueuePlugin, extended bool, resources snapshot.ResourceFilter) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	facts := ps.byName[name]
	facts.plugins, facts.preEnqueue, facts.extended, facts.resources = plugins, preEnqueue, extended, resources
	ps.byName[name] = facts
	ps.filtersKnown.Store(0)
}

// resources returns the filter for the resources that a profile counts. It returns nil for a
// profile that lacks the plugin or does not check resources.
func (ps *profiles) resources(name string) snapshot.ResourceFilter {
	if !ps.filters(name).Has(names.NodeResourcesFit) {
		return nil
	}
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	if facts := ps.byName[name]; facts.resources != nil {
		return facts.resources
	}
	return nil
}

// preEnqueue returns the PreEnqueue plugins of a profile; none for a profile that lacks the plugin.
func (ps *profiles) preEnqueue(name string) []fwk.PreEnqueuePlugin {
	ps.mu.RLock()
	plugins := ps.byName[name].preEnqueue
	ps.mu.RUnlock()
	if plugins == nil {
		return nil
	}
	return plugins()
}

// of returns the arguments of a profile; nil for a profile that lacks the plugin. The arguments
// never change.
func (ps *profiles) of(name string) *configv1alpha1.ReprieveArgs {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	return ps.byName[name].args
}

// settleTime returns the settle time that all profiles have; false if the profiles differ. With
// equal times, callers need not find the profile of a gang's members.
func (ps *profiles) settleTime() (same time.Duration, ok bool) {
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

func minRuntimeIn(args *configv1alpha1.ReprieveArgs) *core.MinRuntime {
	return &core.MinRuntime{
		Preempt: int64(ptr.Deref(args.PreemptMinRuntime, metav1.Duration{}).Duration),
		Reclaim: int64(ptr.Deref(args.ReclaimMinRuntime, metav1.Duration{}).Duration),
		Resolve: core.ResolveMethod(ptr.Deref(args.ReclaimResolveMethod, configv1alpha1.ResolveLCA)),
	}
}

// minRuntimeOf returns the min-runtimes of a profile; nil for a profile that lacks the plugin. They
// apply to work without a setting in its queue.
func (ps *profiles) minRuntimeOf(name string) *core.MinRuntime {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	return ps.byName[name].minRuntime
}

// minRuntime returns the min-runtimes that all profiles have; false if the profiles differ. With
// equal min-runtimes, callers need not find the profile of a group's members.
func (ps *profiles) minRuntime() (only *core.MinRuntime, ok bool) {
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

// minRuntimeOfMembers returns the min-runtimes of the profile of a group's members; nil for a
// profile that lacks the plugin. If the members name several profiles, the first name in
// alphabetical order counts. That happens when the profile was changed while members ran.
func (r *clusterIndex) minRuntimeOfMembers(members *gang.Members) *core.MinRuntime {
	name, found := "", (*core.MinRuntime)(nil)
	for _, pods := range [][]*corev1.Pod{members.Assigned, members.Pending} {
		for _, pod := range pods {
			if found != nil && pod.Spec.SchedulerName >= name {
				continue
			}
			if m := r.profiles.minRuntimeOf(pod.Spec.SchedulerName); m != nil {
				name, found = pod.Spec.SchedulerName, m
			}
		}
	}
	return found
}

func (ps *profiles) recorder(name string) events.EventRecorder {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	return ps.byName[name].recorder
}

// groupOf returns the PodGroup that a pod is scheduled and preempted with; false for none. In a
// profile that is not workload-aware, pods have no group. Pods of other schedulers can have one.
func (r *clusterIndex) groupOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	key, ok := r.derived.GroupOf(pod)
	if !ok {
		return key, false
	}
	if args := r.profiles.of(pod.Spec.SchedulerName); args != nil && !*args.WorkloadAware {
		return types.NamespacedName{}, false
	}
	return key, true
}

// settleTime returns how long the scheduler collects changes of a gang before it plans the gang
// again.
func (r *clusterIndex) settleTime(key types.NamespacedName) time.Duration {
	if same, ok := r.profiles.settleTime(); ok {
		return same
	}
	members := r.lister.Members(key)
	for _, pod := range members.Pending {
		if args := r.profiles.of(pod.Spec.SchedulerName); args != nil {
			return args.Gang.SettleTime.Duration
		}
	}
	return 0
}
