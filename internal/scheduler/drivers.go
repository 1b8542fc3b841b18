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

// A driver is a pod that creates its workers after it has started. Many drivers can occupy all
// room, so that no driver has room for its workers. So the gate blocks a driver if as many others
// as drivers.withoutWorkers allows have a place and lack workers. No state is kept: each check
// counts the drivers in the informers. The main loop checks the blocked drivers again at each tick,
// and after each change of a driver or worker.

// driversInTheWay is the reason why the cycle of a blocked driver preempts nothing.
const driversInTheWay = "other drivers run without their workers"

// scope is the set of drivers that count together: the drivers in a queue, or the drivers in a
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

// driverOf returns the workers that a driver needs. It returns false if the pod is no driver, or if
// its profile sets no bound for drivers without workers.
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
		// Otherwise nothing would identify the driver's workers.
	case labeled:
		lead = gang.Lead{Workers: 1}
	default:
		return gang.Lead{}, false
	}
	return lead, lead.Workers > 0
}

// workersOf returns the number of workers of a driver with a node, and the number of all of its
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

// countingDriver is a driver that counts in its scope.
type countingDriver struct {
	pod      *corev1.Pod
	priority int32
	// placed is true for a driver with a node or a reservation; others are about to be tried.
	placed bool
	// until is the end of the time when the driver counts, at the latest; zero if it is not known.
	until time.Time
}

