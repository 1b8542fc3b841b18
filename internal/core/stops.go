package core

import "time"

// Stops counts the preemptions that stopped a workload since it last made progress.
type Stops struct {
	// Count is the number of stops.
	Count int32
	// Last is the time of the last stop, in nanoseconds since 1970; 0 if unknown.
	Last int64
}

// ProgressTime is a run time in nanoseconds. A workload that has run for this time has made
// progress, and its earlier stops no longer count.
const ProgressTime = int64(time.Hour)

// maxStops is the maximum number of stops that count. Stops beyond this number do not protect a
// workload any further.
const maxStops = 3

// stopsOf returns the number of preemptions that stopped a unit's workload since it last made
// progress. A workload makes progress if it runs for ProgressTime, or if it has a checkpoint after
// its last stop. A gang that lacks members does not run.
func (l *losses) stopsOf(u int32) int32 {
	unit := &l.s.Units[u]
	switch {
	case unit.Stops.Count <= 0:
		return 0
	case unit.Since > unit.Stops.Last && unit.Lacks == 0 && l.now-unit.Since >= ProgressTime:
		return 0
	case l.savedAt(unit) > unit.Stops.Last:
		return 0
	default:
		return unit.Stops.Count
	}
}

// countingStops returns a copy of the snapshot whose searches compare stops, for a decision at the
// time now.
func (s *Snapshot) countingStops(c *columns, now int64) *Snapshot {
	counting := *s
	l := s.losses
	if l == nil {
		l = newLosses(s, now, lossSettings{})
	}
	counting.stopped = make(map[int32]int)
	for u := range c.having[traitStopped] {
		if stops := l.stopsOf(u); stops > 0 {
			counting.stopped[u] = int(min(stops, maxStops))
		}
	}
	return &counting
}

// countsStops reports whether searches on the snapshot compare stops, and any unit has stops.
func (s *Snapshot) countsStops() bool { return len(s.stopped) > 0 }

// repeated returns the part of Score.Repeated that a unit adds.
func (s *Snapshot) repeated(u int32) int {
	if !s.countsStops() {
		return 0
	}
	return s.stopped[u] * len(s.Units[u].Pods)
}

// stopsBelow returns the numbers of pods by stops, for the units on a node with a priority lower
// than below.
func (v *problem) stopsBelow(col *nodeColumn, below int64) (counts stopCounts) {
	if v.s.countsStops() {
		for _, u := range col.units[:col.count(below)] {
			counts.add(v.s.stopped[u], len(v.s.Units[u].Pods))
		}
	}
	return counts
}

// stopCounts has the number of pods for each number of stops. The index is the stops of the pod's
// workload.
type stopCounts [maxStops + 1]int

// add adds the pods of a unit.
func (c *stopCounts) add(stops, pods int) { c[min(stops, maxStops)] += pods }

// least returns a lower bound of the sum of stops. The bound is for every set of counted pods with
// at least the given size.
func (c *stopCounts) least(pods int) (sum int) {
	for stops, count := range c {
		taken := min(count, pods)
		sum += stops * taken
		pods -= taken
	}
	return sum
}
