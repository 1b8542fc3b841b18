package scheduler

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// judgeAgain is how long after there was no plenty of room that is judged again: it takes a look at every node.
const judgeAgain = 250 * time.Millisecond

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

// judgePlenty finds out whether there is room for all that waits, if that is not known. The main loop calls it.
func (h *Hub) judgePlenty(now time.Time) {
	if now.Before(h.judgeNext) || !h.profiles.knowFilters() {
		return
	}
	if !h.board.Judge() {
		h.judgeNext = now.Add(judgeAgain)
	}
}

// hasPlenty reports whether there is room for all that waits in a queue, whoever goes first.
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
	return !slices.ContainsFunc(members.Pending, func(pod *corev1.Pod) bool { return !b.board.Servable(pod.UID) })
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

// areKnown reports whether all plugins of a profile that may turn a pod away are known: of what they look at, all is room, or the pod
// says it.
func areKnown(plugins *config.Plugins) bool {
	known := sets.New(
		Name, names.NodeName, names.NodeUnschedulable, names.NodeAffinity, names.NodePorts, names.TaintToleration, names.NodeResourcesFit,
		names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeBinding, names.VolumeZone, names.PodTopologySpread,
		names.InterPodAffinity, names.DynamicResources, names.NodeDeclaredFeatures,
	)
	return !slices.ContainsFunc(slices.Concat(plugins.PreFilter.Enabled, plugins.Filter.Enabled), func(p config.Plugin) bool {
		return !known.Has(p.Name)
	})
}
