package core

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// Order selects the criteria for the comparison of sets of victims, and their order.
type Order string

const (
	// OrderPriority is the order of KEP-5710: broken budgets, highest priority, sum of priorities,
	// number of pods, start. It is the zero value.
	OrderPriority Order = ""
	// OrderLostWork compares lost work after the highest priority, and then the other criteria. If
	// the search is not exact, a second search with OrderPriority also runs, and the better of the
	// two results by OrderLostWork is used. So without queues, the highest priority of the victims
	// is no higher than with OrderPriority. With queues this is not certain: ranks replace
	// priorities (see victimOrder), and bounds apply to whole sets.
	OrderLostWork Order = "LostWork"
)

// MilliDevices is the number of milli-devices in one device; see [Preemptor.Devices].
const MilliDevices = 1000

// maxLoss is the most lost work of one unit or gang, so that sums and multiples stay in range. It
// is about 550 device-years.
const maxLoss = int64(1) << 44

// Progress describes the work that the eviction of a pod would lose, as far as the pod's
// annotations show it. The zero Progress has no information.
type Progress struct {
	// Saved is the time when the pod last saved its work, in nanoseconds since 1970; 0 if unknown.
	// GroupSaved is the time for its whole PodGroup. The later of both counts; a time after the
	// decision is ignored. For a whole gang, the latest time of its pods counts for all.
	Saved, GroupSaved int64
	// Interval is the time between automatic saves, counted from the pod's start, in nanoseconds; 0
	// for no automatic saves. It counts only if no save is known since the start.
	Interval int64
	// Restart is the run time that a restart loses in addition to the unsaved work, in nanoseconds.
	// With 0, [Preemptor.Restart] applies. NoRestart means that a restart loses no run time.
	Restart int64
}

// NoRestart is the Progress.Restart of work whose restart loses no run time.
const NoRestart = int64(-1)

// ClockSkew is the time that the clock of a pod may be ahead of the scheduler's, in nanoseconds. A
// checkpoint at most ClockSkew after the decision counts as one at the decision. A later checkpoint
// is ignored.
const ClockSkew = int64(time.Minute)

// losses computes the work that units would lose if they were evicted at the time of a decision, in
// milli-device-seconds. A nil losses returns 0 for every unit.
//
// Eviction discards the work of a pod since its last checkpoint, and a restart costs additional run
// time. Without checkpoints, the work counts from the time when the pod's gang became whole, or the
// pod was scheduled. The pod's queue may cap the time of work without a checkpoint. The lost work
// is that time multiplied by the pod's devices. A pod without devices counts as a fraction of one
// device: the largest fraction of its node that it requests. The fraction is at least a
// milli-device, so that no eviction is free.
//
// A gang that falls below minCount stops, and loses the work of all its members.
type losses struct {
	s   *Snapshot
	now int64
	lossSettings
	// basics are the dimensions of CPUs and memory.
	basics []int
	// gangs has the lost work of each gang whose members are preempted one by one, by UID.
	gangs map[string]int64
	// paid has the gangs whose loss does not count, because they stop in any case.
	paid map[string]bool
	// saved has the time of the latest checkpoint of any member, by the UID of the gang.
	saved map[string]int64
	// table has the units whose lost work grows evenly with time; nil for none.
	table *lossTable
	// byNumber has the lost work of each gang by its number in the table; -1 if not computed yet.
	byNumber []int64
}

// lossSettings are the settings that losses depend on.
type lossSettings struct {
	// devices has, for each resource, the number of milli-devices that one unit of the resource
	// counts as.
	devices Amounts
	// restart is the run time that a restart loses, in nanoseconds, for pods without a setting of
	// their own.
	restart int64
	// silent caps the run time that work without a checkpoint loses, by leaf queue, in nanoseconds.
	// Queues without a cap are absent.
	silent map[string]int64
}

// equal reports whether both settings result in the same losses.
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

// newLosses returns the losses of evictions at the time now.
func newLosses(s *Snapshot, now int64, settings lossSettings) *losses {
	l := &losses{s: s, now: now, lossSettings: settings, gangs: make(map[string]int64), saved: make(map[string]int64)}
	for r, name := range s.Resources {
		if name == "cpu" || name == "memory" {
			l.basics = append(l.basics, r)
		}
	}
	return l
}

// of returns the work that the pods of a unit lose if the unit is evicted.
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

// mostOf returns the cap on the run time that a unit may lose, in nanoseconds, without its restart.
// from is the start of its work, and saved its last checkpoint, 0 for none. Only work without a
// checkpoint since from is capped, even if it saves itself at an interval.
func (l *losses) mostOf(unit *Unit, from, saved int64) int64 {
	if saved <= from && len(l.silent) > 0 {
		if most, isCapped := l.silent[unit.queue()]; isCapped {
			return most
		}
	}
	return math.MaxInt64
}

// restartOf returns the additional run time that the restart of a pod loses, in nanoseconds.
func (l *losses) restartOf(p *Progress) int64 {
	return max(cmp.Or(p.Restart, l.restart), 0)
}

// savedAt returns the time when the work of a unit was last saved; 0 if unknown.
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

// latestOf returns the latest checkpoint of the given pods, or the argument latest if that is
// later. It ignores checkpoints in the future.
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

// charge returns the work that is lost if only this unit is evicted. For a member that its gang
// needs, that is the work of the whole gang.
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

// alone returns a lower bound of the lost work of every set of victims that contains the unit.
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

// gang returns the lost work of a whole gang that stops; 0 for a gang whose loss does not count.
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

// together returns the work that is lost if all the given units are evicted.
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

// paying returns a copy that does not count the loss of the given gangs.
func (l *losses) paying(gangs map[string]bool) *losses {
	if l == nil {
		return nil
	}
	paid := *l
	paid.paid, paid.byNumber = gangs, nil
	return &paid
}
