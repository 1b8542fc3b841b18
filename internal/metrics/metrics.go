// Package metrics defines the metrics of Reprieve, in addition to the metrics of kube-scheduler.
// Durations are in seconds. Labels have few values: no UIDs, and no names of pods or jobs.
package metrics

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	k8smetrics "k8s.io/component-base/metrics"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

const namespace = "reprieve"

// Operation is an operation that Reprieve runs in a goroutine outside the scheduling cycle.
// KEP-4832 describes it under "Monitoring Requirements".
type Operation string

const (
	// Preemption is the operation that makes the API calls of a decision: it evicts the victims.
	Preemption Operation = "preemption"
	// Completion is the operation that completes the interrupted preemption of a group.
	Completion Operation = "preemption_completion"
)

// Result is the result of an operation.
type Result string

const (
	// Success: all steps are done.
	Success Result = "success"
	// Failure: an API call failed.
	Failure Result = "error"
	// Abandoned: the operation stopped because the preemptor no longer needs it.
	Abandoned Result = "abandoned"
)

// PreemptorType distinguishes single pods from gangs.
type PreemptorType string

const (
	// Pod is a single pod.
	Pod PreemptorType = "pod"
	// Gang is a gang. One attempt of a gang counts once, regardless of the number of members.
	Gang PreemptorType = "gang"
)

// Attempt is the result of a search for room for a preemptor.
type Attempt string

const (
	// Fits: there is enough room now, or after the terminating pods are gone.
	Fits Attempt = "fits"
	// Preempts: the search found victims.
	Preempts Attempt = "preempts"
	// Infeasible: no permitted eviction makes enough room.
	Infeasible Attempt = "infeasible"
	// Broken: the search returned an error.
	Broken Attempt = "error"
)

// PlanFailure distinguishes the first failure of a gang's plan from repeated failures.
type PlanFailure string

const (
	// FirstTime: the plan failed once. Usually, the cluster has changed since the decision.
	FirstTime PlanFailure = "first"
	// Repeated: the next plan failed too, for the same nodes. This shows a fault of Reprieve or of
	// a filter.
	Repeated PlanFailure = "repeated"
)

// Writing is the result of writing a decision to the decision log.
type Writing string

const (
	// Written: the decision is in the file.
	Written Writing = "written"
	// Dropped: the decision was not written, because too many decisions were waiting.
	Dropped Writing = "dropped"
	// Unwritable: writing to the file failed.
	Unwritable Writing = "unwritable"
)

// Metrics holds the metrics of one process. They record nothing until Register is called. All
// methods are safe for concurrent use.
type Metrics struct {
	catalog catalog

	attempts           *k8smetrics.CounterVec
	decision           *k8smetrics.HistogramVec
	victims            *k8smetrics.HistogramVec
	unbound            *k8smetrics.CounterVec
	unconfirmed        *k8smetrics.CounterVec
	goroutineExecution *k8smetrics.CounterVec
	goroutineDuration  *k8smetrics.HistogramVec
	malformed          *k8smetrics.Gauge
	orphaned           *k8smetrics.Gauge
	keptPods           *k8smetrics.Gauge
	longestStep        *k8smetrics.Gauge
	waiting            *k8smetrics.Gauge
	queues             *queueGauges
	oldestGang         *k8smetrics.Gauge
	preemptedAgain     *k8smetrics.CounterVec
	badAnnotations     *k8smetrics.CounterVec
	lost               *k8smetrics.CounterVec
	lostWork           *k8smetrics.CounterVec
	held               *k8smetrics.GaugeVec
	reservations       *k8smetrics.Gauge
	oldestReservation  *k8smetrics.Gauge
	calls              *k8smetrics.Gauge
	recorded           *k8smetrics.CounterVec

	mu sync.Mutex
	// gangSince is the time since which the oldest waiting gang has waited; zero if no gang waits.
	gangSince time.Time
	// profiles and resources hold the known label values of the metric lost.
	profiles, resources map[string]bool
}

