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

// profiles knows every profile that has the plugin, by scheduler name. The zero value is ready
// to use, and safe for concurrent use.
type profiles struct {
	mu     sync.RWMutex
	byName map[string]profileFacts
	// requireQueues is true where any of them takes no work without a queue.
	requireQueues atomic.Bool
	// confine is true where what Confine says is so.
	confine bool
	// filtersKnown is what knowFilters answers, once it has been asked.
	filtersKnown atomic.Int32
}

// profileFacts is what is known of a profile.
type profileFacts struct {
	args     *configv1alpha1.ReprieveArgs
	recorder events.EventRecorder
	// minRuntime protects the work of the profile where no queue has a setting.
	minRuntime *core.MinRuntime
	// plugins lists what the profile runs, once all of it has been made.
	plugins func() *config.Plugins
	// preEnqueue has those of them that hold pods back.
	preEnqueue func() []fwk.PreEnqueuePlugin
	// resources tells which resources the profile counts; nil as long as that is not known.
	resources snapshot.ResourceFilter
	// extended is true where an extender may turn pods away.
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

// setPlugins has a profile that is known say which plugins it runs, and whether an extender may turn pods away.
func (ps *profiles) setPlugins(name string, plugins func() *config.Plugins, preEnqueue func() []fwk.PreEnqueuePlugin, extended bool, resources snapshot.ResourceFilter) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	facts := ps.byName[name]
	facts.plugins, facts.preEnqueue, facts.extended, facts.resources = plugins, preEnqueue, extended, resources
	ps.byName[name] = facts
	ps.filtersKnown.Store(0)
}

// resources tells which resources of a request a profile counts; nil for one that lacks the plugin,
// or does not look at resources.
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

// preEnqueue are the plugins of a profile that hold pods back; none for one that lacks the plugin.
func (ps *profiles) preEnqueue(name string) []fwk.PreEnqueuePlugin {
	ps.mu.RLock()
	plugins := ps.byName[name].preEnqueue
	ps.mu.RUnlock()
	if plugins == nil {
		return nil
	}
	return plugins()
}

// of returns the arguments of a profile; nil for one that lacks the plugin. They are never changed.
func (ps *profiles) of(name string) *configv1alpha1.ReprieveArgs {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	return ps.byName[name].args
}

// settleTime is that of all profiles, where it is the same: for each member that comes, to look for theirs would be to look at all of them.
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

// minRuntimeIn returns the min-runtimes of a profile's arguments.
func minRuntimeIn(args *configv1alpha1.ReprieveArgs) *core.MinRuntime {
	return &core.MinRuntime{
		Preempt: int64(ptr.Deref(args.PreemptMinRuntime, metav1.Duration{}).Duration),
		Reclaim: int64(ptr.Deref(args.ReclaimMinRuntime, metav1.Duration{}).Duration),
		Resolve: core.ResolveMethod(ptr.Deref(args.ReclaimResolveMethod, configv1alpha1.ResolveLCA)),
	}
}

// minRuntimeOf returns what protects the work of a profile where no queue has a setting; nil for a
// profile that lacks the plugin.
func (ps *profiles) minRuntimeOf(name string) *core.MinRuntime {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	return ps.byName[name].minRuntime
}

// minRuntime returns that of the only profile, so that nobody has to look for the profile of a
// group's members.
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

// minRuntimeOfMembers returns that of the members of a group, which name one scheduler; nil where
// it is no profile with the plugin. Where they name several, because some ran before, the name that
// comes first counts.
func (r *roster) minRuntimeOfMembers(members *gang.Members) *core.MinRuntime {
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

// recorder is what records events under the name of a profile; nil for one that lacks the plugin.
func (ps *profiles) recorder(name string) events.EventRecorder {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	return ps.byName[name].recorder
}

// groupOf names the PodGroup by which a pod is scheduled, and preempted: none where its profile goes by pods. Pods of
// other schedulers have theirs.
func (r *roster) groupOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	key, ok := r.derived.GroupOf(pod)
	if !ok {
		return key, false
	}
	if args := r.profiles.of(pod.Spec.SchedulerName); args != nil && !*args.WorkloadAware {
		return types.NamespacedName{}, false
	}
	return key, true
}

// settleTime is how long changes to a gang are gathered before it is planned again.
func (r *roster) settleTime(key types.NamespacedName) time.Duration {
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
