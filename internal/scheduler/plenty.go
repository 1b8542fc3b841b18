package scheduler

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/filters"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// judgeAgain and judgeAgainInVain are the shortest pauses between two checks whether there is room
// for all queued work. Each check looks at every node. judgeAgainInVain applies after a check that
// found too little room.
const judgeAgain, judgeAgainInVain = 20 * time.Millisecond, 250 * time.Millisecond

// judgeRest is the pause after a check, as a multiple of its duration, because the quota ledger is
// locked during a check.
const judgeRest = 10

// isAdmittedFreely reports whether a new workload is admitted at once, because there is room for
// all queued work. PreEnqueue calls it, under the lock of the scheduler's queue.
func (h *Scheduler) isAdmittedFreely(pod *corev1.Pod, w *admission.Waiter) bool {
	if !h.hasPlenty(w.Queue) {
		return false
	}
	if !w.Key.Gang && !h.quotas.Knows(pod.UID) {
		// The scheduler's queue may receive the pod before the ledger does, so add it to the ledger
		// now.
		h.recharge(pod)
	}
	return h.isServable(w.Key) && h.hasPlenty(w.Queue) && h.turns.Pass(*w, h.clock.Now())
}

// followPlenty recalls workloads that were admitted without a turn, if there is no longer enough
// room for all of them. The main loop calls it.
func (h *Scheduler) followPlenty(now time.Time) {
	if h.judgePlenty(now) {
		h.turns.Recall(h.hasPlenty)
	}
}

// nextJudgement returns the earliest time of the next check for room, and whether admitted
// workloads wait for it. The main loop calls it.
func (h *Scheduler) nextJudgement() (time.Time, bool) {
	return h.judgeNext, h.turns.AnyFree() && h.profiles.knowFilters() && !h.quotas.Judged()
}

// judgePlenty checks whether there is room for all queued work, limits aside, unless the last
// result is still valid. It reports whether hasPlenty is up to date. Before the first check
// hasPlenty is false. The main loop calls it.
func (h *Scheduler) judgePlenty(now time.Time) bool {
	if !h.profiles.knowFilters() || h.quotas.Judged() {
		return true
	}
	if now.Before(h.judgeNext) {
		return false
	}
	pause, began := judgeAgainInVain, h.clock.Now()
	if h.quotas.Judge(func(name corev1.ResourceName) bool { return filters.Delegates(h.handle, name) }) {
		pause = judgeAgain
	}
	ended := h.clock.Now()
	h.judgeNext = ended.Add(max(pause, judgeRest*ended.Sub(began)))
	return true
}

// hasPlenty reports whether there is room for all work that waits in a queue, in any order.
func (b *ledger) hasPlenty(queue string) bool {
	return b.profiles.knowFilters() && b.quotas.Plenty(queue)
}

// isServable reports whether the nodes and limits could serve a workload if nothing else ran, as
// far as the quota ledger knows.
func (b *ledger) isServable(key workload.Key) bool {
	if !key.Gang {
		pod, ok := b.podOf(key)
		return ok && b.quotas.Servable(pod.UID)
	}
	members := b.lister.Members(nameOf(key))
	return len(members.Pending) > 0 && !slices.ContainsFunc(members.Pending, func(pod *corev1.Pod) bool { return !b.quotas.Servable(pod.UID) })
}

// knowFilters reports whether the scheduler knows the inputs of all plugins that may reject a pod.
// That is so if each profile runs only in-tree plugins of that kind, and no extender filters.
func (ps *profiles) knowFilters() bool {
	switch ps.filtersKnown.Load() {
	case yes:
		return true
	case no:
		return false
	}
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	known := yes
	if ps.confine {
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

// answer is a boolean that may be unknown.
type answer = int32

const (
	yes answer = iota + 1
	no
)

// Confine reports whether plugin arguments in any profile restrict the nodes of pods that do not
// ask for it. It also reports true if arguments or an extender let pods use nodes with less free
// room than the quota ledger assumes.
func Confine(profiles []config.KubeSchedulerProfile, extenders []config.Extender) bool {
	ignores := func(r config.ExtenderManagedResource) bool { return r.IgnoredByScheduler }
	if slices.ContainsFunc(extenders, func(e config.Extender) bool { return slices.ContainsFunc(e.ManagedResources, ignores) }) {
		return true
	}
	return slices.ContainsFunc(profiles, func(p config.KubeSchedulerProfile) bool { return slices.ContainsFunc(p.PluginConfig, confines) })
}

// confines reports whether the arguments of a plugin have an effect that Confine describes.
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

// areKnown reports whether all plugins of a profile that may reject a pod are known. Known plugins
// look at room or at fields of the pod. The plugins that the quota ledger relies on must be among
// them.
func areKnown(plugins *config.Plugins) bool {
	runs := sets.New[string]()
	for _, p := range plugins.Filter.Enabled {
		runs.Insert(p.Name)
	}
	if !runs.HasAll(names.NodeUnschedulable, names.NodeAffinity, names.TaintToleration, names.NodeResourcesFit) {
		return false
	}
	known := sets.New(
		Name, names.NodeName, names.NodeUnschedulable, names.NodeAffinity, names.NodePorts, names.TaintToleration, names.NodeResourcesFit,
		names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeBinding, names.VolumeZone, names.PodTopologySpread,
		names.InterPodAffinity, names.DynamicResources, names.NodeDeclaredFeatures,
	)
	return !slices.ContainsFunc(slices.Concat(plugins.PreFilter.Enabled, plugins.Filter.Enabled), func(p config.Plugin) bool {
		return !known.Has(p.Name)
	})
}
