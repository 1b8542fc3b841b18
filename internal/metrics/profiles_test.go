package metrics

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	upstream "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// ofTheKEP lists the metrics that KEP-1451 requires to have the label profile.
var ofTheKEP = []string{
	"binding_duration_seconds", "e2e_scheduling_duration_seconds", "schedule_attempts_total", "scheduling_algorithm_duration_seconds",
	"scheduling_algorithm_preemption_evaluation_seconds",
}

// TestMetricsByProfile checks that the table in docs/monitoring.md lists the existing metrics and
// the label of each.
func TestMetricsByProfile(t *testing.T) {
	t.Parallel()
	hasProfile := metricsThere(t)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n### By profile\n")
	section, _, ended := strings.Cut(section, "\n## ")
	if !found || !ended {
		t.Fatal("docs/monitoring.md has no section By profile")
	}
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| `([a-z_]+)`.* \\| (yes|no)").FindAllStringSubmatch(section, -1) {
		documented = append(documented, row[1])
		if has, there := hasProfile[row[2]]; !there || has != (row[3] == "yes") {
			t.Errorf("%s is there: %t, with the label: %t; the table has %q", row[2], there, has, row[3])
		}
	}
	slices.Sort(documented)
	if !slices.Equal(documented, ofTheKEP) {
		t.Errorf("The table has %v, want %v", documented, ofTheKEP)
	}
	_, own, found := strings.Cut(section, "These metrics of Reprieve have the label too:")
	if !found {
		t.Error("docs/monitoring.md does not list Reprieve's own metrics with the label")
	}
	for _, name := range slices.Sorted(maps.Keys(hasProfile)) {
		if strings.HasPrefix(name, "reprieve_") && hasProfile[name] && !strings.Contains(section, "`"+name+"`") {
			t.Errorf("%s has the label, and docs/monitoring.md does not say so", name)
		}
	}
	for _, name := range regexp.MustCompile("`(reprieve_[a-z_]+)`").FindAllStringSubmatch(own, -1) {
		if !hasProfile[name[1]] {
			t.Errorf("docs/monitoring.md says of %s that it has the label", name[1])
		}
	}
}

// metricsThere maps the name of each metric of a scheduler to whether it has the label profile.
func metricsThere(t *testing.T) map[string]bool {
	t.Helper()
	upstream.Register()
	upstream.PodScheduled("main", 1)
	upstream.SchedulingAlgorithmLatency.Observe(1)
	upstream.FrameworkExtensionPointDuration.WithLabelValues("Bind", "Success", "main").Observe(1)
	m, registry := New(), k8smetrics.NewKubeRegistry()
	if err := m.Register(registry.Register); err != nil {
		t.Fatal(err)
	}
	record(m)
	m.Ran(Preemption, Success, "main", time.Second)
	out := make(map[string]bool)
	for _, gatherer := range []k8smetrics.Gatherer{legacyregistry.DefaultGatherer, registry} {
		families, err := gatherer.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				for _, label := range metric.GetLabel() {
					out[family.GetName()] = out[family.GetName()] || label.GetName() == "profile"
				}
				out[family.GetName()] = out[family.GetName()] || false
			}
		}
	}
	return out
}
