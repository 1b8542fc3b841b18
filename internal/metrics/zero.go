package metrics

import corev1 "k8s.io/api/core/v1"

// Counters start at 0 before their first event. Prometheus sees no increase in a counter that
// appears with its first event. So the first failure would trigger no alert, and the dashboard
// would miss the first events after a restart.

// beginAtZero creates the series that do not depend on a profile.
func (m *Metrics) beginAtZero() {
	for _, r := range []Refusal{FirstTime, Repeated} {
		m.unconfirmed.WithLabelValues(string(r))
	}
	m.preemptedAgain.WithLabelValues()
	for _, w := range []Writing{Written, Dropped, Unwritable} {
		m.recorded.WithLabelValues(string(w))
	}
	for _, r := range []Result{Success, Failure} {
		m.operation(Completion, r, "")
	}
	for _, h := range []Hold{OwnerUnknown, NotGroupable, PodGroupNotMade, PriorityAbovePods} {
		m.Held(string(h), 0)
	}
}

// Serves creates the series of a profile that the process schedules for. Call it after Register.
func (m *Metrics) Serves(profile string) {
	for _, r := range []Result{Success, Failure, Abandoned} {
		m.operation(Preemption, r, profile)
	}
	for _, who := range []PreemptorType{Pod, Gang} {
		for _, came := range []Attempt{Fits, Preempts, Infeasible, Broken} {
			m.attempts.WithLabelValues(string(who), string(came), profile)
		}
		m.decision.WithLabelValues(string(who), profile)
		m.unbound.WithLabelValues(string(who), profile)
	}
	m.victims.WithLabelValues(profile)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.profiles[profile] = true
	for name := range m.resources {
		m.lost.WithLabelValues(name, profile)
	}
}

func (m *Metrics) operation(op Operation, r Result, profile string) {
	m.goroutineDuration.WithLabelValues(string(op), string(r), profile)
	m.goroutineExecution.WithLabelValues(string(op), string(r), profile)
}

// Offers creates the series of lost work for the resources of a node, for each profile.
func (m *Metrics) Offers(resources corev1.ResourceList) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range resources {
		// Pods do not request the resource pods.
		if m.resources[string(name)] || name == corev1.ResourcePods {
			continue
		}
		m.resources[string(name)] = true
		for profile := range m.profiles {
			m.lost.WithLabelValues(string(name), profile)
		}
	}
}
