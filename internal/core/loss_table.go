package core

import (
	"math"
	"math/bits"
	"slices"
	"sync"
)

// lossTable has the parts of lost work that do not depend on the time of the decision: the rate and
// the start of each unit's loss. It also gives a lower bound of the loss on each node.
type lossTable struct {
	lossSettings
	units []unitLoss
	nodes []nodeLoss
	// gangs maps the UID of a gang to its number in unitLoss. Numbers start at 1.
	gangs map[string]int32
}

// unitLoss describes the lost work of a unit. The lost work grows at a constant rate, up to a
// maximum.
type unitLoss struct {
	// rate is the number of milli-devices. It is 0 if the loss does not grow at a constant rate,
	// for example because the unit saves its work at an interval.
	rate int64
	// begin is the time of the last checkpoint, or the start of the work, in nanoseconds since
	// 1970. The entry does not apply to decisions before begin.
	begin int64
	// most is the maximum time since begin that counts. restart is added to it. Both are in
	// nanoseconds.
	most, restart int64
	// pods is the number of pods of the unit.
	pods int32
	// gang is the number of the gang that falls below minCount if the unit is evicted; 0 for none.
	gang int32
}

// nodeLoss has data for a lower bound of the lost work on one node.
type nodeLoss struct {
	// rate is the lowest rate of the units, and restart is the shortest time of a restart, in
	// nanoseconds. Units with rate 0 or with a maximum are only counted, in others. The other
	// fields do not include these units.
	rate, restart int64
	others        int
	// begins has the values of unitLoss.begin, the latest first.
	begins []int64
	// grouped is true if a unit of the node is a member of a gang.
	grouped bool
}

// lossTables keeps a lossTable between decisions and updates it.
type lossTables struct {
	mu    sync.Mutex
	table *lossTable
	// changed has the indexes of nodes that have changed since the last update of the table.
	changed map[int32]bool
}

func newLossTables() *lossTables { return &lossTables{changed: make(map[int32]bool)} }

// touch records that the units of a node have changed. It must not run during a decision.
func (ts *lossTables) touch(n int32) {
	if ts.table != nil {
		ts.changed[n] = true
	}
}

// forget removes the entry of a unit that may have changed. It must not run during a decision.
func (ts *lossTables) forget(u int32) {
	if ts.table != nil && int(u) < len(ts.table.units) {
		ts.table.units[u] = unitLoss{}
	}
}

// of updates the table and returns it, for a snapshot with the given columns. If the settings
// differ from the last call, it builds a new table. The result is nil if ts is nil.
func (ts *lossTables) of(s *Snapshot, c *columns, settings lossSettings) *lossTable {
	if ts == nil {
		return nil
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.table == nil || !ts.table.equal(settings) {
		// Clone the devices, because the caller may reuse the slice. settings.silent need not be
		// cloned, because it belongs to a tree of queues and never changes.
		settings.devices = slices.Clone(settings.devices)
		ts.table = &lossTable{lossSettings: settings, gangs: make(map[string]int32)}
		for n := range c.nodes {
			ts.changed[int32(n)] = true
		}
	}
	if len(ts.changed) > 0 {
		ts.table.update(s, c, ts.changed)
		clear(ts.changed)
	}
	return ts.table
}

// update computes the entries of the given nodes and of their units.
func (t *lossTable) update(s *Snapshot, c *columns, nodes map[int32]bool) {
	t.units = append(t.units, make([]unitLoss, max(len(s.Units)-len(t.units), 0))...)
	t.nodes = append(t.nodes, make([]nodeLoss, max(len(c.nodes)-len(t.nodes), 0))...)
	// Compute losses for the latest possible time, so that no checkpoint is in the future.
	l := newLosses(s, math.MaxInt64, t.lossSettings)
	var begins []int64
	for n := range nodes {
		node := nodeLoss{rate: math.MaxInt64, restart: math.MaxInt64}
		begins = begins[:0]
		for _, u := range c.nodes[n].units {
			unit := l.growth(u)
			unit.gang = t.gangOf(s, u)
			t.units[u] = unit
			node.grouped = node.grouped || elastic(&s.Units[u])
			if unit.rate == 0 || unit.most != math.MaxInt64 {
				node.others++
				continue
			}
			node.rate, node.restart = min(node.rate, unit.rate), min(node.restart, unit.restart)
			begins = append(begins, unit.begin)
		}
		slices.Sort(begins)
		slices.Reverse(begins)
		node.begins = slices.Grow(t.nodes[n].begins[:0], len(begins))
		node.begins = append(node.begins, begins...)
		t.nodes[n] = node
	}
}

// gangOf returns the number of the gang that falls below minCount if only this unit is evicted; 0
// if there is no such gang.
func (t *lossTable) gangOf(s *Snapshot, u int32) int32 {
	unit := &s.Units[u]
	whole := s.gangs.of(unit)
	if whole == nil || unit.Surplus || whole.counted.Spare(whole.minCount, unit.Role) > 0 {
		return 0
	}
	number, known := t.gangs[unit.PodGroup]
	if !known {
		number = int32(len(t.gangs)) + 1
		t.gangs[unit.PodGroup] = number
	}
	return number
}

// growth returns the unitLoss of a unit, without its gang. The field now of l must be the latest
// possible time.
func (l *losses) growth(u int32) unitLoss {
	unit := &l.s.Units[u]
	if unit.Start == 0 {
		return unitLoss{}
	}
	rate, restart := int64(0), l.restartOf(&unit.Pods[0].Progress)
	for i := range unit.Pods {
		pod := &unit.Pods[i]
		if pod.Progress.Interval > 0 || l.restartOf(&pod.Progress) != restart {
			return unitLoss{}
		}
		each := l.rate(pod)
		if each > maxLoss || rate > maxLoss {
			return unitLoss{}
		}
		rate += each
	}
	from, saved := max(unit.Start, unit.Since), l.savedAt(unit)
	return unitLoss{
		rate: rate, begin: max(from, saved), most: l.mostOf(unit, from, saved), restart: restart, pods: int32(len(unit.Pods)),
	}
}

// at returns the lost work of a unit at the time now. It returns false if the table has no rate for
// the unit, or if now is before begin.
func (t *lossTable) at(u int32, now int64) (int64, bool) {
	if t == nil {
		return 0, false
	}
	e := &t.units[u]
	if e.rate == 0 || e.begin > now {
		return 0, false
	}
	return t.lossOf(e.rate, min(now-e.begin, e.most), e.restart, e.pods), true
}

// atLeast returns a lower bound of the total lost work of any count units on node n, at the time
// now.
func (t *lossTable) atLeast(n int32, count int, now int64) int64 {
	node := &t.nodes[n]
	lost := int64(0)
	for _, begin := range node.begins[:max(min(count-node.others, len(node.begins)), 0)] {
		lost = min(lost+t.lossOf(node.rate, max(now-begin, 0), node.restart, 1), maxLoss)
	}
	return lost
}

// capped returns rate multiplied by seconds, at most maxLoss.
func capped(rate, seconds int64) int64 {
	hi, lo := bits.Mul64(uint64(rate), uint64(seconds))
	if hi > 0 || lo > uint64(maxLoss) {
		return maxLoss
	}
	return int64(lo)
}
