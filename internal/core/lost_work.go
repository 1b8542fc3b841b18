package core

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// Order is the order of the criteria that sets of victims are compared by.
type Order string

const (
	// OrderPriority is the order of KEP-5710: broken budgets, highest priority, sum of priorities,
	// pods, start. It is the zero value.
	OrderPriority Order = ""
	// OrderLostWork compares lost work after the highest priority, and then by the other criteria.
	// If the search is not exact, the search with OrderPriority competes. So without queues, the
	// highest priority of the victims is no higher than with OrderPriority. With queues, this does
	// not follow: priorities are ranks (see victimOrder), and bounds hold for whole sets.
	OrderLostWork Order = "LostWork"
)

// MilliDevices is the number of milli-devices in one device; see [Preemptor.Devices].
const MilliDevices = 1000

// maxLoss bounds the lost work of one unit or gang, so that sums and multiples of losses stay
// in range. It is about 550 device-years.
const maxLoss = int64(1) << 44

// Progress describes the work that the eviction of a pod would lose, as far as annotations show it.
// The zero Progress shows nothing.
type Progress struct {
	// Saved is the time when the work was last saved, in nanoseconds since 1970; 0 if not known.
	// GroupSaved is the same for its PodGroup. The later time counts, but a time after the decision
	// is ignored. For a whole gang, the latest time of its pods counts for all.
	Saved, GroupSaved int64
	// Interval is how often the work saves itself from its start on, in nanoseconds; 0 for never.
	// It counts if no work was saved since the start.
	Interval int64
	// Restart is the run time that a restart loses in addition to the work, in nanoseconds. With 0,
	// [Preemptor.Restart] applies. NoRestart stands for none.
	Restart int64
}

// NoRestart is the Progress.Restart of work whose restart loses no run time.
const NoRestart = int64(-1)

// ClockSkew is the time that the clock of a pod may be ahead of the scheduler's, in nanoseconds. A
// checkpoint within ClockSkew after the decision counts as one of now. A later checkpoint is
// ignored.
const ClockSkew = int64(time.Minute)

// losses has the work that units would lose if they were evicted at the time of a decision, in
// milli-device-seconds. A nil losses counts none.
//
// Eviction discards the work of a pod since its last checkpoint, and a restart costs a further
// time. Without checkpoints, the clock began when its gang was whole, or the pod was placed. The
// pod's queue may cap the time of work without a checkpoint. The
// amount is that time, multiplied by the pod's devices. A pod without devices counts as a part of
// one: the largest part of its node that it requests. It counts as a milli-device at least, so that
// no pod is free.
//
// A gang that falls below minCount stops, and loses the work of all its members.
type losses struct {
	s   *Snapshot
	now int64
	lossSettings
	// basics are the dimensions of CPUs and memory.
	basics []int
	// gangs has the loss of whole gangs that are preempted member by member, by UID.
	gangs map[string]int64
	// paid are the gangs whose loss does not count because they stop anyway.
	paid map[string]bool
	// saved has the latest checkpoint of any member, by the UID of the gang.
	saved map[string]int64
	// table has the losses that grow evenly; nil for none.
	table *lossTable
	// byNumber has the losses of gangs by their number in the table; -1 where it is not known.
	byNumber []int64
}

// lossSettings are the settings that losses depend on.
type lossSettings struct {
	// devices has the number of milli-devices for one unit of each resource.
	devices Amounts
	// restart is the run time that a restart loses, in nanoseconds, for work without a setting of
	// its own.
	restart int64
	// silent caps the run time that work without a checkpoint loses, by leaf queue, in nanoseconds.
	// Queues without a cap are absent.
	silent map[string]int64
}

// equal reports whether all losses are the same with both settings.
func (a lossSettings) equal(b lossSettings) bool {
	return a.restart == b.restart && slices.Equal(a.devices, b.devices) && maps.Equal(a.silent, b.silent)
}

func settingsOf(s *Snapshot, p *Preemptor) lossSettings {
	settings := lossSettings{devices: p.Devices, restart: p.Restart}
	if s.Queues != nil && s.Queues.Tree != nil {
		settings.silent = s.Queues.Tree.SilentWorkCaps()
	}
	return settings
}

// newLosses returns the losses at a time by some settings.
func newLosses(s *Snapshot, now int64, settings lossSettings) *losses {
	l := &losses{s: s, now: now, lossSettings: settings, gangs: make(map[string]int64), saved: make(map[string]int64)}
	for r, name := range s.Resources {
		if name == "cpu" || name == "memory" {
			l.basics = append(l.basics, r)
		}
	}
	return l
}

// of returns the work that a unit itself loses.
func (l *losses) of(u int32) int64 {
	if l == nil {
		return 0
	}
	if lost, ok := l.table.at(u, l.now); ok {
		return lost
	}
	unit := &l.s.Units[u]
	if unit.Start == 0 {
		return 0
	}
	from, saved, total := max(unit.Start, unit.Since), l.savedAt(unit), int64(0)
	most := l.mostOf(unit, from, saved)
	for i := range unit.Pods {
		pod := &unit.Pods[i]
		lost := max(l.now-max(from, saved), 0)
		if saved <= from && pod.Progress.Interval > 0 {
			lost %= pod.Progress.Interval
		}
		lost = fairshare.Add(min(lost, most), l.restartOf(&pod.Progress))
		total = min(total+capped(l.rate(pod), lost/1e9), maxLoss)
	}
	return total
}

