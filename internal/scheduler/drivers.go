package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/workload"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// This file bounds the number of drivers without workers. A driver is a pod that creates its
// workers after it has started. Too many drivers can occupy all room, so that no driver has room
// for workers. The gate therefore blocks a driver while the allowed number of other drivers (the
// argument drivers.withoutWorkers) have a place and lack workers.
//
// The package keeps no state about drivers. Each check counts the drivers in the informers. The
// main loop repeats the check of blocked drivers at each tick, and after each change of a driver or
// worker.

// driversInTheWay is the reason in the rejection of a blocked driver's cycle. Such a cycle preempts
// nothing.
const driversInTheWay = "other drivers run without their workers"

// scope is a set of drivers with a common bound: the drivers of a queue, or the drivers of a
// namespace that are in no queue.
type scope struct{ queue, namespace string }

func (s scope) String() string {
	if s.queue != "" {
		return fmt.Sprintf("Queue %q", s.queue)
	}
	return "namespace " + s.namespace
}

func (b *ledger) scopeOf(pod *corev1.Pod) scope {
	if name := b.queueOf(pod); name != "" {
		return scope{queue: name}
	}
	return scope{namespace: pod.Namespace}
}

// driverOf returns the workers that a driver needs. It returns false if the pod is no driver, if it
// needs no workers, or if its profile does not bound the number of drivers.
func (r *clusterIndex) driverOf(pod *corev1.Pod) (gang.Lead, bool) {
	args := r.profiles.of(pod.Spec.SchedulerName)
	if args == nil || !*args.WorkloadAware || *args.Drivers.WithoutWorkers == 0 || !gang.MayDrive(pod, r.derived) {
		return gang.Lead{}, false
	}
	said, says := gang.Leads(pod)
	lead, known := r.derived.Leads(pod)
	labeled := gang.IsDriver(pod)
	switch {
	case says:
		lead.Workers = said
	case known && (labeled || lead.Group.Name != ""):
		// Without the labels or a PodGroup, nothing would identify the workers, so the number from
		// the owner would have no effect.
	case labeled:
		lead = gang.Lead{Workers: 1}
	default:
		return gang.Lead{}, false
	}
	return lead, lead.Workers > 0
}