// New returns the metrics of a process.
func New() *Metrics {
	m := &Metrics{profiles: map[string]bool{}, resources: map[string]bool{}}
	c := &m.catalog
	m.defineDecisions(c)
	m.definePreemptions(c)
	m.malformed = c.gauge(Description{
		Name:   "malformed_preemption_tolerations",
		Help:   "PriorityClasses with a toleration that cannot be parsed, and missing PriorityClasses that running pods or their PodGroups name.",
		Advice: "Alert if it is not 0.",
	})
	m.orphaned = c.gauge(Description{
		Name: "queue_orphaned_pods",
		Help: "Pods on a node that name a Queue which cannot contain them; they count for no queue.",
	})
	m.longestStep = c.gauge(Description{
		Name:   "longest_step_seconds",
		Help:   "Time that the longest turn of the main loop or decision under way had taken at the last probe of /livez; 0 if none was under way.",
		Advice: "Alert if it is above 60. /livez fails from 120 on.",
	})
	m.keptPods = c.gauge(Description{
		Name: "queue_deleted_pods",
		Help: "Pods on a node that keep their place in a Queue for now although it, or a Queue above it, was deleted.",
	})
	m.waiting = c.gauge(Description{
		Name: "queue_waiting",
		Help: "Gangs and single pods of all queues that wait for their turn.",
	})
	m.queues = newQueueGauges(c)
	m.defineGroups(c)
	m.defineReservations(c)
	m.calls = c.gauge(Description{
		Name:   "api_calls_bound",
		Help:   "Maximum number of concurrent calls to the API server; 0 if a rate is configured.",
		Advice: "If it stays low, this scheduler or other clients load the API server.",
	})
	m.recorded = c.counter(Description{
		Name:   "decision_records_total",
		Help:   "Decisions, and ends of waits, for the file of --decision-log, if configured.",
		Advice: "[decisions.md](decisions.md) describes the file. Alert on `dropped` and `unwritable`: the record has gaps.",
		Labels: []Label{closed("writing", Written, Dropped, Unwritable)},
	})
	return m
}

func (m *Metrics) defineDecisions(c *catalog) {
	preemptor := closed("preemptor", Pod, Gang)
	m.attempts = c.counter(Description{
		Name: "preemption_attempts_total",
		Help: "Searches for victims, for work that does not fit.",
		Advice: "A pod gets the previous answer without a search if nothing has changed since an equal pod failed. " +
			"Many with `infeasible`: the cluster is full of protected work. Any with `error`: see the log.",
		Labels: []Label{preemptor, closed("result", Fits, Preempts, Infeasible, Broken), open(profileLabel)},
	})
	m.decision = c.histogram(Description{
		Name:   "preemption_decision_seconds",
		Help:   "Duration of a search.",
		Advice: "It is part of the scheduling cycle, so a search of seconds delays all pods.",
		Labels: []Label{preemptor, open(profileLabel)},
	}, k8smetrics.ExponentialBuckets(0.0001, 2, 16))
	m.victims = c.histogram(Description{
		Name:   "preemption_victims",
		Help:   "Pods that one preemption has evicted.",
		Advice: "A preemption that failed before its first eviction is not counted.",
		Labels: []Label{open(profileLabel)},
	}, k8smetrics.ExponentialBuckets(1, 2, 13))
	m.unbound = c.counter(Description{
		Name: "preemptions_without_binding_total",
		Help: "Preemptions whose preemptor was not bound: the victims terminated, and Reserve, Permit, PreBind or Bind failed.",
		Advice: "[The preemptor reports the cause](#a-preemptor-is-not-bound), and backs off. " +
			"Alert on more than one in 90 minutes.",
		Labels: []Label{preemptor, open(profileLabel)},
	})
	m.unconfirmed = c.counter(Description{
		Name:   "gang_plans_unconfirmed_total",
		Help:   "Plans of gangs with a member that was rejected on its planned node.",
		Advice: "Alert on `repeated`: it is a fault.",
		Labels: []Label{closed("refusal", FirstTime, Repeated)},
	})
}

// definePreemptions defines the metrics of API calls outside the scheduling cycle. The series of
// [Completion] have an empty profile, so beginAll does not create them for each profile.
func (m *Metrics) definePreemptions(c *catalog) {
	labels := []Label{closed("operation", Preemption), closed("result", Success, Failure, Abandoned), open(profileLabel)}
	m.goroutineExecution = c.counter(Description{
		Name:   "goroutines_execution_total",
		Help:   "Evictions that were carried out.",
		Advice: "Alert on `error` that persists.",
		Labels: labels,
	})
	m.goroutineDuration = c.histogram(Description{
		Name:   "goroutines_duration_seconds",
		Help:   "Duration of the API calls of an eviction.",
		Advice: "Long ones: the API server (`reprieve_api_calls_bound`), or a configured `clientConnection.qps`.",
		Labels: labels,
	}, k8smetrics.ExponentialBuckets(0.001, 2, 18))
}

