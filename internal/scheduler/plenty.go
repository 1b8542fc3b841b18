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

// judgeAgain is how long after a judgement whether there is plenty of room there is another one, which takes a look at every node: after
// there was, and after there was not.
const judgeAgain, judgeAgainInVain = 20 * time.Millisecond, 250 * time.Millisecond

// judgeRest is for how many times as long as a judgement took there is no other one: the books are locked meanwhile.
const judgeRest = 10

// passes reports whether a workload that has just come goes at once, because there is room for all that waits. PreEnqueue calls it,
// under the queue's lock.
func (h *Hub) passes(pod *corev1.Pod, w *admission.Waiter) bool {
	if !h.hasPlenty(w.Queue) {
		return false
	}
	if !w.Key.Gang && !h.board.Knows(pod.UID) {
		// The scheduler's queue has heard of it first, and what the books do not know of is not counted.
		h.chargeAgain(pod)
	}
	return h.isServable(w.Key) && h.hasPlenty(w.Queue) && h.waits.Pass(*w, h.clock.Now())
}

// followPlenty calls those back that went without waiting for their turn, where there is not plenty of room for them any more. The main loop
// calls it.
func (h *Hub) followPlenty(now time.Time) {
	if h.judgePlenty(now) {
		h.waits.Recall(h.hasPlenty)
	}
}

// nextJudgement is when the next judgement may be made, if some go freely and wait for it. The main loop calls it.
func (h *Hub) nextJudgement() (time.Time, bool) {
	return h.judgeNext, h.waits.AnyFree() && h.profiles.knowFilters() && !h.board.Judged()
}

// judgePlenty finds out whether there is room for all that waits, limits left out, if that is not known. It reports whether hasPlenty says
// how things are: it says no, too, where that has not been found out yet. The main loop calls it.
func (h *Hub) judgePlenty(now time.Time) bool {
	if !h.profiles.knowFilters() || h.board.Judged() {
		return true
	}
	if now.Before(h.judgeNext) {
		return false
	}
	pause, began := judgeAgainInVain, h.clock.Now()
	if h.board.Judge(func(name corev1.ResourceName) bool { return filters.Delegates(h.handle, name) }) {
		pause = judgeAgain
	}
	ended := h.clock.Now()
	h.judgeNext = ended.Add(max(pause, judgeRest*ended.Sub(began)))
	return true
}

// hasPlenty reports whether there is room for all that waits in a queue, whichever workload goes first.
func (b *books) hasPlenty(queue string) bool {
	return b.profiles.knowFilters() && b.board.Plenty(queue)
}

// isServable reports whether the nodes and limits could serve a workload, if nothing else ran, as far as the books know of it.
func (b *books) isServable(key workload.Key) bool {
	if !key.Gang {
		pod, ok := b.podOf(key)
		return ok && b.board.Servable(pod.UID)
	}
	members := b.lister.Members(nameOf(key))
	return len(members.Pending) > 0 && !slices.ContainsFunc(members.Pending, func(pod *corev1.Pod) bool { return !b.board.Servable(pod.UID) })
}

// knowFilters reports whether it is known of all that may turn a pod away what it looks at: each profile has no plugins but those of the
// library that do, and no extender filters.
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

// answer is one that may not have been given yet.
type answer = int32

const (
	yes answer = iota + 1
	no
)

// Confine reports whether arguments of the plugins of some profile keep pods off nodes though the pods do not say so, or they or an extender
// let them onto nodes that are not counted for them.
func Confine(profiles []config.KubeSchedulerProfile, extenders []config.Extender) bool {
	ignores := func(r config.ExtenderManagedResource) bool { return r.IgnoredByScheduler }
	if slices.ContainsFunc(extenders, func(e config.Extender) bool { return slices.ContainsFunc(e.ManagedResources, ignores) }) {
		return true
	}
	return slices.ContainsFunc(profiles, func(p config.KubeSchedulerProfile) bool { return slices.ContainsFunc(p.PluginConfig, confines) })
}

// confines reports whether the arguments of a plugin do what Confine is about.
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

// areKnown reports whether all plugins of a profile that may turn a pod away are known: of what they look at, all is room, or the pod
// says it. Those that the books go by are among them.
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
