// Package metrics holds the metrics of Reprieve, in addition to the metrics of kube-scheduler.
// Durations are in seconds. Labels have few values: no UIDs, and no names of pods or jobs.
package metrics

import (
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	k8smetrics "k8s.io/component-base/metrics"
)

const namespace = "reprieve"

// Operation is an operation that Reprieve runs outside the scheduling cycle (KEP-4832, "Monitoring
// Requirements").
type Operation string

const (
	// Preemption makes the API calls that apply a decision.
	Preemption Operation = "preemption"
	// Completion completes the preemption of a group that was interrupted.
	Completion Operation = "preemption_completion"
)

// Result is the result of an operation.
type Result string

const (
	// Success: all steps are done.
	Success Result = "success"
	// Failure: a call failed.
	Failure Result = "error"
	// Abandoned: the preemptor no longer needs the operation.
	Abandoned Result = "abandoned"
)

// PreemptorType distinguishes pods from gangs.
type PreemptorType string

const (
	// Pod is a single pod.
	Pod PreemptorType = "pod"
	// Gang is a gang. Its attempts count once, regardless of its size.
	Gang PreemptorType = "gang"
)

// Attempt is the result of a search for room for a preemptor.
type Attempt string

const (
	// Fits: there is room, or there will be once the terminating pods are gone.
	Fits Attempt = "fits"
	// Preempts: the search found victims.
	Preempts Attempt = "preempts"
	// Infeasible: no permitted eviction would help.
	Infeasible Attempt = "infeasible"
	// Broken: the search itself failed.
	Broken Attempt = "error"
)

// Refusal tells whether a gang's plan failed for the first time or repeatedly.
type Refusal string

const (
	// FirstTime: usually, something has changed since the plan was made.
	FirstTime Refusal = "first"
	// Repeated: the next plan, for the same nodes, failed too. This is a fault of Reprieve or of a
	// filter.
	Repeated Refusal = "repeated"
)

// Writing is the result of writing a decision to the file of the decision log.
type Writing string

const (
	// Written: the decision is in the file.
	Written Writing = "written"
	// Dropped: the decision was dropped because too many decisions were waiting.
	Dropped Writing = "dropped"
	// Unwritable: the file could not be written.
	Unwritable Writing = "unwritable"
)

// Metrics holds the metrics of one process. They record nothing until they are registered. All
// methods are safe for concurrent use.
type Metrics struct {
	goroutineDuration  *k8smetrics.HistogramVec
	goroutineExecution *k8smetrics.CounterVec
	attempts           *k8smetrics.CounterVec
	victims            *k8smetrics.HistogramVec
	decision           *k8smetrics.HistogramVec
	unconfirmed        *k8smetrics.CounterVec
	unbound            *k8smetrics.CounterVec
	malformed          *k8smetrics.Gauge
	orphaned           *k8smetrics.Gauge
	waiting            *k8smetrics.Gauge
	reservations       *k8smetrics.Gauge
	oldestReservation  *k8smetrics.Gauge
	calls              *k8smetrics.Gauge
	recorded           *k8smetrics.CounterVec
	lost               *k8smetrics.CounterVec
	held               *k8smetrics.GaugeVec
	preemptedAgain     *k8smetrics.CounterVec
	oldestGang         *k8smetrics.Gauge
	queues             *queueGauges

	mu sync.Mutex
	// gangSince is the time when the oldest gang began to wait; zero for none.
	gangSince time.Time
	// profiles and resources are the label values of the metric lost.
	profiles, resources map[string]bool
}

