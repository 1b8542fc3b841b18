package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/filters"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/runs"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/victims"
)

// sources answers the questions of the snapshot's cache from the layers and the components. It is
// no component: its fields are set only after the cache exists, because it uses components that use
// the cache. It is safe for concurrent use.
type sources struct {
	index            *cluster.Index
	placements       *cluster.Placements
	ledger           *cluster.Ledger
	records          *engine.Pods
	quotas           *queue.Ledger
	runs             *runs.Reader
	tolerations      *snapshot.ClassTolerations
	refused          *eviction.Refusals
	handle           framework.Framework
	clock            clock.PassiveClock
	stale            *staleGangs
	victimPriorities *victims.Priorities
}

// all returns the sources in the form that the cache uses.
func (s *sources) all() snapshot.Sources {
	return snapshot.Sources{Membership: s, Groups: s, Disruptions: s, Tolerations: s, Queues: s, Profiles: s, Delegation: s}
}

// GroupOf is part of snapshot.Membership.
func (s *sources) GroupOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	return s.index.UnitOf(pod)
}

// PodGroupOf is part of snapshot.Membership.
func (s *sources) PodGroupOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	return s.index.PodGroupOf(pod)
}

// NeverGroup is part of snapshot.Groups.
func (s *sources) NeverGroup(key types.NamespacedName) (*gang.Group, bool) {
	return s.index.NeverGroup(key)
}

// WorkloadOf is part of snapshot.Groups.
func (s *sources) WorkloadOf(key types.NamespacedName) (*gang.Group, bool) {
	return s.index.WorkloadOf(key)
}

// Group is part of snapshot.Groups.
func (s *sources) Group(key types.NamespacedName) (*gang.Group, bool) {
	return s.index.Groups.Group(key)
}

// Placed is part of snapshot.Groups.
func (s *sources) Placed(key types.NamespacedName) []*corev1.Pod {
	// Read the assumed pods first. A pod that is bound between the two reads is then among the
	// assigned members.
	assumed := s.records.Assumed()
	members := s.index.Lister.Members(key)
	out := members.Assigned
	for _, pod := range members.Pending {
		if assumed.Has(string(pod.UID)) {
			out = append(out, pod)
		}
	}
	return out
}

// RunOf is part of snapshot.Groups.
func (s *sources) RunOf(g *gang.Group) engine.Run { return s.runs.Look(g, s.clock.Now()) }

// RoleOf is part of snapshot.Groups.
func (s *sources) RoleOf(g *gang.Group, pod *corev1.Pod) *core.Role {
	return s.index.RoleOf(g, pod)
}

// NeverPreempts is part of snapshot.Groups.
func (s *sources) NeverPreempts(g *gang.Group, pods ...*corev1.Pod) bool {
	return s.tolerations.NeverPreempts(g, pods...)
}

// Degraded is part of snapshot.Groups.
func (s *sources) Degraded(g *gang.Group) snapshot.Degraded { return s.stale.degradedBy(g) }

// VictimPriority is part of snapshot.Groups.
func (s *sources) VictimPriority(g *gang.Group, scheduling int32, placed string) int32 {
	priority, _ := s.victimPriorities.In(g, scheduling, placed)
	return priority
}

// DepartureOf is part of snapshot.Disruptions.
func (s *sources) DepartureOf(pod *corev1.Pod) snapshot.Departure {
	return s.placements.DepartureOf(pod)
}

// RefusedUntil is part of snapshot.Disruptions.
func (s *sources) RefusedUntil(pod *corev1.Pod) time.Time { return s.refused.Until(pod.UID) }

// OfPod is part of snapshot.Tolerations.
func (s *sources) OfPod(pod *corev1.Pod) *core.Toleration { return s.tolerations.OfPod(pod) }

// OfGroup is part of snapshot.Tolerations.
func (s *sources) OfGroup(g *gang.Group, priority int32, start time.Time) *core.Toleration {
	return s.tolerations.OfGroup(g, priority, start)
}

// OfClass is part of snapshot.Tolerations.
func (s *sources) OfClass(name string, start time.Time) *core.Toleration {
	return s.tolerations.OfClass(name, start)
}

// OfNever is part of snapshot.Tolerations.
func (s *sources) OfNever(name string, start time.Time) *core.Toleration {
	return s.tolerations.OfNever(name, start)
}

// QueueOf is part of snapshot.Queues.
func (s *sources) QueueOf(pod *corev1.Pod) string { return s.ledger.QueueOf(pod) }

// QueueOfGroup is part of snapshot.Queues.
func (s *sources) QueueOfGroup(g *gang.Group) string { return s.ledger.QueueOfGroup(g) }

// MinRuntimeOf is part of snapshot.Profiles.
func (s *sources) MinRuntimeOf(pod *corev1.Pod) *core.MinRuntime {
	return s.index.Profiles.MinRuntimeOf(pod.Spec.SchedulerName)
}

// MinRuntimeOfGroup is part of snapshot.Profiles.
func (s *sources) MinRuntimeOfGroup(key types.NamespacedName) *core.MinRuntime {
	if same, ok := s.index.Profiles.MinRuntime(); ok {
		return same
	}
	members := s.index.Lister.Members(key)
	return s.index.MinRuntimeOfMembers(&members)
}

// Delegates is part of snapshot.Delegation.
func (s *sources) Delegates(name corev1.ResourceName) bool {
	return s.handle != nil && filters.Delegates(s.handle, name)
}

// Standing is part of snapshot.Queues.
func (s *sources) Standing(resources []string) *queue.Snapshot {
	return s.quotas.Snapshot(resources)
}
