package core

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// Order selects the criteria for the comparison of sets of victims, and the order of the criteria.
type Order string

const (
	// OrderPriority is the order of KEP-5710: broken budgets, highest priority, sum of priorities,
	// number of pods, start time. It is the zero value.
	OrderPriority Order = ""
	// OrderLostWork has the criteria of OrderPriority, and lost work after the highest priority. If
	// the search is not exact, a second search with OrderPriority runs too, and the result that is
	// better by OrderLostWork is used. So without queues, the highest priority of a victim is never
	// higher than with OrderPriority. With queues it may be higher: ranks replace priorities (see
	// victimOrder), and bounds apply to sets of victims.
	OrderLostWork Order = "LostWork"
)

// MilliDevices is the number of milli-devices in one device; see [Preemptor.Devices].
const MilliDevices = 1000

// nanosPerMilli converts the nanoseconds of one device to milli-device-seconds.
const nanosPerMilli = int64(time.Second) / MilliDevices

// maxLoss is the maximum lost work of one unit or gang, in milli-device-seconds: about 550
// device-years. With this maximum, the sums and products that the search computes stay in the range
// of int64.
const maxLoss = int64(1) << 44

// Progress describes the work that an eviction of the pod would lose, according to the pod's
// annotations. The zero value means that nothing is known.
type Progress struct {
	// Saved is the time when the pod last saved its work, in nanoseconds since 1970; 0 if unknown.
	// GroupSaved is the same time for the whole PodGroup. The later time applies. A time after the
	// decision is ignored, except for small differences of clocks (see ClockSkew). For a whole
	// gang, the latest time of all its pods applies.
	Saved, GroupSaved int64
	// Interval is the time between automatic saves, in nanoseconds, counted from the start of the
	// pod; 0 for none. It applies only if no save since the start is known.
	Interval int64
	// Restart is the run time that a restart loses in addition to the unsaved work, in nanoseconds.
	// If it is 0, [Preemptor.Restart] applies. NoRestart means that a restart loses no run time.
	Restart int64
}

// NoRestart is the value of Progress.Restart for work whose restart loses no run time.
const NoRestart = int64(-1)

// ClockSkew is the maximum time that the clock of a pod may be ahead of the scheduler's clock, in
// nanoseconds. A checkpoint up to ClockSkew after the decision counts as a checkpoint at the time
// of the decision. Later checkpoints are ignored.
const ClockSkew = int64(time.Minute)

// losses computes the work that units would lose if they were evicted at the time now, in
// milli-device-seconds. A nil losses returns 0 for every unit.
//
// The lost work of a pod is its lost run time multiplied by its devices. The lost run time is the
// time since the last checkpoint, plus the time for a restart. Without a checkpoint, it starts when
// the pod's gang became whole or the pod was scheduled. The pod's queue may limit the run time
// without a checkpoint. A pod without devices counts as a fraction of one device: the largest
// fraction of its node that it requests, and at least one milli-device. So no eviction is free.
//
// A gang that falls below minCount stops, so all its members lose their work.
//
// The search compares losses in whole steps, plus a constant for each pod (see lossSettings). A
// report contains the losses without steps and without the constant.
type losses struct {
	s   *Snapshot
	now int64
	lossSettings
	// basics are the indexes of the resources cpu and memory.
	basics []int
	// gangs caches the lost work of whole gangs whose members are preempted one by one, by UID.
	gangs map[string]int64
	// paid has the UIDs of gangs whose loss does not count, because these gangs stop regardless of
	// further victims.
	paid map[string]bool
	// saved caches the time of the latest checkpoint of any member, by the UID of the gang.
	saved map[string]int64
	// table has the lost work that grows at a constant rate; nil for none.
	table *lossTable
	// byNumber caches the lost work of gangs, by their number in the table; -1 if not computed yet.
	byNumber []int64
}