// New returns the metrics of a process.
func New() *Metrics {
	return &Metrics{
		goroutineDuration: histogram("goroutines_duration_seconds",
			"How long work off the scheduling cycle took, by operation and result.",
			k8smetrics.ExponentialBuckets(0.001, 2, 18), "operation", "result", "profile"),
		goroutineExecution: counter("goroutines_execution_total",
			"How often work off the scheduling cycle was done, by operation and result.",
			"operation", "result", "profile"),
		attempts: counter("preemption_attempts_total",
			"Searches for room for a pod or gang that did not fit, by what came of them.",
			"preemptor", "result", "profile"),
		victims: histogram("preemption_victims",
			"Pods that one preemption has taken, all units together.",
			k8smetrics.ExponentialBuckets(1, 2, 13), "profile"),
		decision: histogram("preemption_decision_seconds",
			"How long it took to find out where a pod or gang that did not fit goes, and who has to leave.",
			k8smetrics.ExponentialBuckets(0.0001, 2, 16), "preemptor", "profile"),
		unconfirmed: counter("gang_plans_unconfirmed_total",
			"Plans of gangs of which a member was refused where it was to go: for the first time, or repeatedly for the same plan, which is a fault.",
			"refusal"),
		unbound: counter("preemptions_without_binding_total",
			"Preemptions whose preemptor was not bound: the room was made, and Reserve, Permit, PreBind or Bind failed.",
			"preemptor", "profile"),
		malformed: gauge("malformed_preemption_tolerations",
			"PriorityClasses whose preemption toleration cannot be read: malformed ones, which have none, and missing ones that pods on nodes name."),
		orphaned: gauge("queue_orphaned_pods",
			"Pods on a node that name a Queue which is gone, has others below it, or cannot be used; they count for no queue."),
		waiting: gauge("queue_waiting",
			"Gangs and single pods of all queues that wait for their turn."),
		reservations: gauge("reservations",
			"Pods that room on a node is promised to, and that are not there yet."),
		oldestReservation: gauge("oldest_reservation_seconds",
			"For how long the oldest promise of room has not been taken up, from when nothing more is on its way out for it; 0 for none."),
		calls: gauge("api_calls_bound",
			"Calls to the API server that may be under way at the same time, by what it can take; 0 where a rate is configured."),
		recorded: counter("decision_records_total",
			"Decisions for the file of --decision-log, by what became of them on their way there.",
			"writing"),
		lost: counter("preempted_resource_seconds_total",
			"What evicted pods had requested, times how long they had run: the work that is lost where none of it was saved.",
			"resource", "profile"),
		preemptedAgain: counter("groups_preempted_again_total",
			"PodGroups that were preempted within an hour of their last preemption."),
		oldestGang: gauge("oldest_pending_gang_seconds",
			"For how long the oldest gang has waited whose members all exist, and of which fewer than minCount have a node; 0 for none."),
		held:     newHeld(),
		queues:   newQueueGauges(),
		profiles: map[string]bool{}, resources: map[string]bool{},
	}
}

func counter(name, help string, labels ...string) *k8smetrics.CounterVec {
	return k8smetrics.NewCounterVec(&k8smetrics.CounterOpts{Namespace: namespace, Name: name, Help: help, StabilityLevel: k8smetrics.ALPHA}, labels)
}

func gauge(name, help string) *k8smetrics.Gauge {
	return k8smetrics.NewGauge(&k8smetrics.GaugeOpts{Namespace: namespace, Name: name, Help: help, StabilityLevel: k8smetrics.ALPHA})
}

func histogram(name, help string, buckets []float64, labels ...string) *k8smetrics.HistogramVec {
	return k8smetrics.NewHistogramVec(&k8smetrics.HistogramOpts{
		Namespace: namespace, Name: name, Help: help, Buckets: buckets, StabilityLevel: k8smetrics.ALPHA,
	}, labels)
}

// Malformed records how many PriorityClasses have an unreadable toleration or are missing.
func (m *Metrics) Malformed(classes int) { m.malformed.Set(float64(classes)) }

// Orphaned records how many pods on nodes name a Queue that they cannot count for.
func (m *Metrics) Orphaned(pods int) { m.orphaned.Set(float64(pods)) }

// Waiting records how many gangs and single pods wait for the turn of their queue.
func (m *Metrics) Waiting(workloads int) { m.waiting.Set(float64(workloads)) }