// workersOf returns the number of a driver's workers that have a node, and the number of all its
// workers.
func (r *clusterIndex) workersOf(driver *corev1.Pod, lead gang.Lead) (placed, all int) {
	found := r.lister.Workers(driver)
	if lead.Group.Name != "" {
		members := r.lister.Members(lead.Group)
		found = slices.Concat(found, members.Pending, members.Gated, members.Assigned, members.Succeeded)
	}
	slices.SortFunc(found, func(a, b *corev1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	found = slices.CompactFunc(found, func(a, b *corev1.Pod) bool { return a.UID == b.UID })
	for _, pod := range found {
		if pod.UID == driver.UID || pod.DeletionTimestamp != nil {
			continue
		}
		all++
		if pod.Spec.NodeName != "" {
			placed++
		}
	}
	return placed, all
}

// countingDriver is a driver that lacks workers, and so counts for the bound of its scope.
type countingDriver struct {
	pod      *corev1.Pod
	priority int32
	// placed is true for a driver with a node or a reservation. Other drivers will be tried soon.
	placed bool
	// until is the latest time until which the driver counts; zero if it is not known.
	until time.Time
}

// countingDrivers lists the drivers of a scope that lack workers. Each has a place, or may be tried
// soon.
func (h *Scheduler) countingDrivers(of scope) []countingDriver {
	now := h.clock.Now()
	var out []countingDriver
	for _, pod := range h.index.lister.Drivers(of.namespace) {
		if pod.DeletionTimestamp != nil {
			continue
		}
		lead, ok := h.index.driverOf(pod)
		if !ok || h.ledger.scopeOf(pod) != of {
			continue
		}
		have, all := h.index.workersOf(pod, lead)
		if have >= lead.Workers {
			continue
		}
		counting := countingDriver{pod: pod, priority: h.index.priorityOf(pod), placed: h.hasPlace(pod)}
		switch {
		case pod.Spec.NodeName != "":
			counting.until = h.countsUntil(pod, all > 0)
			if !counting.until.After(now) {
				continue
			}
		case !counting.placed && !h.mayBeTried(pod):
			continue
		}
		out = append(out, counting)
	}
	return out
}

// hasPlace reports whether a driver has a node or a reservation.
func (h *Scheduler) hasPlace(pod *corev1.Pod) bool {
	key := h.index.keyOf(pod)
	return pod.Spec.NodeName != "" || h.records.IsAssumed(string(pod.UID)) || len(h.reserved.Of(key)) > 0 || h.waits.Evicting(key)
}

// mayBeTried reports whether a driver without a place is likely to be tried soon. It is false for a
// driver that found no room or failed in its last attempt.
func (h *Scheduler) mayBeTried(pod *corev1.Pod) bool {
	if len(pod.Spec.SchedulingGates) > 0 {
		return false
	}
	if c := scheduledCondition(pod); c != nil && c.Status == corev1.ConditionFalse &&
		c.Reason != v1alpha1.ReasonDriversWithoutWorkers && c.Reason != v1alpha1.ReasonPending {
		return false
	}
	return !h.placements.isBlockedByGroup(pod) && h.index.gatedBy(pod) == "" && (!h.ledger.asksForQueues() || h.ledger.claimOf(pod).Bar == gang.Verdict{})
}

// countsUntil returns the time until which a driver with a node, but with too few workers, counts
// for the bound. hasCreated is true if the driver has created any worker.
func (h *Scheduler) countsUntil(pod *corev1.Pod, hasCreated bool) time.Time {
	args := h.index.profiles.of(pod.Spec.SchedulerName).Drivers
	if hasCreated {
		return startOf(pod).Add(args.WorkersTimeout.Duration)
	}
	return startOf(pod).Add(args.CreateTimeout.Duration)
}

// startOf returns the later of two times: the time when the pod was bound, and the time when its
// first container started. It ignores containers that have restarted, so that crashes do not extend
// the timeouts of a driver.
func startOf(pod *corev1.Pod) time.Time {
	at := preemptiontoleration.ScheduledAt(pod)
	if at.IsZero() {
		at = pod.CreationTimestamp.Time
	}
	var started time.Time
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		if s.State.Running == nil || s.RestartCount > 0 {
			continue
		}
		if began := s.State.Running.StartedAt.Time; started.IsZero() || began.Before(started) {
			started = began
		}
	}
	if started.After(at) {
		return started
	}
	return at
}

// goesBefore reports whether the counting driver c is tried before a pod with a priority.
func (c *countingDriver) goesBefore(pod *corev1.Pod, priority int32) bool {
	return c.compare(pod, priority) < 0
}

// compare compares the counting driver c with a pod, by priority, then age. It is negative if c
// comes first.
func (c *countingDriver) compare(pod *corev1.Pod, priority int32) int {
	return cmp.Or(
		cmp.Compare(priority, c.priority), c.pod.CreationTimestamp.Compare(pod.CreationTimestamp.Time),
		cmp.Compare(c.pod.Namespace, pod.Namespace), cmp.Compare(c.pod.Name, pod.Name),
	)
}

// driversAhead returns the reason why a driver is blocked, and the time when the block ends at the
// latest. The Verdict is zero for a pod that is not blocked. The time is zero if it is not known.
// counting lists the drivers of a scope that lack workers.
func (h *Scheduler) driversAhead(pod *corev1.Pod, counting func(scope) []countingDriver) (gang.Verdict, time.Time) {
	lead, ok := h.index.driverOf(pod)
	if !ok || h.hasPlace(pod) {
		return gang.Verdict{}, time.Time{}
	}
	if _, all := h.index.workersOf(pod, lead); all > 0 {
		// The driver has created workers already, so blocking it would not keep room free for them.
		return gang.Verdict{}, time.Time{}
	}
	of, priority, bound := h.ledger.scopeOf(pod), h.index.priorityOf(pod), int(*h.index.profiles.of(pod.Spec.SchedulerName).Drivers.WithoutWorkers)
	var ahead, next []countingDriver
	for _, other := range counting(of) {
		switch {
		case other.pod.UID == pod.UID, other.priority < priority, gang.IsSameApplication(other.pod, pod):
		case other.placed:
			ahead = append(ahead, other)
		case other.goesBefore(pod, priority):
			next = append(next, other)
		}
	}
	if free := bound - len(ahead); free > 0 {
		if len(next) < free {
			return gang.Verdict{}, time.Time{}
		}
		slices.SortFunc(next, func(a, b countingDriver) int { return a.compare(b.pod, b.priority) })
		ahead = append(ahead, next[:free]...)
	}
	until := endOf(ahead, len(ahead)-bound+1)
	return gang.Verdict{Reason: v1alpha1.ReasonDriversWithoutWorkers, Message: messageOf(of, bound, ahead, until)}, until
}

// endOf returns the latest time when the given number of drivers stop counting for the bound.
// Events may make them stop earlier. The result is zero if the time is not known.
func endOf(drivers []countingDriver, count int) time.Time {
	var ends []time.Time
	for i := range drivers {
		if at := drivers[i].until; !at.IsZero() {
			ends = append(ends, at)
		}
	}
	if len(ends) < count {
		return time.Time{}
	}
	slices.SortFunc(ends, time.Time.Compare)
	return ends[count-1]
}

// mostDriversNamed is the maximum number of drivers that a message names.
const mostDriversNamed = 3

func messageOf(of scope, bound int, ahead []countingDriver, until time.Time) string {
	names := make([]string, len(ahead))
	for i := range ahead {
		names[i] = ahead[i].pod.Namespace + "/" + ahead[i].pod.Name
	}
	slices.Sort(names)
	more := ""
	if len(names) > mostDriversNamed {
		more = fmt.Sprintf(" and %d more", len(names)-mostDriversNamed)
		names = names[:mostDriversNamed]
	}
	waits := slices.ContainsFunc(ahead, func(c countingDriver) bool { return !c.placed })
	subject := "1 driver of " + of.String() + " runs" + only(waits, ", or is about to run,") + " without its workers"
	if n := len(ahead); n > 1 {
		subject = fmt.Sprintf("%d drivers of %s run%s without their workers", n, of, only(waits, ", or are about to run,"))
	}
	at := ""
	if !until.IsZero() {
		at = ", at " + until.UTC().Format(time.RFC3339) + " at the latest"
	}
	return fmt.Sprintf("%s: %s%s; drivers.withoutWorkers is %d; this driver is retried when one has its workers or has ended%s",
		subject, strings.Join(names, ", "), more, bound, at)
}

// only returns the text if the condition is true, and "" otherwise.
func only(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

// blockDriver returns the reason why a driver is blocked, and adds it to the waiting list as a
// cause. It returns the zero Verdict for pods that are no drivers or are not blocked.
func (h *Scheduler) blockDriver(pod *corev1.Pod) gang.Verdict {
	if _, ok := h.index.driverOf(pod); !ok {
		return gang.Verdict{}
	}
	v, until := h.driversAhead(pod, h.countingDrivers)
	h.awaitDrivers(h.index.keyOf(pod), v, until)
	return v
}

// awaitDrivers adds the cause engine.Drivers to a workload, until the given time. It removes the
// cause if the Verdict is zero.
func (h *Scheduler) awaitDrivers(key workload.Key, v gang.Verdict, until time.Time) {
	switch {
	case v == gang.Verdict{}:
		h.waits.Resolve(key, engine.Drivers)
	case until.IsZero():
		// The time is not known. The main loop repeats the check at each tick, so no event is
		// missed.
		h.waits.Wait(key, engine.Drivers, h.waits.Mark())
	default:
		h.waits.WaitUntil(key, engine.Drivers, onClock(until, h.clock.Now()))
	}
}

// blockSingleDriver is blockDriver for a pod without a gang. A blocked driver gives up its turn,
// and the reason is written to its condition.
func (h *Scheduler) blockSingleDriver(pod *corev1.Pod) gang.Verdict {
	if _, ok := h.index.driverOf(pod); !ok {
		return gang.Verdict{}
	}
	v := h.blockDriver(pod)
	if v != (gang.Verdict{}) {
		h.turns.Forget(podKey(pod))
	}
	h.placements.setBlocked(pod, v)
	return v
}

// blockGangDrivers is blockDriver for the pending members of a gang.
func (h *Scheduler) blockGangDrivers(members *gang.Members) gang.Verdict {
	for _, pod := range members.Pending {
		if members.Reserved.Has(pod.UID) {
			continue
		}
		if v := h.blockDriver(pod); v != (gang.Verdict{}) {
			return v
		}
	}
	return gang.Verdict{}
}

// rejectDriver ends the cycle of a driver that passed PreEnqueue together with too many other
// drivers.
func (p *Plugin) rejectDriver(state fwk.CycleState, v gang.Verdict) *fwk.Status {
	state.Write(rejectionKey, rejection{driversInTheWay})
	return fwk.NewStatus(fwk.Unschedulable, v.Message)
}

// BlockedDriver returns the reason why the bound on drivers blocks a pod; the zero Verdict if it
// does not. Any goroutine may call it.
func (h *Scheduler) BlockedDriver(pod *corev1.Pod) gang.Verdict {
	v, _ := h.driversAhead(pod, h.countingDrivers)
	return v
}

// touchDrivers makes the main loop check the blocked drivers soon, if a pod is a driver or a
// worker.
func (h *Scheduler) touchDrivers(pod *corev1.Pod) {
	if !h.waits.Awaits(engine.Drivers) {
		return
	}
	if _, isMember := h.index.groupOf(pod); !isMember && !gang.ConcernsDrivers(pod, h.index.derived) {
		return
	}
	select {
	case h.driversChanged <- struct{}{}:
	default:
	}
}

// retryDrivers retries the drivers that are no longer blocked, and updates the messages of the
// blocked drivers.
func (h *Scheduler) retryDrivers() {
	known := make(map[scope][]countingDriver)
	counting := func(of scope) []countingDriver {
		found, ok := known[of]
		if !ok {
			found = h.countingDrivers(of)
			known[of] = found
		}
		return found
	}
	for _, key := range h.waits.Waiting(engine.Drivers) {
		if key.Gang {
			h.retryDriverGang(key, counting)
			continue
		}
		pod, ok := h.index.podOf(key)
		if !ok || !h.index.awaitsPlace(pod) {
			h.waits.Resolve(key, engine.Drivers)
			continue
		}
		v, until := h.driversAhead(pod, counting)
		h.awaitDrivers(key, v, until)
		if v == (gang.Verdict{}) {
			// The gate updates the pod's condition.
			h.retries.now(key)
			continue
		}
		h.placements.setBlocked(pod, v)
	}
}

// retryDriverGang is retryDrivers for a gang.
func (h *Scheduler) retryDriverGang(key workload.Key, counting func(scope) []countingDriver) {
	members := h.placements.members(nameOf(key))
	for _, pod := range members.Pending {
		if members.Reserved.Has(pod.UID) {
			continue
		}
		v, until := h.driversAhead(pod, counting)
		if v == (gang.Verdict{}) {
			continue
		}
		h.awaitDrivers(key, v, until)
		if h.gangs.Verdict(key).Reason == v1alpha1.ReasonDriversWithoutWorkers {
			h.gangs.SetVerdict(key, v)
		}
		return
	}
	h.waits.Resolve(key, engine.Drivers)
	h.retries.now(key)
}