func (m *Metrics) defineGroups(c *catalog) {
	m.oldestGang = c.gauge(Description{
		Name: "oldest_pending_gang_seconds",
		Help: "The time since when the oldest gang has been pending although all its members exist, without gated gangs; 0 for none.",
	})
	m.preemptedAgain = c.counter(Description{
		Name:   "groups_preempted_again_total",
		Help:   "PodGroups that were preempted for another preemptor within an hour of their last preemption.",
		Advice: "Many: the same work is preempted repeatedly.",
	})
	m.lost = c.counter(Description{
		Name: "preempted_resource_seconds_total",
		Help: "Requests of evicted pods, multiplied by their run time.",
		Advice: "`nvidia.com/gpu` divided by 3600 is GPU-hours. Checkpoints do not count, so the real loss is less. " +
			"Pods evicted by the completion of a preemption are not counted.",
		Labels: []Label{open("resource"), open(profileLabel)},
	})
	m.badAnnotations = c.counter(Description{
		Name:   "invalid_annotations_total",
		Help:   "Values of annotations about lost work that have no effect: malformed values, and checkpoints in the future.",
		Advice: "The pods of one owner count once. The event `InvalidAnnotation` of the pod has the value.",
		Labels: []Label{closed("annotation", v1alpha1.AnnotationLastCheckpoint, v1alpha1.AnnotationCheckpointInterval, v1alpha1.AnnotationRestartCost)},
	})
	m.lostWork = c.counter(Description{
		Name: "lost_device_seconds_total",
		Help: "Work that preemptions have discarded: devices, multiplied by the run time since the last checkpoint.",
		Advice: "[cost.md](cost.md#lost-work) defines the lost work. Divide by 3600 for device-hours. " +
			"A series begins with the first loss of its queue and classes.",
		Labels: []Label{open("queue"), open("preemptor_class"), open("victim_class")},
	})
	m.held = c.gauges(Description{
		Name: "held_pods",
		Help: "Pods gated for five seconds or more because of the object that they belong to.",
		Advice: "[groups.md](groups.md#when-pods-wait) explains the reasons. Alert on `OwnerUnknown` or `PodGroupNotMade` that persists: " +
			"all these pods stay pending. The scheduler may lack the right to read a kind or to write PodGroups.",
		Labels: []Label{closed("reason", OwnerUnknown, NotGroupable, PodGroupNotMade, PriorityAbovePods)},
	})
}

func (m *Metrics) defineReservations(c *catalog) {
	m.reservations = c.gauge(Description{
		Name:   "reservations",
		Help:   "Pods with a reservation that are not bound yet.",
		Advice: "If it stays up while no pod is terminating, a reservation is stuck.",
	})
	m.oldestReservation = c.gauge(Description{
		Name:   "oldest_reservation_seconds",
		Help:   "Age of the oldest unused reservation while no pod was terminating for it; 0 for none.",
		Advice: "Alert if it is over an hour.",
	})
}

// Malformed records the number of PriorityClasses with a toleration that cannot be parsed. It
// includes missing PriorityClasses that running pods or their PodGroups name.
func (m *Metrics) Malformed(classes int) { m.malformed.Set(float64(classes)) }

// Orphaned records the number of pods with a node that do not count for the Queue that they name.
func (m *Metrics) Orphaned(pods int) { m.orphaned.Set(float64(pods)) }

// LongestStep records the duration so far of the longest step of the scheduler that is under way.
func (m *Metrics) LongestStep(age time.Duration) { m.longestStep.Set(age.Seconds()) }

// KeptPods records the number of pods with a node that still count for a deleted Queue.
func (m *Metrics) KeptPods(pods int) { m.keptPods.Set(float64(pods)) }

// Waiting records the number of gangs and single pods that wait for their turn in a queue.
func (m *Metrics) Waiting(workloads int) { m.waiting.Set(float64(workloads)) }

// Promised records the number of pods with a reservation, and the age of the oldest reservation.
// The age counts from the time when the reservation's last pending victim was gone.
func (m *Metrics) Promised(pods int, oldest time.Duration) {
	m.reservations.Set(float64(pods))
	m.oldestReservation.Set(oldest.Seconds())
}

// PreemptedAgain records that a PodGroup was preempted less than an hour after its last preemption.
func (m *Metrics) PreemptedAgain() { m.preemptedAgain.WithLabelValues().Inc() }

// BadAnnotation records a value of an annotation about lost work that has no effect. Callers record
// each annotation once for all pods with the same owner.
func (m *Metrics) BadAnnotation(key string) { m.badAnnotations.WithLabelValues(key).Inc() }

// OldestGang records since when the oldest waiting gang has waited; zero if no gang waits.
// [Metrics.At] computes the gauge from that time.
func (m *Metrics) OldestGang(since time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gangSince = since
}

