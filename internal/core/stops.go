package core

import "time"

// Stops tells how often preemptions stopped a workload since it last made progress.
type Stops struct {
	// Count is the number of stops.
	Count int32
	// Last is the time of the last stop, in nanoseconds since 1970; 0 if unknown.
	Last int64
}

// ProgressTime is the run time, in nanoseconds, of a workload that has made progress. Its stops
// before that run no longer count.
const ProgressTime = int64(time.Hour)

// maxStops is the most stops of a workload that count. It bounds the protection of work that is
// stopped again and again.
const maxStops = 3

// stopsOf returns how often preemptions stopped a unit's workload since it last made progress. The
// workload has made progress once it has run for ProgressTime, or has a checkpoint after the last
// stop. A gang that lacks members does not run.
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

// countingStops returns a copy of the snapshot whose searches count stops, for a decision at the
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

// countsStops reports whether any stops count in the searches on the snapshot.
func (s *Snapshot) countsStops() bool { return len(s.stopped) > 0 }

// repeated returns a unit's part of Score.Repeated.
func (s *Snapshot) repeated(u int32) int {
	if !s.countsStops() {
		return 0
	}
	return s.stopped[u] * len(s.Units[u].Pods)
}

// stopsBelow counts the pods of the units on a node with a priority below the given one.
func (v *problem) stopsBelow(col *nodeColumn, below int64) (counts stopCounts) {
	if v.s.countsStops() {
		for _, u := range col.units[:col.count(below)] {
			counts.add(v.s.stopped[u], len(v.s.Units[u].Pods))
		}
	}
	return counts
}

// stopCounts has the number of pods by the stops of their workloads.
type stopCounts [maxStops + 1]int

// add counts the pods of a unit.
func (c *stopCounts) add(stops, pods int) { c[min(stops, maxStops)] += pods }

// least returns a lower bound of the stops of any set of the counted pods, of at least the given
// size.
func (c *stopCounts) least(pods int) (sum int) {
	for stops, count := range c {
		taken := min(count, pods)
		sum += stops * taken
		pods -= taken
	}
	return sum
}
