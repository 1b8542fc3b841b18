package metrics

import (
	"strings"
	"testing"
	"time"

	k8smetrics "k8s.io/component-base/metrics"
)

func record(m *Metrics) {
	m.Ran(Preemption, Failure, "main", 1500*time.Millisecond)
	m.Ran(Preemption, Success, "main", time.Second)
	m.Ran(Preemption, Success, "main", 2*time.Second)
	m.Attempted(Gang, Preempts, "main")
	m.Decided(Gang, "main", 3*time.Second)
	m.Took(7, "main")
	m.Orphaned(4)
	m.Waiting(5)
	m.Recorded(Dropped)
	m.Recorded(Dropped)
	m.Promised(6)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	m := New()
	registry := k8smetrics.NewKubeRegistry()
	if err := m.Register(registry.Register); err != nil {
		t.Fatal(err)
	}
	if err := m.Register(registry.Register); err == nil || !strings.Contains(err.Error(), "reprieve_preemption_victims") {
		t.Errorf("Registered twice: %v", err)
	}
	record(m)
	// Only what counts: buckets are a matter of taste.
	sums := map[string]float64{}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				if label.GetName() == "result" {
					name += " " + label.GetValue()
				}
			}
			sums[name] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			if h := metric.GetHistogram(); h != nil {
				sums[name] = h.GetSampleSum()
			}
		}
	}
	for name, want := range map[string]float64{
		"reprieve_goroutines_duration_seconds error":      1.5,
		"reprieve_goroutines_duration_seconds success":    3,
		"reprieve_goroutines_execution_total error":       1,
		"reprieve_goroutines_execution_total success":     2,
		"reprieve_preemption_attempts_total preempts":     1,
		"reprieve_preemption_decision_seconds":            3,
		"reprieve_preemption_victims":                     7,
		"reprieve_queue_orphaned_pods":                    4,
		"reprieve_queue_waiting":                          5,
		"reprieve_decision_records_total":                 2,
		"reprieve_reservations":                           6,
		"reprieve_goroutines_execution_total nothing has": 0,
	} {
		if got := sums[name]; got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// TestUnregistered shows that a process may do without.
func TestUnregistered(t *testing.T) {
	t.Parallel()
	record(New())
}