// lossSettings are the settings that losses depend on.
type lossSettings struct {
	// devices has one value for each resource: the number of milli-devices that one unit of the
	// resource counts as.
	devices Amounts
	// restart is the run time that a restart loses, in nanoseconds. It applies to pods whose
	// Progress.Restart is 0.
	restart int64
	// step is the unit of run time, in nanoseconds: only whole steps count. It is 0 if each
	// nanosecond counts.
	step int64
	// podCost is added for each pod that has run for a step since its last checkpoint, in
	// milli-device-seconds.
	podCost int64
	// silent is the limit of the lost run time of work without a checkpoint, by leaf queue, in
	// nanoseconds. It contains only queues with a limit.
	silent map[string]int64
}

// equal reports whether the settings a and b give the same losses for all units.
func (a lossSettings) equal(b lossSettings) bool {
	return a.restart == b.restart && a.step == b.step && a.podCost == b.podCost && slices.Equal(a.devices, b.devices) && maps.Equal(a.silent, b.silent)
}

// inSteps returns a run time rounded down to whole steps. Both times are in nanoseconds.
func (a *lossSettings) inSteps(run int64) int64 {
	if a.step <= 0 {
		return run
	}
	return run - run%a.step
}

// lossOf returns the lost work of a number of pods, in milli-device-seconds. rate is the sum of
// their milli-devices. run is the time since their last checkpoint, and restart is the additional
// time that a restart loses, both in nanoseconds. A longer time never lowers the result.
func (a *lossSettings) lossOf(rate, run, restart int64, pods int32) int64 {
	lost := capped(rate, fairshare.Add(a.inSteps(run), restart)/1e9)
	if run >= a.step {
		lost = min(lost+capped(a.podCost, int64(pods)), maxLoss)
	}
	return lost
}

// settingsOf returns the settings for the comparison of victims.
func settingsOf(s *Snapshot, p *Preemptor) lossSettings {
	settings := reportSettingsOf(s, p)
	settings.step, settings.podCost = p.Step, p.PodCost/nanosPerMilli
	return settings
}

// reportSettingsOf returns the settings for reports of the work that victims lose.
func reportSettingsOf(s *Snapshot, p *Preemptor) lossSettings {
	settings := lossSettings{devices: p.Devices, restart: p.Restart}
	if s.Queues != nil && s.Queues.Tree != nil {
		settings.silent = s.Queues.Tree.SilentWorkCaps()
	}
	return settings
}

// newLosses returns the losses of evictions at the time now, in nanoseconds since 1970.
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
		total = min(total+l.lossOf(l.rate(pod), min(lost, most), l.restartOf(&pod.Progress), 1), maxLoss)
	}
	return total
}

// mostOf returns the limit of the run time that a unit may lose, in nanoseconds. The time for a
// restart is not included. The argument from is the start of the work, and saved is the last
// checkpoint; 0 for none. Only work without a checkpoint after from has a limit. The limit also
// applies to work whose only sign of saving is an interval.
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

// savedAt returns the time of the last checkpoint of a unit; 0 if unknown.
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

// latestOf returns the latest checkpoint of the given pods, or latest if that is later. It ignores
// checkpoints in the future; see ClockSkew.
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

// rate returns the number of milli-devices that a pod counts as.
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

// charge returns the work that is lost if only this unit is evicted. For a needed member of a gang,
// it is the work of the whole gang.
func (l *losses) charge(u int32) int64 {
	if l == nil {
		return 0
	}
	if unit := &l.s.Units[u]; l.s.gangs.isNeeded(unit) {
		return l.gang(unit.PodGroup)
	}
	return l.of(u)
}

// least returns a lower bound of the work that a unit adds to the lost work of a set of victims.
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

// gang returns the lost work of all members of a gang. It is 0 for a gang in paid.
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

// together returns the work that is lost if all the given victims are evicted.
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

// paying returns a copy of l that does not count the loss of the given gangs (by UID).
func (l *losses) paying(gangs map[string]bool) *losses {
	if l == nil {
		return nil
	}
	paid := *l
	paid.paid, paid.byNumber = gangs, nil
	return &paid
}
