package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

type panel struct {
	ID      int    `json:"id"`
	Type    string `json:"type"`
	Title   string `json:"title"`
	GridPos struct {
		H, W, X, Y int
	} `json:"gridPos"`
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
}

func panels(t *testing.T) []panel {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(files, "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []panel `json:"panels"`
	}
	if err := json.Unmarshal(raw, &dashboard); err != nil {
		t.Fatal(err)
	}
	if len(dashboard.Panels) == 0 {
		t.Fatal("the dashboard is empty")
	}
	return dashboard.Panels
}

// atWork has metrics of a scheduler that schedules pods. They complete the metrics in calm.
const atWork = `
reprieve_queue_waiting{instance="a"} 3+0x120
reprieve_api_calls_bound{instance="a"} 50+0x120
reprieve_queue_pending_pods{instance="a", queue="research"} 4+0x120
reprieve_queue_allocated{instance="a", queue="research", resource="pods"} 6+0x120
reprieve_queue_allocated{instance="a", queue="research", resource="nvidia.com/gpu"} 6+0x120
reprieve_queue_fair_share{instance="a", queue="research", resource="nvidia.com/gpu"} 8+0x120
reprieve_preemption_victims_sum{instance="a", profile="p"} 0+2x120
reprieve_preempted_resource_seconds_total{instance="a", resource="nvidia.com/gpu", profile="p"} 0+60x120
reprieve_lost_device_seconds_total{instance="a", queue="q", preemptor_class="high", victim_class="low"} 0+60x120
reprieve_goroutines_execution_total{instance="a", operation="preemption", result="error"} 0+0.01x120
reprieve_preemption_decision_seconds_bucket{instance="a", preemptor="gang", le="+Inf"} 0+10x120
scheduler_pending_pods{instance="a", queue="gated"} 4+0x120
scheduler_pod_scheduling_sli_duration_seconds_bucket{instance="a", le="1"} 0+4x120
scheduler_pod_scheduling_sli_duration_seconds_bucket{instance="a", le="+Inf"} 0+4x120
rest_client_request_duration_seconds_bucket{instance="a", verb="GET", le="1"} 0+4x120
rest_client_request_duration_seconds_bucket{instance="a", verb="GET", le="+Inf"} 0+4x120
`

// TestDashboard checks that each query of each panel returns data for a scheduler that schedules
// pods.
func TestDashboard(t *testing.T) {
	t.Parallel()
	e := newEngine()
	db := newDatabase(t, e.parser, but(atWork))
	variables := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$resource", "nvidia.com/gpu")
	ids := map[int]string{}
	for _, p := range panels(t) {
		if p.Type == "row" {
			continue
		}
		if other, ok := ids[p.ID]; ok {
			t.Errorf("%q and %q have one id", p.Title, other)
		}
		ids[p.ID] = p.Title
		if p.GridPos.X+p.GridPos.W > 24 || len(p.Targets) == 0 {
			t.Errorf("%q is too wide, or empty: %+v", p.Title, p)
		}
		for _, target := range p.Targets {
			expression := variables.Replace(target.Expr)
			if strings.Contains(expression, "$") {
				t.Errorf("%q: %s has a variable that the dashboard does not have", p.Title, expression)
				continue
			}
			if len(e.at(t, db, expression, 119*scrapes)) == 0 {
				t.Errorf("%q shows nothing: %s", p.Title, expression)
			}
		}
	}
}

// TestSubjects checks that the dashboard has a panel for each important subject.
func TestSubjects(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			all.WriteString(target.Expr + "\n")
		}
	}
	for subject, figure := range map[string]string{
		"pending by queue":        "by (queue) (reprieve_queue_pending_pods)",
		"running by queue":        `by (queue) (reprieve_queue_allocated{resource="pods"})`,
		"preemptions":             "rate(reprieve_preemption_attempts_total[",
		"evicted Pods":            "rate(reprieve_preemption_victims_sum[",
		"lost GPU-hours":          `increase(reprieve_preempted_resource_seconds_total{resource="$resource"}[$__range])) / 3600`,
		"lost work by queue":      "by (queue) (rate(reprieve_lost_device_seconds_total[",
		"latency of decisions":    "rate(reprieve_preemption_decision_seconds_bucket[",
		"latency of evictions":    `rate(reprieve_goroutines_duration_seconds_bucket{operation="preemption"}[`,
		"failed preemptions":      `reprieve_goroutines_execution_total{operation="preemption",result="error"}`,
		"promises outstanding":    "sum(reprieve_reservations)",
		"plans not confirmed":     "by (refusal) (rate(reprieve_gang_plans_unconfirmed_total[",
		"turns":                   "(reprieve_queue_waiting)",
		"API calls":               "by (code) (rate(rest_client_requests_total[",
		"how long API calls take": "rate(rest_client_request_duration_seconds_bucket[",
	} {
		if !strings.Contains(all.String(), figure) {
			t.Errorf("no panel shows %s: %s", subject, figure)
		}
	}
}

// TestRowsAreDocumented checks that docs/monitoring.md describes each row of the dashboard.
func TestRowsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n| row | purpose |\n| --- | --- |\n")
	var documented, rows []string
	for line := range strings.Lines(table) {
		cells := strings.Split(line, " | ")
		if len(cells) != 2 {
			break
		}
		documented = append(documented, strings.TrimPrefix(cells[0], "| "))
	}
	for _, p := range panels(t) {
		if p.Type == "row" {
			rows = append(rows, p.Title)
		}
	}
	if !slices.Equal(documented, rows) {
		t.Errorf("docs/monitoring.md says what %q are for, and the dashboard has %q", documented, rows)
	}
}
