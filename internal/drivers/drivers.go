package drivers

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/workload"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// Bounds blocks a driver while the maximum number of other drivers lack workers. Use [New] to
// create a value. It is safe for concurrent use.
type Bounds struct {
	index      *cluster.Index
	placements *cluster.Placements
	ledger     *cluster.Ledger
	gangs      *engine.Gangs
	records    *engine.Pods
	reserved   *engine.Reservations
	waits      *engine.Waits
	turns      *admission.List
	clock      clock.PassiveClock
	retries    Retrier
	// changed has a value if the blocked drivers must be checked.
	changed chan struct{}
}

// Retrier retries workloads that are no longer blocked.
type Retrier interface {
	// Retry retries a workload at once.
	Retry(key workload.Key)
}

// New returns the Bounds for the drivers in the layers of a cluster. e has the records of
// workloads.
func New(index *cluster.Index, placements *cluster.Placements, ledger *cluster.Ledger, e *engine.Engine, clk clock.PassiveClock, retries Retrier) *Bounds {
	return &Bounds{
		index: index, placements: placements, ledger: ledger, gangs: e.Gangs, records: e.Pods, reserved: e.Reservations, waits: e.Waits,
		turns: e.Turns, clock: clk, retries: retries, changed: make(chan struct{}, 1),
	}
}

// Changed returns a channel that has a value if the blocked drivers must be checked; see
// [Bounds.Retry].
func (d *Bounds) Changed() <-chan struct{} { return d.changed }

// scope is a set of drivers with a common bound: the drivers of a queue, or the drivers of a
// namespace that are in no queue.
type scope struct{ queue, namespace string }

func (s scope) String() string {
	if s.queue != "" {
		return fmt.Sprintf("Queue %q", s.queue)
	}
	return "namespace " + s.namespace
}