// At updates the gauges that grow with time to their values at the time now.
func (m *Metrics) At(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	age := time.Duration(0)
	if !m.gangSince.IsZero() {
		age = max(now.Sub(m.gangSince), 0)
	}
	m.oldestGang.Set(age.Seconds())
}

// CallsBounded records the maximum number of concurrent calls to the API server.
func (m *Metrics) CallsBounded(calls int) { m.calls.Set(float64(calls)) }

// Register registers all metrics with the function register, for example legacyregistry.Register.
// If every registration succeeds, it also creates the series that do not depend on a profile.
func (m *Metrics) Register(register func(k8smetrics.Registerable) error) error {
	if err := m.catalog.register(register); err != nil {
		return err
	}
	for _, r := range []Result{Success, Failure} {
		m.goroutineDuration.WithLabelValues(string(Completion), string(r), "")
		m.goroutineExecution.WithLabelValues(string(Completion), string(r), "")
	}
	m.LostWork(Parties{}, 0)
	return nil
}

// Serves creates the series of a scheduler profile. Call it after Register, for each profile.
func (m *Metrics) Serves(profile string) {
	m.catalog.serve(profile)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.profiles[profile] = true
	for name := range m.resources {
		m.lost.WithLabelValues(name, profile)
	}
}

// Offers creates the series of the metric lost for the resources of a node, for each profile.
func (m *Metrics) Offers(resources corev1.ResourceList) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range resources {
		// Pods do not request the resource "pods".
		if m.resources[string(name)] || name == corev1.ResourcePods {
			continue
		}
		m.resources[string(name)] = true
		for profile := range m.profiles {
			m.lost.WithLabelValues(string(name), profile)
		}
	}
}

// Ran records the result and the duration of an operation. profile is "" for operations without a
// profile.
func (m *Metrics) Ran(op Operation, result Result, profile string, took time.Duration) {
	m.goroutineDuration.WithLabelValues(string(op), string(result), profile).Observe(took.Seconds())
	m.goroutineExecution.WithLabelValues(string(op), string(result), profile).Inc()
}

// Attempted records the result of a search for room for a preemptor.
func (m *Metrics) Attempted(who PreemptorType, came Attempt, profile string) {
	m.attempts.WithLabelValues(string(who), string(came), profile).Inc()
}

// Unconfirmed records that a member of a gang did not pass its cycle on the planned node.
func (m *Metrics) Unconfirmed(r PlanFailure) { m.unconfirmed.WithLabelValues(string(r)).Inc() }

// Unbound records preemptions whose preemptor was not bound.
func (m *Metrics) Unbound(who PreemptorType, preemptions int, profile string) {
	m.unbound.WithLabelValues(string(who), profile).Add(float64(preemptions))
}

// Decided records the duration of a search for room for a preemptor.
func (m *Metrics) Decided(who PreemptorType, profile string, took time.Duration) {
	m.decision.WithLabelValues(string(who), profile).Observe(took.Seconds())
}

// Recorded records the result of writing a decision to the decision log.
func (m *Metrics) Recorded(w Writing) { m.recorded.WithLabelValues(string(w)).Inc() }

// Took records the number of pods that one preemption evicted. Callers skip preemptions without
// evicted pods.
func (m *Metrics) Took(pods int, profile string) {
	m.victims.WithLabelValues(profile).Observe(float64(pods))
}

// Parties holds the labels of a preemptor and its victim. Callers pass only names of existing
// objects, so that the metric has few series.
type Parties struct {
	// Queue is the leaf queue of the preemptor; "" for none.
	Queue string
	// PreemptorClass is the PriorityClass of the preemptor; "" for none or a deleted class.
	PreemptorClass string
	// VictimClass is the PriorityClass of the victim; "" for none or a deleted class.
	VictimClass string
}

// LostWork records the work that the eviction of a victim discarded, in device-seconds.
func (m *Metrics) LostWork(of Parties, deviceSeconds float64) {
	m.lostWork.WithLabelValues(of.Queue, of.PreemptorClass, of.VictimClass).Add(max(0, deviceSeconds))
}

// Lost records the eviction of a pod that had run for the time ran. For each requested resource,
// the counter grows by quantity times seconds.
func (m *Metrics) Lost(requests corev1.ResourceList, ran time.Duration, profile string) {
	for name, quantity := range requests {
		m.lost.WithLabelValues(string(name), profile).Add(quantity.AsApproximateFloat64() * max(0, ran.Seconds()))
	}
}