// mostOf returns the longest run time that a unit may lose, in nanoseconds, without its restart.
// from is the start of its work; saved is its last checkpoint, 0 for none. Only work that has not
// been saved since from is capped, even if it saves itself at an interval.
func (l *losses) mostOf(unit *Unit, from, saved int64) int64 {
	if saved <= from && len(l.silent) > 0 {
		if most, isCapped := l.silent[unit.queue()]; isCapped {
			return most
		}
	}
	return math.MaxInt64
}

// restartOf returns the run time that a restart of a pod loses, in nanoseconds.
func (l *losses) restartOf(p *Progress) int64 {
	return max(cmp.Or(p.Restart, l.restart), 0)
}

// savedAt returns the time when the work of a unit was last saved; 0 if not known.
func (l *losses) savedAt(unit *Unit) int64 {
	whole := l.s.gangs[unit.PodGroup]
	if whole == nil || unit.Group {
		return l.latestOf(unit.Pods, 0)
	}
	saved, known := l.saved[unit.PodGroup]
	if !known {
		for _, m := range whole.units {
			saved = l.latestOf(l.s.Units[m].Pods, saved)
		}
		l.saved[unit.PodGroup] = saved
	}
	return saved
}

// latestOf returns the latest checkpoint of the given pods that is not in the future, or latest if
// that is later.
func (l *losses) latestOf(pods []Pod, latest int64) int64 {
	for i := range pods {
		for _, saved := range [2]int64{pods[i].Progress.Saved, pods[i].Progress.GroupSaved} {
			if saved <= fairshare.Add(l.now, ClockSkew) {
				latest = max(latest, min(saved, l.now))
			}
		}
	}
	return latest
}

// rate returns the milli-devices of a pod.
func (l *losses) rate(p *Pod) int64 {
	rate := int64(0)
	for r, each := range l.devices {
		if v := max(p.Request[r], 0); each > 0 {
			rate = fairshare.Add(rate, min(v, math.MaxInt64/each)*each)
		}
	}
	if rate > 0 || p.Node < 0 {
		return max(rate, 1)
	}
	for _, r := range l.basics {
		if all := l.s.Nodes[p.Node].Allocatable[r]; all > 0 {
			part := float64(max(p.Request[r], 0)) / float64(all)
			rate = max(rate, int64(min(part, 1)*MilliDevices))
		}
	}
	return max(rate, 1)
}

// charge returns the work that is lost if a unit is evicted alone: for a member that its gang
// needs, the work of the whole gang.
func (l *losses) charge(u int32) int64 {
	if l == nil {
		return 0
	}
	if unit := &l.s.Units[u]; l.s.gangs.isNeeded(unit) {
		return l.gang(unit.PodGroup)
	}
	return l.of(u)
}

// least returns a lower bound of the work that a unit adds to the lost work of a set.
func (l *losses) least(u int32) int64 {
	if len(l.paid) == 0 {
		return l.of(u)
	}
	if unit := &l.s.Units[u]; l.paid[unit.PodGroup] && l.s.gangs.isNeeded(unit) {
		return 0
	}
	return l.of(u)
}

// alone returns a lower bound of the lost work of every set with a unit in it.
func (l *losses) alone(u int32) int64 {
	if l.table == nil || l.table.units[u].gang == 0 {
		return l.least(u)
	}
	number := l.table.units[u].gang
	if l.byNumber == nil {
		l.byNumber = slices.Repeat([]int64{-1}, len(l.table.gangs)+1)
	}
	if l.byNumber[number] < 0 {
		l.byNumber[number] = l.gang(l.s.Units[u].PodGroup)
	}
	return l.byNumber[number]
}

// gang returns the loss of a whole gang; 0 for a gang that stops anyway.
func (l *losses) gang(uid string) int64 {
	if l.paid[uid] {
		return 0
	}
	loss, known := l.gangs[uid]
	if !known {
		for _, m := range l.s.gangs[uid].units {
			loss = min(loss+l.of(m), maxLoss)
		}
		l.gangs[uid] = loss
	}
	return loss
}

// together returns the work that is lost if some units are evicted together.
func (l *losses) together(victims []int32) int64 {
	if l == nil {
		return 0
	}
	total, needed := int64(0), false
	for _, u := range victims {
		total += l.of(u)
		needed = needed || l.s.gangs.isNeeded(&l.s.Units[u])
	}
	if !needed {
		return total
	}
	broken := brokenGangs(l.s, victims)
	for uid := range broken {
		total += l.gang(uid)
	}
	for _, u := range victims {
		if _, stops := broken[l.s.Units[u].PodGroup]; stops && !l.s.Units[u].Group {
			total -= l.of(u)
		}
	}
	return total
}

// paying returns losses with some gangs that stop anyway.
func (l *losses) paying(gangs map[string]bool) *losses {
	if l == nil {
		return nil
	}
	paid := *l
	paid.paid, paid.byNumber = gangs, nil
	return &paid
}