// Promised records the number of pods with a reservation, and the age of the oldest one. The age
// counts from the time when no victims are pending for the reservation.
func (m *Metrics) Promised(pods int, oldest time.Duration) {
	m.reservations.Set(float64(pods))
	m.oldestReservation.Set(oldest.Seconds())
}

// PreemptedAgain records that a PodGroup was preempted within an hour of its last preemption.
func (m *Metrics) PreemptedAgain() { m.preemptedAgain.WithLabelValues().Inc() }

// OldestGang records the time when the oldest gang began to wait for nodes; zero for none.
// [Metrics.At] computes the gauge from that time.
func (m *Metrics) OldestGang(since time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gangSince = since
}

// At sets the gauges that grow with time to their values at now.
func (m *Metrics) At(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	age := time.Duration(0)
	if !m.gangSince.IsZero() {
		age = max(now.Sub(m.gangSince), 0)
	}
	m.oldestGang.Set(age.Seconds())
}

// CallsBounded records how many calls to the API server may run at the same time.
func (m *Metrics) CallsBounded(calls int) { m.calls.Set(float64(calls)) }

// Register registers all metrics with a registry: legacyregistry.Register in a component, or a
// separate registry in a test. If no registration fails, it also creates the series that do not
// depend on a profile.
func (m *Metrics) Register(register func(k8smetrics.Registerable) error) error {
	var errs []error
	for _, metric := range []k8smetrics.Registerable{m.goroutineDuration, m.goroutineExecution, m.attempts, m.victims, m.decision, m.unconfirmed, m.unbound, m.malformed, m.orphaned, m.waiting, m.reservations, m.oldestReservation, m.calls, m.recorded, m.lost, m.held, m.preemptedAgain, m.oldestGang, m.queues.pending, m.queues.allocated, m.queues.fairShare, m.queues.missing} {
		if err := register(metric); err != nil {
			errs = append(errs, fmt.Errorf("register metric %s: %w", metric.FQName(), err))
		}
	}
	if len(errs) == 0 {
		m.beginAtZero()
	}
	return errors.Join(errs...)
}

// Ran records that an operation has ended, and its duration. The profile is "" for operations
// without a profile.
func (m *Metrics) Ran(op Operation, result Result, profile string, took time.Duration) {
	m.goroutineDuration.WithLabelValues(string(op), string(result), profile).Observe(took.Seconds())
	m.goroutineExecution.WithLabelValues(string(op), string(result), profile).Inc()
}

// Attempted records the result of a search for room.
func (m *Metrics) Attempted(who PreemptorType, came Attempt, profile string) {
	m.attempts.WithLabelValues(string(who), string(came), profile).Inc()
}

// Unconfirmed records that a member of a gang failed on the node of its plan.
func (m *Metrics) Unconfirmed(r Refusal) { m.unconfirmed.WithLabelValues(string(r)).Inc() }

// Unbound records preemptions whose preemptor was not bound.
func (m *Metrics) Unbound(who PreemptorType, preemptions int, profile string) {
	m.unbound.WithLabelValues(string(who), profile).Add(float64(preemptions))
}

// Decided records the duration of a search for room.
func (m *Metrics) Decided(who PreemptorType, profile string, took time.Duration) {
	m.decision.WithLabelValues(string(who), profile).Observe(took.Seconds())
}

// Recorded records the result of writing a decision to the file of the decision log.
func (m *Metrics) Recorded(w Writing) { m.recorded.WithLabelValues(string(w)).Inc() }

// Took records how many pods one preemption evicted. Callers leave out preemptions that evicted no
// pod.
func (m *Metrics) Took(pods int, profile string) {
	m.victims.WithLabelValues(profile).Observe(float64(pods))
}

// Lost records the eviction of a pod with these requests that had run for that long.
func (m *Metrics) Lost(requests corev1.ResourceList, ran time.Duration, profile string) {
	for name, quantity := range requests {
		m.lost.WithLabelValues(string(name), profile).Add(quantity.AsApproximateFloat64() * max(0, ran.Seconds()))
	}
}
