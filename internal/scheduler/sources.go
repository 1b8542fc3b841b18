package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/filters"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// sources lets the cache of the snapshot read the state of a Scheduler.
type sources struct{ sched *Scheduler }

func (h *Scheduler) sources() snapshot.Sources {
	s := sources{h}
	return snapshot.Sources{Membership: s, Groups: s, Disruptions: s, Tolerations: s, Queues: s, Profiles: s, Delegation: s}
}

// GroupOf is part of snapshot.Membership.
func (s sources) GroupOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	return s.sched.index.unitOf(pod)
}

// WorkloadOf is part of snapshot.Groups.
func (s sources) WorkloadOf(key types.NamespacedName) (*gang.Group, bool) {
	return s.sched.index.workloadOf(key)
}

// Group is part of snapshot.Groups.
func (s sources) Group(key types.NamespacedName) (*gang.Group, bool) {
	return s.sched.index.groups.Group(key)
}

// Placed is part of snapshot.Groups.
func (s sources) Placed(key types.NamespacedName) []*corev1.Pod {
	// Read the assumed pods first. A pod that is bound between the two reads is then among the
	// assigned members.
	assumed := s.sched.records.Assumed()
	members := s.sched.index.lister.Members(key)
	out := members.Assigned
	for _, pod := range members.Pending {
		if assumed.Has(string(pod.UID)) {
			out = append(out, pod)
		}
	}
	return out
}

// RunOf is part of snapshot.Groups.
func (s sources) RunOf(g *gang.Group) engine.Run { return s.sched.runs.Look(g, s.sched.clock.Now()) }

// RoleOf is part of snapshot.Groups.
func (s sources) RoleOf(g *gang.Group, pod *corev1.Pod) *core.Role {
	return s.sched.index.roleOf(g, pod)
}

// NeverPreempts is part of snapshot.Groups.
func (s sources) NeverPreempts(g *gang.Group, pods ...*corev1.Pod) bool {
	return s.sched.tolerations.NeverPreempts(g, pods...)
}

// Degraded is part of snapshot.Groups.
func (s sources) Degraded(g *gang.Group) snapshot.Degraded { return s.sched.stale.degradedBy(g) }

// VictimPriority is part of snapshot.Groups.
func (s sources) VictimPriority(g *gang.Group, scheduling int32, placed string) int32 {
	priority, _ := s.sched.victimPriorities.in(g, scheduling, placed)
	return priority
}

// DepartureOf is part of snapshot.Disruptions.
func (s sources) DepartureOf(pod *corev1.Pod) snapshot.Departure {
	return s.sched.placements.departureOf(pod)
}

// RefusedUntil is part of snapshot.Disruptions.
func (s sources) RefusedUntil(pod *corev1.Pod) time.Time { return s.sched.refused.Until(pod.UID) }

// OfPod is part of snapshot.Tolerations.
func (s sources) OfPod(pod *corev1.Pod) *core.Toleration { return s.sched.tolerations.OfPod(pod) }

// OfGroup is part of snapshot.Tolerations.
func (s sources) OfGroup(g *gang.Group, priority int32, start time.Time) *core.Toleration {
	return s.sched.tolerations.OfGroup(g, priority, start)
}

// OfClass is part of snapshot.Tolerations.
func (s sources) OfClass(name string, start time.Time) *core.Toleration {
	return s.sched.tolerations.OfClass(name, start)
}

// QueueOf is part of snapshot.Queues.
func (s sources) QueueOf(pod *corev1.Pod) string { return s.sched.ledger.queueOf(pod) }

// QueueOfGroup is part of snapshot.Queues.
func (s sources) QueueOfGroup(g *gang.Group) string { return s.sched.ledger.queueOfGroup(g) }

// MinRuntimeOf is part of snapshot.Profiles.
func (s sources) MinRuntimeOf(pod *corev1.Pod) *core.MinRuntime {
	return s.sched.index.profiles.minRuntimeOf(pod.Spec.SchedulerName)
}

// MinRuntimeOfGroup is part of snapshot.Profiles.
func (s sources) MinRuntimeOfGroup(key types.NamespacedName) *core.MinRuntime {
	if same, ok := s.sched.index.profiles.minRuntime(); ok {
		return same
	}
	members := s.sched.index.lister.Members(key)
	return s.sched.index.minRuntimeOfMembers(&members)
}

// Delegates is part of snapshot.Delegation.
func (s sources) Delegates(name corev1.ResourceName) bool {
	return s.sched.handle != nil && filters.Delegates(s.sched.handle, name)
}

// Standing is part of snapshot.Queues.
func (s sources) Standing(resources []string) *queue.Snapshot {
	return s.sched.quotas.Snapshot(resources)
}