// countingDrivers lists the drivers of a scope that lack workers. Each has a place, or waits for
// one and is not known to be blocked by another cause.
func (h *Scheduler) countingDrivers(of scope) []countingDriver {
	now := h.clock.Now()
	var out []countingDriver
	for _, pod := range h.lister.Drivers(of.namespace) {
		if pod.DeletionTimestamp != nil {
			continue
		}
		lead, ok := h.driverOf(pod)
		if !ok || h.scopeOf(pod) != of {
			continue
		}
		have, all := h.workersOf(pod, lead)
		if have >= lead.Workers {
			continue
		}
		counting := countingDriver{pod: pod, priority: h.priorityOf(pod), placed: h.hasPlace(pod)}
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
	key := h.keyOf(pod)
	return pod.Spec.NodeName != "" || h.records.IsAssumed(string(pod.UID)) || len(h.reserved.Of(key)) > 0 || h.waits.Evicting(key)
}

// mayBeTried reports whether a driver without a place may be tried soon. For a driver that found no
// room or failed, this is not known, so the result is false.
func (h *Scheduler) mayBeTried(pod *corev1.Pod) bool {
	if len(pod.Spec.SchedulingGates) > 0 {
		return false
	}
	if c := scheduledCondition(pod); c != nil && c.Status == corev1.ConditionFalse &&
		c.Reason != v1alpha1.ReasonDriversWithoutWorkers && c.Reason != v1alpha1.ReasonPending {
		return false
	}
	return !h.isBlockedByGroup(pod) && h.gatedBy(pod) == "" && (!h.asksForQueues() || h.claimOf(pod).Bar == gang.Verdict{})
}

// countsUntil returns the last moment when a driver with a node counts, although it lacks workers.
func (h *Scheduler) countsUntil(pod *corev1.Pod, hasCreated bool) time.Time {
	args := h.profiles.of(pod.Spec.SchedulerName).Drivers
	if hasCreated {
		return startOf(pod).Add(args.WorkersTimeout.Duration)
	}
	return startOf(pod).Add(args.CreateTimeout.Duration)
}

// startOf returns the time when a pod was bound, or when its first container started if that was
// later. The start of a restarted container does not count.
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

// goesBefore reports whether a driver without a place is tried before another one.
func (c *countingDriver) goesBefore(pod *corev1.Pod, priority int32) bool {
	return c.compare(pod, priority) < 0
}

// compare orders two drivers by priority, then age.
func (c *countingDriver) compare(pod *corev1.Pod, priority int32) int {
	return cmp.Or(
		cmp.Compare(priority, c.priority), c.pod.CreationTimestamp.Compare(pod.CreationTimestamp.Time),
		cmp.Compare(c.pod.Namespace, pod.Namespace), cmp.Compare(c.pod.Name, pod.Name),
	)
}

// driversAhead returns the reason why a driver is blocked, and the latest end of the block. The
// Verdict is zero for a driver that is not blocked. The Time is zero if the end is not known. The
// function counting lists the drivers of a scope that lack workers.
func (h *Scheduler) driversAhead(pod *corev1.Pod, counting func(scope) []countingDriver) (gang.Verdict, time.Time) {
	lead, ok := h.driverOf(pod)
	if !ok || h.hasPlace(pod) {
		return gang.Verdict{}, time.Time{}
	}
	if _, all := h.workersOf(pod, lead); all > 0 {
		// The driver's workers exist already, so blocking the driver would not help them.
		return gang.Verdict{}, time.Time{}
	}
	of, priority, bound := h.scopeOf(pod), h.priorityOf(pod), int(*h.profiles.of(pod.Spec.SchedulerName).Drivers.WithoutWorkers)
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

// endOf returns the time when the given number of drivers have stopped counting, if nothing happens
// before; zero if that is not known.
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

// mostDriversNamed is the largest number of drivers that a message names.
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

// blockDriver returns the reason why a driver is blocked, and adds the cause to the waiting list.
// For other pods it only reads their labels.
func (h *Scheduler) blockDriver(pod *corev1.Pod) gang.Verdict {
	if _, ok := h.driverOf(pod); !ok {
		return gang.Verdict{}
	}
	v, until := h.driversAhead(pod, h.countingDrivers)
	h.awaitDrivers(h.keyOf(pod), v, until)
	return v
}

// awaitDrivers records that a workload waits because of drivers. It ends this wait if the Verdict
// is zero.
func (h *Scheduler) awaitDrivers(key workload.Key, v gang.Verdict, until time.Time) {
	switch {
	case v == gang.Verdict{}:
		h.waits.Resolve(key, engine.Drivers)
	case until.IsZero():
		// The main loop checks again at each tick, so no event is missed meanwhile.
		h.waits.Wait(key, engine.Drivers, h.waits.Mark())
	default:
		h.waits.WaitUntil(key, engine.Drivers, onClock(until, h.clock.Now()))
	}
}

// blockSingleDriver is like blockDriver, for a pod that is scheduled by itself. A blocked driver
// waits for no turn, and its condition has the reason.
func (h *Scheduler) blockSingleDriver(pod *corev1.Pod) gang.Verdict {
	if _, ok := h.driverOf(pod); !ok {
		return gang.Verdict{}
	}
	v := h.blockDriver(pod)
	if v != (gang.Verdict{}) {
		h.turns.Forget(podKey(pod))
	}
	h.setBlocked(pod, v)
	return v
}

// blockGangDrivers is like blockDriver, for the waiting members of a gang.
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

// rejectDriver ends the cycle of a driver that passed PreEnqueue at the same time as other drivers.
func (p *Plugin) rejectDriver(state fwk.CycleState, v gang.Verdict) *fwk.Status {
	state.Write(rejectionKey, rejection{driversInTheWay})
	return fwk.NewStatus(fwk.Unschedulable, v.Message)
}

// BlockedDriver returns the reason why the bound on drivers blocks a driver; the zero Verdict for
// other pods. Any goroutine may call it.
func (h *Scheduler) BlockedDriver(pod *corev1.Pod) gang.Verdict {
	v, _ := h.driversAhead(pod, h.countingDrivers)
	return v
}

// touchDrivers requests a check of the blocked drivers if a pod is a driver or a worker.
func (h *Scheduler) touchDrivers(pod *corev1.Pod) {
	if !h.waits.Awaits(engine.Drivers) {
		return
	}
	if _, isMember := h.groupOf(pod); !isMember && !gang.ConcernsDrivers(pod, h.derived) {
		return
	}
	select {
	case h.driversChanged <- struct{}{}:
	default:
	}
}

// retryDrivers retries drivers that are not blocked any more, and updates the message of the
// others.
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
		pod, ok := h.podOf(key)
		if !ok || !h.awaitsPlace(pod) {
			h.waits.Resolve(key, engine.Drivers)
			continue
		}
		v, until := h.driversAhead(pod, counting)
		h.awaitDrivers(key, v, until)
		if v == (gang.Verdict{}) {
			// The gate updates the pod's condition.
			h.retryNow(key)
			continue
		}
		h.setBlocked(pod, v)
	}
}

// retryDriverGang is retryDrivers for a gang.
func (h *Scheduler) retryDriverGang(key workload.Key, counting func(scope) []countingDriver) {
	members := h.members(nameOf(key))
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
	h.retryNow(key)
}
