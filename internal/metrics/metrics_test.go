package metrics

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	k8smetrics "k8s.io/component-base/metrics"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

func record(m *Metrics) {
	m.Ran(Preemption, Failure, "main", 1500*time.Millisecond)
	m.Ran(Preemption, Success, "main", time.Second)
	m.Ran(Preemption, Success, "main", 2*time.Second)
	m.Attempted(Gang, Preempts, "main")
	m.Decided(Gang, "main", 3*time.Second)
	m.Took(7, "main")
	m.Unbound(Gang, 2, "main")
	m.PreemptedAgain()
	m.BadAnnotation(v1alpha1.AnnotationLastCheckpoint)
	m.OldestGang(time.Unix(1000, 0))
	m.At(time.Unix(1090, 0))
	m.Orphaned(4)
	m.KeptPods(3)
	m.LongestStep(90 * time.Second)
	m.Waiting(5)
	m.Recorded(Dropped)
	m.Recorded(Dropped)
	m.Promised(6, 90*time.Second)
	m.Held(string(OwnerUnknown), 8)
	m.Lost(corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}, 3*time.Second, "main")
	m.LostWork(Parties{Queue: "research", PreemptorClass: "high", VictimClass: "low"}, 90)
	m.LostWork(Parties{Queue: "research", PreemptorClass: "high"}, -1)
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
	// Add up counters, gauges and the sums of histograms. The result omits buckets, because their
	// bounds may change.
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
			sums[name] += metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + metric.GetHistogram().GetSampleSum()
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
		"reprieve_preemptions_without_binding_total":      2,
		"reprieve_groups_preempted_again_total":           1,
		"reprieve_invalid_annotations_total":              1,
		"reprieve_oldest_pending_gang_seconds":            90,
		"reprieve_queue_orphaned_pods":                    4,
		"reprieve_queue_deleted_pods":                     3,
		"reprieve_longest_step_seconds":                   90,
		"reprieve_queue_waiting":                          5,
		"reprieve_decision_records_total":                 2,
		"reprieve_reservations":                           6,
		"reprieve_oldest_reservation_seconds":             90,
		"reprieve_held_pods":                              8,
		"reprieve_preempted_resource_seconds_total":       6,
		"reprieve_lost_device_seconds_total":              90,
		"reprieve_goroutines_execution_total nothing has": 0,
	} {
		if got := sums[name]; got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// TestUnregistered checks that all methods can be called on metrics that are not registered.
func TestUnregistered(t *testing.T) {
	t.Parallel()
	record(New())
}

// TestQueues checks that the gauges show the last status of each queue. They show 0 for a resource
// that is no longer in the status, and have no series for deleted queues.
func TestQueues(t *testing.T) {
	t.Parallel()
	m := New()
	registry := k8smetrics.NewKubeRegistry()
	if err := m.Register(registry.Register); err != nil {
		t.Fatal(err)
	}
	amounts := func(of ...string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for i := 0; i < len(of); i += 2 {
			out[corev1.ResourceName(of[i])] = resource.MustParse(of[i+1])
		}
		return out
	}
	m.Queues(map[string]v1alpha1.QueueStatus{
		"a": {Waiting: 3, Allocated: amounts("cpu", "500m", "gpu", "4"), FairShare: amounts("cpu", "2", "gpu", "6")},
		"b": {Waiting: 1, Allocated: amounts("cpu", "1")},
	})
	m.Queues(map[string]v1alpha1.QueueStatus{"a": {Waiting: 2, Allocated: amounts("cpu", "1500m"), FairShare: amounts("cpu", "3")}})
	got := map[string]float64{}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "reprieve_queue_") || len(family.GetMetric()[0].GetLabel()) == 0 {
			continue
		}
		for _, metric := range family.GetMetric() {
			series := family.GetName()
			for _, label := range metric.GetLabel() {
				series += " " + label.GetValue()
			}
			got[series] = metric.GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"reprieve_queue_pending_pods a": 2, "reprieve_queue_allocated a pods": 0, "reprieve_queue_fair_share a pods": 0,
		"reprieve_queue_allocated a cpu": 1.5, "reprieve_queue_fair_share a cpu": 3,
		"reprieve_queue_allocated a gpu": 0, "reprieve_queue_fair_share a gpu": 0,
	}
	if !maps.Equal(got, want) {
		t.Errorf("shown are %v, want %v", got, want)
	}
}

