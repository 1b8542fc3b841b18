package core

import (
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// lossTable has the parts of lost work that are the same at any time: the rate and the begin of
// each unit's loss. Lower bounds for each node follow from them.
type lossTable struct {
	lossSettings
	units []unitLoss
	nodes []nodeLoss
	// gangs maps the UID of each gang of a unit to a number, from 1 on.
	gangs map[string]int32
}

// unitLoss is the lost work of a unit that grows with time at a constant rate, up to a maximum.
type unitLoss struct {
	// rate is the number of milli-devices. It is 0 if the loss does not grow evenly, for example
	// because the unit saves its work at an interval.
	rate int64
	// begin is the time when the work was last saved or began, in nanoseconds since 1970. The table
	// does not apply to decisions before begin.
	begin int64
	// most is the longest time since begin that counts. restart is added to that time. Both are in
	// nanoseconds.
	most, restart int64
	// gang is the number of the gang that falls below minCount if the unit is evicted; 0 for none.
	gang int32
}

// nodeLoss bounds the lost work of the units on one node from below.
type nodeLoss struct {
	// rate is the lowest rate of any unit. others is the number of units without a rate, or with a
	// maximum.
	rate   int64
	others int
	// begins has, for each number of units, the sum of their begins in seconds since 1970, taking
	// the latest begins. It includes only units with a rate and without a maximum. A restart counts
	// as an earlier begin.
	begins []int64
	// grouped is true if some unit is a member of a gang.
	grouped bool
}

// lossTables keeps a lossTable from one decision to the next and brings it up to date.
type lossTables struct {
	mu    sync.Mutex
	table *lossTable
	// changed has the nodes that have changed since the table was last updated.
	changed map[int32]bool
}

func newLossTables() *lossTables { return &lossTables{changed: make(map[int32]bool)} }

// touch records that the units of a node have changed. No decision may use the table at the same
// time.
func (ts *lossTables) touch(n int32) {
	if ts.table != nil {
		ts.changed[n] = true
	}
}

// forget removes the entry of a unit that may have changed. No decision may use the table at the
// same time.
func (ts *lossTables) forget(u int32) {
	if ts.table != nil && int(u) < len(ts.table.units) {
		ts.table.units[u] = unitLoss{}
	}
}

// of returns the table for a snapshot with the given columns, up to date. Only the table of the
// last settings is kept. The result is nil if ts is nil.
func (ts *lossTables) of(s *Snapshot, c *columns, settings lossSettings) *lossTable {
	if ts == nil {
		return nil
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.table == nil || !ts.table.equal(settings) {
		// Clone the devices, because the caller may reuse its slice. The caps belong to a tree,
		// which never changes.
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

// update computes the entries of some nodes and of their units.
func (t *lossTable) update(s *Snapshot, c *columns, nodes map[int32]bool) {
	t.units = append(t.units, make([]unitLoss, max(len(s.Units)-len(t.units), 0))...)
	t.nodes = append(t.nodes, make([]nodeLoss, max(len(c.nodes)-len(t.nodes), 0))...)
	// Compute losses at the end of time, when every checkpoint is in the past.
	l := newLosses(s, math.MaxInt64, t.lossSettings)
	var begins []int64
	for n := range nodes {
		node := nodeLoss{rate: math.MaxInt64}
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
			node.rate, begins = min(node.rate, unit.rate), append(begins, unit.begin-unit.restart)
		}
		slices.Sort(begins)
		node.begins = t.nodes[n].begins[:0]
		node.begins = append(node.begins, 0)
		for i, begin := range slices.Backward(begins) {
			// Losses count whole seconds, so a begin is rounded up to a full second.
			node.begins = append(node.begins, node.begins[len(begins)-1-i]+(begin-1)/1e9+1)
		}
		t.nodes[n] = node
	}
}

// gangOf returns the number of the gang that falls below minCount if the unit is evicted; 0 for
// none.
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

// growth returns the entry of a unit, without its gang. The losses must have been created for the
// end of time.
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
	return unitLoss{rate: rate, begin: max(from, saved), most: l.mostOf(unit, from, saved), restart: restart}
}

// at returns the lost work of a unit at the time of a decision. It returns false if the table does
// not determine it.
func (t *lossTable) at(u int32, now int64) (int64, bool) {
	if t == nil {
		return 0, false
	}
	e := &t.units[u]
	if e.rate == 0 || e.begin > now {
		return 0, false
	}
	return capped(e.rate, fairshare.Add(min(now-e.begin, e.most), e.restart)/1e9), true
}

// atLeast returns a lower bound of the total lost work of any count units of a node.
func (t *lossTable) atLeast(n int32, count int, now int64) int64 {
	node := &t.nodes[n]
	count = min(count-node.others, len(node.begins)-1)
	if count <= 0 {
		return 0
	}
	seconds := int64(count)*(now/1e9) - node.begins[count]
	if seconds <= 0 {
		return 0
	}
	return capped(node.rate, seconds)
}

// capped returns the lost work of a rate over a number of seconds, at most maxLoss.
func capped(rate, seconds int64) int64 {
	hi, lo := bits.Mul64(uint64(rate), uint64(seconds))
	if hi > 0 || lo > uint64(maxLoss) {
		return maxLoss
	}
	return int64(lo)
}
