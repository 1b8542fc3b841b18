package gang

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Merge returns a Source with the groups of two Sources, one for each API. If both APIs have a
// group of the same name, the result has one ambiguous group.
func Merge(first, second Source) Source { return merged{first, second} }

type merged [2]Source

// Group is part of Source.
func (m merged) Group(key types.NamespacedName) (*Group, bool) {
	g, ok := m[0].Group(key)
	if !ok {
		return m[1].Group(key)
	}
	if other, too := m[1].Group(key); too {
		return both(g, other), true
	}
	return g, true
}

// both combines two groups with the same name into one ambiguous group. If either group is
// protected from preemption, the result is protected too.
func both(first, second *Group) *Group {
	out := *first
	out.Ambiguous = true
	out.Never = first.Never || second.Never
	out.Whole, out.Bounded = first.Whole || second.Whole, first.Bounded || second.Bounded
	out.ClassOfNamespace = first.ClassOfNamespace && second.ClassOfNamespace
	out.MinCount = max(first.MinCount, second.MinCount)
	out.PodPriorities = first.PodPriorities && second.PodPriorities
	if p := second.Priority; p != nil && (first.Priority == nil || *p > *first.Priority) {
		out.Priority, out.PriorityClassName, out.PreemptionPolicy = p, second.PriorityClassName, second.PreemptionPolicy
	}
	if second.StartTime.After(first.StartTime) {
		out.StartTime = second.StartTime
	}
	out.TopologyKey = cmp.Or(first.TopologyKey, second.TopologyKey)
	if out.PreemptionPriorityClass == "" {
		out.PreemptionPriorityClass, out.BoundedRaise = second.PreemptionPriorityClass, second.BoundedRaise
	}
	out.DegradedSince, out.Scheduled, out.UnscheduledSince = time.Time{}, false, time.Time{}
	if out.Queue == "" && len(out.Labels) == 0 {
		out.Queue, out.Labels = second.Queue, second.Labels
	}
	out.Disrupted = slices.Concat(first.Disrupted, second.Disrupted)
	return &out
}
