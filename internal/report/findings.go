package report

import (
	"cmp"
	"slices"

	"github.com/reprieve-dev/reprieve/internal/decisionlog"
)

// Turns is a pair of workloads that preempted each other.
type Turns struct {
	// A is the index of the workload that preempted first, and B is the index of the other
	// workload.
	A int `json:"a"`
	B int `json:"b"`
	// Turns counts the changes of direction: the times that one workload preempted the other after
	// the other had preempted it.
	Turns     int   `json:"turns"`
	Decisions []int `json:"decisions"`
	Loss
}

// turns finds the pairs of workloads that preempted each other. The pair with the most turns is
// first.
func (b *builder) turns() []Turns {
	type pair struct{ low, high int }
	of, lastTaker := make(map[pair]*Turns), make(map[pair]int)
	var order []pair
	for _, s := range b.stops {
		if s.victim == s.preemptor {
			continue
		}
		key := pair{min(s.preemptor, s.victim), max(s.preemptor, s.victim)}
		t := of[key]
		if t == nil {
			t = &Turns{A: s.preemptor, B: s.victim}
			of[key] = t
			order = append(order, key)
		} else if lastTaker[key] != s.preemptor {
			t.Turns++
		}
		lastTaker[key] = s.preemptor
		t.Decisions = append(t.Decisions, s.decision)
		t.add(s.stop)
	}
	out := []Turns{}
	for _, key := range order {
		if of[key].Turns > 0 {
			out = append(out, *of[key])
		}
	}
	slices.SortStableFunc(out, func(x, y Turns) int { return cmp.Or(y.Turns-x.Turns, y.Stops-x.Stops) })
	return out
}

// Again is a workload that was evicted more than once.
type Again struct {
	Workload int `json:"w"`
	// Shortest is the shortest time between two consecutive evictions, in milliseconds.
	Shortest  int64 `json:"shortest"`
	Decisions []int `json:"decisions"`
	Loss
}

// again finds the workloads that were evicted more than once. The workload with the most evictions
// is first.
func (b *builder) again() []Again {
	of := make([]*Again, len(b.report.Workloads))
	for _, s := range b.stops {
		a := of[s.victim]
		if a == nil {
			a = &Again{Workload: s.victim}
			of[s.victim] = a
		}
		if n := len(a.Decisions); n > 0 {
			gap := b.report.Decisions[s.decision].At - b.report.Decisions[a.Decisions[n-1]].At
			if n == 1 || gap < a.Shortest {
				a.Shortest = gap
			}
		}
		a.Decisions = append(a.Decisions, s.decision)
		a.add(s.stop)
	}
	out := []Again{}
	for _, a := range of {
		if a != nil && a.Stops > 1 {
			out = append(out, *a)
		}
	}
	slices.SortStableFunc(out, func(x, y Again) int { return cmp.Or(y.Stops-x.Stops, cmp.Compare(y.GPUHours, x.GPUHours)) })
	return out
}

// These are the reasons why freed room was not used.
const (
	// UnusedFailed means that the decision failed after some pods had been evicted.
	UnusedFailed = "failed"
	// UnusedGivenUp means that the decision was given up after some pods had been evicted.
	UnusedGivenUp = "givenUp"
	// UnusedElsewhere means that a later decision preempted again for the same pod.
	UnusedElsewhere = "again"
)

// Unused is room that a decision freed and its preemptor did not use.
type Unused struct {
	Decision int    `json:"decision"`
	Why      string `json:"why"`
	// Pods is the number of pods that were evicted for the room.
	Pods int `json:"pods"`
	// Next is the index of the decision that preempted again for the same pod, or -1.
	Next int `json:"next"`
}

// unused finds the room that was freed but not used. If two decisions preempt for one pod, the pod
// cannot have used the room of the first decision.
func (b *builder) unused() []Unused {
	out := []Unused{}
	placed := make(map[string]int)
	replaced := make(map[int]int)
	for i := range b.entries {
		e := &b.entries[i]
		switch {
		case e.Begun > 0 && e.State == decisionlog.Failed:
			out = append(out, Unused{Decision: i, Why: UnusedFailed, Pods: e.Begun, Next: -1})
		case e.Begun > 0 && e.State == decisionlog.GivenUp:
			out = append(out, Unused{Decision: i, Why: UnusedGivenUp, Pods: e.Begun, Next: -1})
		case e.Happened():
			for _, p := range e.Placements {
				if before, ok := placed[p.UID]; ok && p.UID != "" {
					if _, told := replaced[before]; !told {
						replaced[before] = i
					}
				}
				placed[p.UID] = i
			}
		}
	}
	for before, next := range replaced {
		pods := 0
		for j := range b.entries[before].Stops {
			pods += len(b.entries[before].Stops[j].Pods)
		}
		out = append(out, Unused{Decision: before, Why: UnusedElsewhere, Pods: pods, Next: next})
	}
	slices.SortFunc(out, func(x, y Unused) int { return cmp.Compare(x.Decision, y.Decision) })
	return out
}