func (d *Bounds) scopeOf(pod *corev1.Pod) scope {
	if name := d.ledger.QueueOf(pod); name != "" {
		return scope{queue: name}
	}
	return scope{namespace: pod.Namespace}
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

// counting lists the drivers of a scope that lack workers. Each has a place, or may be tried
// soon.
func (d *Bounds) counting(of scope) []countingDriver {
	now := d.clock.Now()
	var out []countingDriver
	for _, pod := range d.index.Lister.Drivers(of.namespace) {
		if pod.DeletionTimestamp != nil {
			continue
		}
		lead, ok := d.index.DriverOf(pod)
		if !ok || d.scopeOf(pod) != of {
			continue
		}
		have, all := d.index.WorkersOf(pod, lead)
		if have >= lead.Workers {
			continue
		}
		counting := countingDriver{pod: pod, priority: d.index.PriorityOf(pod), placed: d.hasPlace(pod)}
		switch {
		case pod.Spec.NodeName != "":
			counting.until = d.countsUntil(pod, all > 0)
			if !counting.until.After(now) {
				continue
			}
		case !counting.placed && !d.mayBeTried(pod):
			continue
		}
		out = append(out, counting)
	}
	return out
}

// hasPlace reports whether a driver has a node or a reservation.
func (d *Bounds) hasPlace(pod *corev1.Pod) bool {
	key := d.index.KeyOf(pod)
	return pod.Spec.NodeName != "" || d.records.IsAssumed(string(pod.UID)) || len(d.reserved.Of(key)) > 0 || d.waits.Evicting(key)
}

// mayBeTried reports whether a driver without a place is likely to be tried soon. It is false for a
// driver that found no room or failed in its last attempt.
func (d *Bounds) mayBeTried(pod *corev1.Pod) bool {
	if len(pod.Spec.SchedulingGates) > 0 {
		return false
	}
	if c := cluster.ScheduledCondition(pod); c != nil && c.Status == corev1.ConditionFalse &&
		c.Reason != v1alpha1.ReasonDriversWithoutWorkers && c.Reason != v1alpha1.ReasonPending {
		return false
	}
	return !d.placements.IsBlockedByGroup(pod) && d.index.GatedBy(pod) == "" && (!d.ledger.AsksForQueues() || d.ledger.ClaimOf(pod).Bar == gang.Verdict{})
}

// countsUntil returns the time until which a driver with a node, but with too few workers, counts
// for the bound. hasCreated is true if the driver has created any worker.
func (d *Bounds) countsUntil(pod *corev1.Pod, hasCreated bool) time.Time {
	args := d.index.Profiles.Of(pod.Spec.SchedulerName).Drivers
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

// ahead returns the reason why a driver is blocked, and the time when the block ends at the
// latest. The Verdict is zero for a pod that is not blocked. The time is zero if it is not known.
// counting lists the drivers of a scope that lack workers.
func (d *Bounds) ahead(pod *corev1.Pod, counting func(scope) []countingDriver) (gang.Verdict, time.Time) {
	lead, ok := d.index.DriverOf(pod)
	if !ok || d.hasPlace(pod) {
		return gang.Verdict{}, time.Time{}
	}
	if _, all := d.index.WorkersOf(pod, lead); all > 0 {
		// The driver has created workers already, so blocking it would not keep room free for them.
		return gang.Verdict{}, time.Time{}
	}
	of, priority, bound := d.scopeOf(pod), d.index.PriorityOf(pod), int(*d.index.Profiles.Of(pod.Spec.SchedulerName).Drivers.WithoutWorkers)
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

// endOf returns the time when the given number of drivers no longer count for the bound. Events may
// make them stop earlier. The result is zero if the time is not known.
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

// block returns the reason why a driver is blocked, and adds it to the waiting list as a cause. It
// returns the zero Verdict for pods that are no drivers or are not blocked.
func (d *Bounds) block(pod *corev1.Pod) gang.Verdict {
	if _, ok := d.index.DriverOf(pod); !ok {
		return gang.Verdict{}
	}
	v, until := d.ahead(pod, d.counting)
	d.await(d.index.KeyOf(pod), v, until)
	return v
}

// await adds the cause engine.Drivers to a workload, until the given time. It removes the cause if
// the Verdict is zero.
func (d *Bounds) await(key workload.Key, v gang.Verdict, until time.Time) {
	switch {
	case v == gang.Verdict{}:
		d.waits.Resolve(key, engine.Drivers)
	case until.IsZero():
		// The time is not known. The main loop repeats the check at each tick, so no event is
		// missed.
		d.waits.Wait(key, engine.Drivers, d.waits.Mark())
	default:
		d.waits.WaitUntil(key, engine.Drivers, engine.OnClock(until, d.clock.Now()))
	}
}

// BlockSingle is block for a pod without a gang. A blocked driver gives up its turn, and the reason
// is written to its condition.
func (d *Bounds) BlockSingle(pod *corev1.Pod) gang.Verdict {
	if _, ok := d.index.DriverOf(pod); !ok {
		return gang.Verdict{}
	}
	v := d.block(pod)
	if v != (gang.Verdict{}) {
		d.turns.Forget(gang.KeyOfPod(pod))
	}
	d.SetBlocked(pod, v)
	return v
}

// BlockGang is block for the pending members of a gang.
func (d *Bounds) BlockGang(members *gang.Members) gang.Verdict {
	for _, pod := range members.Pending {
		if members.Reserved.Has(pod.UID) {
			continue
		}
		if v := d.block(pod); v != (gang.Verdict{}) {
			return v
		}
	}
	return gang.Verdict{}
}

// Blocked is like block, but does not change the waiting list. Any goroutine may call it.
func (d *Bounds) Blocked(pod *corev1.Pod) gang.Verdict {
	v, _ := d.ahead(pod, d.counting)
	return v
}

// Touch puts a value into the channel of [Bounds.Changed] if a pod is a driver or a worker.
func (d *Bounds) Touch(pod *corev1.Pod) {
	if !d.waits.Awaits(engine.Drivers) {
		return
	}
	if _, isMember := d.index.GroupOf(pod); !isMember && !gang.ConcernsDrivers(pod, d.index.Derived) {
		return
	}
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// Retry retries the drivers that are no longer blocked, and updates the messages of the blocked
// drivers. Call it at intervals, and when [Bounds.Changed] has a value.
func (d *Bounds) Retry() {
	known := make(map[scope][]countingDriver)
	counting := func(of scope) []countingDriver {
		found, ok := known[of]
		if !ok {
			found = d.counting(of)
			known[of] = found
		}
		return found
	}
	for _, key := range d.waits.Waiting(engine.Drivers) {
		if key.Gang {
			d.retryGang(key, counting)
			continue
		}
		pod, ok := d.index.PodOf(key)
		if !ok || !d.index.AwaitsPlace(pod) {
			d.waits.Resolve(key, engine.Drivers)
			continue
		}
		v, until := d.ahead(pod, counting)
		d.await(key, v, until)
		if v == (gang.Verdict{}) {
			// The gate updates the pod's condition.
			d.retries.Retry(key)
			continue
		}
		d.SetBlocked(pod, v)
	}
}

// retryGang is retry for a gang.
func (d *Bounds) retryGang(key workload.Key, counting func(scope) []countingDriver) {
	members := d.placements.Members(gang.NameOf(key))
	for _, pod := range members.Pending {
		if members.Reserved.Has(pod.UID) {
			continue
		}
		v, until := d.ahead(pod, counting)
		if v == (gang.Verdict{}) {
			continue
		}
		d.await(key, v, until)
		if d.gangs.Verdict(key).Reason == v1alpha1.ReasonDriversWithoutWorkers {
			d.gangs.SetVerdict(key, v)
		}
		return
	}
	d.waits.Resolve(key, engine.Drivers)
	d.retries.Retry(key)
}

// SetBlocked records why a single pod is gated, so that its condition reports it. The zero Verdict
// means that the pod is not gated.
func (d *Bounds) SetBlocked(pod *corev1.Pod, v gang.Verdict) {
	if v == (gang.Verdict{}) {
		d.records.Unblocked(string(pod.UID))
		return
	}
	d.records.Blocked(string(pod.UID), gang.KeyOfPod(pod), v)
}
