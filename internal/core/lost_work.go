package core

import (
	"math"
	"math/bits"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// Order is the order of the criteria that sets of victims are compared by.
type Order string

const (
	// OrderPriority is the order of KEP-5710: broken budgets, highest priority, sum of priorities,
	// pods, start. It is the zero value.
	OrderPriority Order = ""
	// OrderLostWork compares lost work after the highest priority, and then by the other criteria.
	// So it never evicts a higher priority than OrderPriority does.
	OrderLostWork Order = "LostWork"
)

const (
	// milliDevices is how many milli-devices one device counts as.
	milliDevices = 1000
	// maxLoss bounds the lost work of one unit, so that sums and multiples of losses stay in range.
	// It is about 9,000 device-years.
	maxLoss = int64(1) << 48
)

// losses has the work that units would lose if they were evicted at the time of a decision, in
// milli-device-seconds. A nil losses counts none.
//
// Eviction discards the work of a unit since its clock began: since its gang was whole, or its pod
// was placed. The amount is that time, multiplied by the unit's devices. A unit without devices
// counts as the largest part of its node that it requests, so it is never free.
//
// A gang that falls below minCount stops, and loses the work of all its members.
type losses struct {
	s   *Snapshot
	now int64
	// devices are the dimensions of devices, and basics are CPUs and memory.
	devices, basics []int
	// gangs has the loss of whole gangs that are preempted member by member, by UID.
	gangs map[string]int64
	// paid are the gangs whose loss does not count because they stop anyway.
	paid map[string]bool
}

func newLosses(s *Snapshot, now int64) *losses {
	l := &losses{s: s, now: now, gangs: make(map[string]int64)}
	for r, name := range s.Resources {
		switch fairshare.KindOf(name) {
		case fairshare.Device:
			l.devices = append(l.devices, r)
		case fairshare.Basic:
			l.basics = append(l.basics, r)
		case fairshare.Bound, fairshare.Absent:
		}
	}
	return l
}

// of returns the work that a unit itself loses.
func (l *losses) of(u int32) int64 {
	if l == nil {
		return 0
	}
	unit := &l.s.Units[u]
	if unit.Start == 0 {
		return 0
	}
	seconds := (l.now - max(unit.Start, unit.Since)) / 1e9
	if seconds <= 0 {
		return 0
	}
	rate := int64(0)
	for i := range unit.Pods {
		rate = fairshare.Add(rate, l.rate(&unit.Pods[i]))
	}
	hi, lo := bits.Mul64(uint64(rate), uint64(seconds))
	if hi > 0 || lo > uint64(maxLoss) {
		return maxLoss
	}
	return int64(lo)
}

// rate returns the milli-devices of a pod.
func (l *losses) rate(p *Pod) int64 {
	devices := int64(0)
	for _, r := range l.devices {
		devices = fairshare.Add(devices, min(max(p.Request[r], 0), math.MaxInt64/milliDevices)*milliDevices)
	}
	if devices > 0 || p.Node < 0 {
		return devices
	}
	for _, r := range l.basics {
		if all := l.s.Nodes[p.Node].Allocatable[r]; all > 0 {
			part := float64(max(p.Request[r], 0)) / float64(all)
			devices = max(devices, int64(min(part, 1)*milliDevices))
		}
	}
	return devices
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

// gang returns the loss of a whole gang; 0 for a gang that is paid for.
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
	paid.paid = gangs
	return &paid
}