// TestQuotaMissing checks that the gauge shows the last missing quotas. It must have no series for
// deleted queues.
func TestQuotaMissing(t *testing.T) {
	t.Parallel()
	m, registry := New(), k8smetrics.NewKubeRegistry()
	if err := m.Register(registry.Register); err != nil {
		t.Fatal(err)
	}
	m.QuotaMissing(map[string]corev1.ResourceList{"a": {"gpu": resource.MustParse("4"), "cpu": resource.MustParse("1")}, "b": {"gpu": resource.MustParse("2")}})
	m.QuotaMissing(map[string]corev1.ResourceList{"a": {"gpu": resource.MustParse("0")}})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "reprieve_queue_missing_quota" {
			continue
		}
		for _, metric := range family.GetMetric() {
			got[metric.GetLabel()[0].GetValue()+" "+metric.GetLabel()[1].GetValue()] = metric.GetGauge().GetValue()
		}
	}
	if want := map[string]float64{"a gpu": 0}; !maps.Equal(got, want) {
		t.Errorf("shown are %v, want %v", got, want)
	}
}

// TestOldestGangIsGone checks that the gauge is 0 when no gang waits.
func TestOldestGangIsGone(t *testing.T) {
	t.Parallel()
	m, registry := New(), k8smetrics.NewKubeRegistry()
	if err := m.Register(registry.Register); err != nil {
		t.Fatal(err)
	}
	m.OldestGang(time.Unix(1000, 0))
	m.At(time.Unix(1090, 0))
	m.OldestGang(time.Time{})
	m.At(time.Unix(1100, 0))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "reprieve_oldest_pending_gang_seconds" && family.GetMetric()[0].GetGauge().GetValue() != 0 {
			t.Errorf("It is %v", family.GetMetric()[0].GetGauge().GetValue())
		}
	}
}

// TestBeginAtZero checks that counters have series with the value 0 before their first event.
func TestBeginAtZero(t *testing.T) {
	t.Parallel()
	m := New()
	registry := k8smetrics.NewKubeRegistry()
	if err := m.Register(registry.Register); err != nil {
		t.Fatal(err)
	}
	node := corev1.ResourceList{"cpu": resource.MustParse("8"), "nvidia.com/gpu": resource.MustParse("4"), "pods": resource.MustParse("110")}
	m.Serves("main")
	m.Offers(node)
	m.Offers(node)
	m.Serves("other")
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]int{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			series[family.GetName()]++
			if n := metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount()); n != 0 {
				t.Errorf("%s %v is %v before there is any", family.GetName(), metric.GetLabel(), n)
			}
		}
	}
	for name, want := range map[string]int{
		"reprieve_gang_plans_unconfirmed_total": 2,
		"reprieve_decision_records_total":       3,
		"reprieve_held_pods":                    4,
		// Two profiles have three results each. Completions have two results.
		"reprieve_goroutines_execution_total":  2*3 + 2,
		"reprieve_goroutines_duration_seconds": 2*3 + 2,
		// Two profiles, pods and gangs, and four results.
		"reprieve_preemption_attempts_total":   2 * 2 * 4,
		"reprieve_preemption_decision_seconds": 2 * 2,
		"reprieve_preemption_victims":          2,
		// Two profiles, pods and gangs.
		"reprieve_preemptions_without_binding_total": 2 * 2,
		// Two profiles and two resources.
		"reprieve_preempted_resource_seconds_total": 2 * 2,
	} {
		if series[name] != want {
			t.Errorf("%s has %d series, want %d", name, series[name], want)
		}
	}
}

// TestAllAreShown checks that Register registers the metrics of all fields, and that counters
// appear before their first event.
func TestAllAreShown(t *testing.T) {
	t.Parallel()
	m := New()
	registry := k8smetrics.NewKubeRegistry()
	names := map[uintptr]string{}
	err := m.Register(func(metric k8smetrics.Registerable) error {
		names[reflect.ValueOf(metric).Pointer()] = metric.FQName()
		return registry.Register(metric)
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Serves("main")
	m.Offers(corev1.ResourceList{"cpu": resource.MustParse("8")})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, family := range families {
		shown[family.GetName()] = true
	}
	registerable := reflect.TypeFor[k8smetrics.Registerable]()
	fields := 0
	for _, holder := range []reflect.Value{reflect.ValueOf(m).Elem(), reflect.ValueOf(m.queues).Elem()} {
		for field, value := range holder.Fields() {
			if !field.Type.Implements(registerable) {
				continue
			}
			fields++
			name, ok := names[value.Pointer()]
			switch {
			case !ok:
				t.Errorf("%s is not registered: it has to be on the list in Register", field.Name)
			case field.Type != reflect.TypeFor[*k8smetrics.GaugeVec]() && !shown[name]:
				t.Errorf("%s shows nothing before there is any: it has to begin at 0 (zero.go)", name)
			}
		}
	}
	if fields != len(names) {
		t.Errorf("%d metrics are registered, of which %d are fields", len(names), fields)
	}
}
