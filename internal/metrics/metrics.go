// Package metrics holds what Reprieve measures of itself, beside what kube-scheduler does. Durations are in
// seconds, labels have few values: no UID, and no name of a pod or job.
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

// Operation is what a goroutine of Reprieve does off the scheduling cycle (KEP-4832, "Monitoring Requirements").
type Operation string

const (
	// Preemption makes the calls that carry a decision out.
	Preemption Operation = "preemption"
	// Completion finishes the preemption of a group that somebody began and did not finish.
	Completion Operation = "preemption_completion"
)

// Result is how an operation ended.
type Result string

const (
	// Success: everything was done that had to be.
	Success Result = "success"
	// Failure: a call failed.
	Failure Result = "error"
	// Abandoned: the preemptor had no more use for it.
	Abandoned Result = "abandoned"
)

// PreemptorType tells pods from gangs.
type PreemptorType string

const (
	// Pod is a single pod.
	Pod PreemptorType = "pod"
	// Gang is a gang, whose attempts count once, whatever its size.
	Gang PreemptorType = "gang"
)

// Attempt is what came of looking for room for a preemptor.
type Attempt string

const (
	// Fits: there is room, or will be when those have left who are leaving anyway.
	Fits Attempt = "fits"
	// Preempts: others have to go.
	Preempts Attempt = "preempts"
	// Infeasible: nothing that may be taken would help.
	Infeasible Attempt = "infeasible"
	// Broken: the search itself failed.
	Broken Attempt = "error"
)

// Refusal tells whether a plan has been refused for the first time, or just as it was before.
type Refusal string

const (
	// FirstTime: something has changed since the plan was made, as a rule.
	FirstTime Refusal = "first"
	// Repeated: so was the next plan, for the same nodes. It is a fault, in Reprieve or in a filter.
	Repeated Refusal = "repeated"
)

// Writing is what became of a decision on its way to the file of the decision log.
type Writing string

const (
	// Written: it is in the file.
	Written Writing = "written"
	// Dropped: it was left out, because too many waited to be written.
	Dropped Writing = "dropped"
	// Unwritable: the file could not be written.
	Unwritable Writing = "unwritable"
)

// Metrics are the metrics of one process. Nothing is recorded until they are registered. All methods are safe
// for concurrent use.
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
	// gangSince is since when the oldest gang waits; zero for none.
	gangSince time.Time
	// profiles and resources are those that what is lost is counted of.
	profiles, resources map[string]bool
}

// New makes the metrics of a process.
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

// Malformed records how many PriorityClasses have a toleration that cannot be read, or are missing.
func (m *Metrics) Malformed(classes int) { m.malformed.Set(float64(classes)) }

// Orphaned records how many pods on a node name a Queue that cannot have them.
func (m *Metrics) Orphaned(pods int) { m.orphaned.Set(float64(pods)) }

// Waiting records how many gangs and single pods wait for the turn of their queue.
func (m *Metrics) Waiting(workloads int) { m.waiting.Set(float64(workloads)) }

// Promised records to how many pods room is promised, and for how long the oldest of them could have taken it up.
func (m *Metrics) Promised(pods int, oldest time.Duration) {
	m.reservations.Set(float64(pods))
	m.oldestReservation.Set(oldest.Seconds())
}

// PreemptedAgain records that a PodGroup was preempted within an hour of its last preemption.
func (m *Metrics) PreemptedAgain() { m.preemptedAgain.WithLabelValues().Inc() }

// OldestGang records since when the oldest gang has waited for nodes; zero for none. The figure
// follows the time with [Metrics.At].
func (m *Metrics) OldestGang(since time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gangSince = since
}

// At brings the figures that age up to a moment.
func (m *Metrics) At(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	age := time.Duration(0)
	if !m.gangSince.IsZero() {
		age = max(now.Sub(m.gangSince), 0)
	}
	m.oldestGang.Set(age.Seconds())
}

// CallsBounded records how many calls to the API server may be under way at the same time.
func (m *Metrics) CallsBounded(calls int) { m.calls.Set(float64(calls)) }

// Register has all metrics recorded and shown by a registry: legacyregistry.Register in a component,
// a registry of its own in a test.
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

// Ran records that an operation has ended, when it took that long. The profile is "" for work that is for none.
func (m *Metrics) Ran(op Operation, result Result, profile string, took time.Duration) {
	m.goroutineDuration.WithLabelValues(string(op), string(result), profile).Observe(took.Seconds())
	m.goroutineExecution.WithLabelValues(string(op), string(result), profile).Inc()
}

// Attempted records what came of a search for room.
func (m *Metrics) Attempted(who PreemptorType, came Attempt, profile string) {
	m.attempts.WithLabelValues(string(who), string(came), profile).Inc()
}

// Unconfirmed records that a plan of a gang could not be carried out.
func (m *Metrics) Unconfirmed(r Refusal) { m.unconfirmed.WithLabelValues(string(r)).Inc() }

// Unbound records preemptions whose preemptor was not bound.
func (m *Metrics) Unbound(who PreemptorType, preemptions int, profile string) {
	m.unbound.WithLabelValues(string(who), profile).Add(float64(preemptions))
}

// Decided records how long a search for room took.
func (m *Metrics) Decided(who PreemptorType, profile string, took time.Duration) {
	m.decision.WithLabelValues(string(who), profile).Observe(took.Seconds())
}

// Recorded records what became of a decision on its way to the file of the decision log.
func (m *Metrics) Recorded(w Writing) { m.recorded.WithLabelValues(string(w)).Inc() }

// Took records how many pods one preemption has taken; what has taken none is not recorded.
func (m *Metrics) Took(pods int, profile string) {
	m.victims.WithLabelValues(profile).Observe(float64(pods))
}

// Lost records that a pod which has run for that long, with these requests, has been evicted.
func (m *Metrics) Lost(requests corev1.ResourceList, ran time.Duration, profile string) {
	for name, quantity := range requests {
		m.lost.WithLabelValues(string(name), profile).Add(quantity.AsApproximateFloat64() * max(0, ran.Seconds()))
	}
}
