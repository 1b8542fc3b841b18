package monitoring

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"
)

const (
	root  = "../.."
	files = root + "/charts/reprieve/monitoring"
	// repository is the web address of the repository. Links in alerts begin with it.
	repository = "https://github.com/reprieve-dev/reprieve"
)

// rule is an alerting rule of Prometheus.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func alerts(t *testing.T) map[string]rule {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(files, "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []rule `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict(raw, &file); err != nil {
		t.Fatal(err)
	}
	out := map[string]rule{}
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			if out[r.Alert].Alert != "" {
				t.Errorf("there are two alerts %s", r.Alert)
			}
			out[r.Alert] = r
		}
	}
	if len(out) == 0 {
		t.Fatal("there are no alerts")
	}
	return out
}

// scene has the metrics of a period of time, and the alerts that must fire at its end.
type scene struct {
	series string
	// want has the names of all alerts that must fire. No other alert may fire.
	want []string
}

// calm has the metrics of a healthy scheduler: it is the leader, preempts, and has no failures.
const calm = `
reprieve_reservations{instance="a"} 0 2 1 0 0x120
reprieve_oldest_reservation_seconds{instance="a"} 0 60 300 0 0x120
leader_election_master_status{instance="a", name="kube-scheduler"} 1+0x120
leader_election_master_status{instance="other", name="kube-scheduler"} 0+0x120
reprieve_goroutines_execution_total{instance="a", operation="preemption", result="success"} 0+10x120
reprieve_goroutines_execution_total{instance="a", operation="preemption", result="abandoned"} 0+5x120
reprieve_gang_plans_unconfirmed_total{instance="a", refusal="first"} 0+1x120
reprieve_gang_plans_unconfirmed_total{instance="a", refusal="repeated"} 0+0x120
reprieve_preemption_attempts_total{instance="a", preemptor="gang", result="preempts"} 0+10x120
reprieve_preemption_decision_seconds_bucket{instance="a", le="0.1"} 0+10x120
reprieve_preemption_decision_seconds_bucket{instance="a", le="3"} 0+10x120
reprieve_preemption_decision_seconds_bucket{instance="a", le="+Inf"} 0+10x120
reprieve_goroutines_duration_seconds_bucket{instance="a", operation="preemption", result="success", le="1"} 0+10x120
reprieve_goroutines_duration_seconds_bucket{instance="a", operation="preemption", result="success", le="60"} 0+10x120
reprieve_goroutines_duration_seconds_bucket{instance="a", operation="preemption", result="success", le="+Inf"} 0+10x120
reprieve_preemptions_without_binding_total{instance="a", preemptor="pod"} 0+0x120
reprieve_oldest_pending_gang_seconds{instance="a"} 0+60x59 0+60x60
reprieve_queue_missing_quota{instance="a", queue="research", resource="nvidia.com/gpu"} 0 2 4 0 0x120
reprieve_groups_preempted_again_total{instance="a"} 0+0x60 1+0x59
reprieve_held_pods{instance="a", reason="OwnerUnknown"} 0+0x120
reprieve_held_pods{instance="a", reason="NotGroupable"} 0+0x120
reprieve_held_pods{instance="a", reason="PodGroupNotMade"} 0+0x120
reprieve_queue_orphaned_pods{instance="a"} 0+0x120
reprieve_queue_deleted_pods{instance="a"} 0+0x120
reprieve_longest_step_seconds{instance="a"} 0+0x120
reprieve_malformed_preemption_tolerations{instance="a"} 0+0x120
reprieve_decision_records_total{instance="a", writing="written"} 0+10x120
reprieve_decision_records_total{instance="a", writing="dropped"} 0+0x120
scheduler_schedule_attempts_total{instance="a", result="scheduled"} 0+10x120
rest_client_requests_total{instance="a", code="200"} 0+100x120
rest_client_requests_total{instance="a", code="429"} 0+1x120
rest_client_requests_total{instance="other", code="429"} 0+100x120
`

// but returns the series of calm together with other series. A series replaces the series of calm
// with the same name and labels.
func but(series string) string {
	name := func(line string) string {
		end := strings.LastIndex(line, "}")
		return line[:end+1]
	}
	var out []string
	replaced := map[string]bool{}
	for line := range strings.Lines(series) {
		replaced[name(line)] = true
		out = append(out, line)
	}
	for line := range strings.Lines(calm) {
		if !replaced[name(line)] {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

func scenes() map[string]scene {
	return map[string]scene{
		"all is well":                              {series: calm},
		"nothing is scraped":                       {want: []string{"ReprieveDown"}},
		"it has just gone":                         {series: "reprieve_reservations{instance=\"a\"} 0+0x112"},
		"none leads":                               {but(`leader_election_master_status{instance="a", name="kube-scheduler"} 1+0x110 0+0x9`), []string{"ReprieveNoLeader"}},
		"another leads soon":                       {series: but(`leader_election_master_status{instance="a", name="kube-scheduler"} 1+0x118 0+0x1`)},
		"a standby leads":                          {series: but("leader_election_master_status{instance=\"a\", name=\"kube-scheduler\"} 0+0x120\nleader_election_master_status{instance=\"b\", name=\"kube-scheduler\"} 1+0x120\nreprieve_reservations{instance=\"b\"} 0+0x120")},
		"a gang waits for hours":                   {but(`reprieve_oldest_pending_gang_seconds{instance="a"} 10000+60x120`), []string{"ReprieveGangsPending"}},
		"a gang has waited for hours, and runs":    {series: but(`reprieve_oldest_pending_gang_seconds{instance="a"} 14400+60x110 0+0x9`)},
		"a gang waits for an hour":                 {series: but(`reprieve_oldest_pending_gang_seconds{instance="a"} 0+60x120`)},
		"a queue lacks its quota":                  {but(`reprieve_queue_missing_quota{instance="a", queue="research", resource="nvidia.com/gpu"} 4+0x120`), []string{"ReprieveQueueBelowQuota"}},
		"a queue lacks its quota for half an hour": {series: but(`reprieve_queue_missing_quota{instance="a", queue="research", resource="nvidia.com/gpu"} 0+0x90 4+0x29`)},
		"a queue gets its quota now and then":      {series: but(`reprieve_queue_missing_quota{instance="a", queue="research", resource="nvidia.com/gpu"} 4+0x80 0+0x1 4+0x37`)},
		"work is stopped again and again":          {but(`reprieve_groups_preempted_again_total{instance="a"} 0+0.1x120`), []string{"ReprieveWorkStoppedAgain"}},
		"work was stopped again twice":             {series: but(`reprieve_groups_preempted_again_total{instance="a"} 0+0x60 1+0x30 2+0x28`)},
		"2% fail":                                  {but(`reprieve_goroutines_execution_total{instance="a", operation="preemption", result="error"} 0+0.2x120`), []string{"ReprievePreemptionsFail"}},
		"half a percent fails":                     {series: but(`reprieve_goroutines_execution_total{instance="a", operation="preemption", result="error"} 0+0.05x120`)},
		"completions fail":                         {but(`reprieve_goroutines_execution_total{instance="a", operation="preemption_completion", result="error"} 0+1x120`), []string{"ReprieveCompletionsFail"}},
		"a completion failed":                      {series: but(`reprieve_goroutines_execution_total{instance="a", operation="preemption_completion", result="error"} 0+0x110 1+0x9`)},
		"preemptions end without a binding": {
			but(`reprieve_preemptions_without_binding_total{instance="a", preemptor="pod"} 0+0x58 1+0x29 2+0x29 3+0x9`), []string{"ReprievePreemptionsWithoutBinding"},
		},
		"a preemption ended without a binding": {series: but(`reprieve_preemptions_without_binding_total{instance="a", preemptor="pod"} 0+0x90 1+0x29`)},
		"a plan is refused again": {
			but(`reprieve_gang_plans_unconfirmed_total{instance="a", refusal="repeated"} 0+0x110 1+0x9`), []string{"ReprievePlansRefused"},
		},
		"a plan was refused again long ago": {series: but(`reprieve_gang_plans_unconfirmed_total{instance="a", refusal="repeated"} 0+0x60 1+0x59`)},
		"a decision does not end":           {but(`reprieve_longest_step_seconds{instance="a"} 0+0x100 10+10x19`), []string{"ReprieveStalls"}},
		"decisions take half a minute":      {series: but(`reprieve_longest_step_seconds{instance="a"} 0+0x100 30+0x19`)},
		"searches fail":                     {but(`reprieve_preemption_attempts_total{instance="a", preemptor="gang", result="error"} 0+1x120`), []string{"ReprieveSearchesFail"}},
		"decisions take two seconds": {
			but(`reprieve_preemption_decision_seconds_bucket{instance="a", le="0.1"} 0+5x120`), []string{"ReprieveDecisionsSlow"},
		},
		"one decision in a thousand is slow": {series: but(`reprieve_preemption_decision_seconds_bucket{instance="a", le="0.1"} 0+9.99x120`)},
		"evictions take most of a minute": {
			but(`reprieve_goroutines_duration_seconds_bucket{instance="a", operation="preemption", result="success", le="1"} 0+1x120`), []string{"ReprieveEvictionsSlow"},
		},
		// In these scenes, the scheduler also places other pods all the time.
		"a promise is not kept": {
			but("reprieve_reservations{instance=\"a\"} 2+0x120\nreprieve_oldest_reservation_seconds{instance=\"a\"} 0+60x120"), []string{"ReprievePromisesNotKept"},
		},
		"promises are kept within the hour": {series: but(
			"reprieve_reservations{instance=\"a\"} 2+0x120\nreprieve_oldest_reservation_seconds{instance=\"a\"} 0+60x59 0+60x60")},
		"a promise is late for a moment": {series: but(`reprieve_oldest_reservation_seconds{instance="a"} 0+0x50 0+60x69`)},
		"room is always promised":        {series: but(`reprieve_reservations{instance="a"} 2+0x120`)},
		"the API server is overloaded":   {but(`rest_client_requests_total{instance="a", code="429"} 0+10x120`), []string{"ReprieveCallsRefused"}},
		"the API server does not answer": {but(`rest_client_requests_total{instance="a", code="<error>"} 0+10x120`), []string{"ReprieveCallsRefused"}},
		"bindings are refused": {but("scheduler_schedule_attempts_total{instance=\"a\", result=\"error\"} 0+5x120\n" +
			`scheduler_schedule_attempts_total{instance="a", result="scheduled"} 300+0x120`), []string{"ReprieveBindingsFail"}},
		"few attempts meet an error":         {series: but("scheduler_schedule_attempts_total{instance=\"a\", result=\"error\"} 0+1x120\n" + `scheduler_schedule_attempts_total{instance="a", result="scheduled"} 0+9x120`)},
		"attempts of another scheduler fail": {series: but(`scheduler_schedule_attempts_total{instance="kube-scheduler", result="error"} 0+5x120`)},
		"a kind cannot be read":              {but(`reprieve_held_pods{instance="a", reason="OwnerUnknown"} 3+0x120`), []string{"ReprieveOwnersUnknown"}},
		"an owner is unknown for a moment":   {series: but(`reprieve_held_pods{instance="a", reason="OwnerUnknown"} 0+0x110 3+0x9`)},
		"an object does not say which gang":  {series: but(`reprieve_held_pods{instance="a", reason="NotGroupable"} 3+0x120`)},
		"a PodGroup cannot be written":       {but(`reprieve_held_pods{instance="a", reason="PodGroupNotMade"} 3+0x120`), []string{"ReprievePodGroupsNotMade"}},
		"a PodGroup is written at last":      {series: but(`reprieve_held_pods{instance="a", reason="PodGroupNotMade"} 0+0x110 3+0x9`)},
		"a queue is deleted":                 {but(`reprieve_queue_deleted_pods{instance="a"} 0+0x110 3+0x9`), []string{"ReprieveQueueDeleted"}},
		"pods are orphaned":                  {but(`reprieve_queue_orphaned_pods{instance="a"} 3+0x120`), []string{"ReprieveOrphanedPods"}},
		"pods are orphaned for a moment":     {series: but(`reprieve_queue_orphaned_pods{instance="a"} 0+0x110 3+0x9`)},
		"a toleration cannot be read":        {but(`reprieve_malformed_preemption_tolerations{instance="a"} 1+0x120`), []string{"ReprieveTolerationsUnreadable"}},
		"records are dropped":                {but(`reprieve_decision_records_total{instance="a", writing="dropped"} 0+0x110 4+0x9`), []string{"ReprieveDecisionLogGaps"}},
		"records cannot be written":          {but(`reprieve_decision_records_total{instance="a", writing="unwritable"} 0+0x110 4+0x9`), []string{"ReprieveDecisionLogGaps"}},
	}
}

// TestAlerts checks for each scene that exactly the wanted alerts fire at its end. Each alert must
// fire in at least one scene.
func TestAlerts(t *testing.T) {
	t.Parallel()
	const end = 120 * scrapes
	all, e := alerts(t), newEngine()
	shown := map[string]bool{}
	for name, c := range scenes() {
		for _, alert := range c.want {
			shown[alert] = true
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, e.parser, c.series)
			var got []string
			for alert, r := range all {
				if fires(t, e, db, r, end) {
					got = append(got, alert)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("%v have gone off, want %v", got, c.want)
			}
		})
	}
	for alert := range all {
		if !shown[alert] {
			t.Errorf("%s goes off in no scene", alert)
		}
	}
}

// fires reports whether an alert fires at the time end. It fires if, for the whole period "for"
// before the end, one series has met the expression at every evaluation.
func fires(t *testing.T, e engine, db database, r rule, end time.Duration) bool {
	t.Helper()
	hold := time.Duration(0)
	if r.For != "" {
		d, err := model.ParseDuration(r.For)
		if err != nil {
			t.Fatalf("%s: %v", r.Alert, err)
		}
		hold = time.Duration(d)
	}
	met := map[string]int{}
	evaluations := 0
	for at := end - hold; at <= end; at += scrapes {
		for _, s := range e.at(t, db, r.Expr, at) {
			met[s.Metric.String()]++
		}
		evaluations++
	}
	for _, n := range met {
		if n == evaluations {
			return true
		}
	}
	return false
}

// TestSectionsHaveFourParts checks that each section of docs/alerts.md has four parts: the
// severity, the symptoms that users notice, a command, and a value to compare with the command's
// output.
func TestSectionsHaveFourParts(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(root, "docs", "alerts.md"))
	if err != nil {
		t.Fatal(err)
	}
	form := regexp.MustCompile("(?s)^\n\\*\\*Severity:\\*\\* `([a-z]+)`\\. \\*\\*Users notice:\\*\\* [^\n]{20,}\n(?:[^\n]+\n)*\n```console\n\\$ [a-z].*?\n```\n\n\\*\\*Compare:\\*\\* ((?:[^\n]+\n)+)")
	value := regexp.MustCompile("[0-9]|`[^`]+`")
	all := alerts(t)
	for i, section := range strings.Split(string(raw), "\n## ") {
		if i == 0 {
			continue
		}
		name, body, _ := strings.Cut(section, "\n")
		parts := form.FindStringSubmatch(body)
		switch {
		case parts == nil:
			t.Errorf("%s does not begin with **Severity:**, **Users notice:**, a command and **Compare:**, in this order", name)
		case parts[1] != all[name].Labels["severity"]:
			t.Errorf("%s has the severity %q, and docs/alerts.md has %q", name, all[name].Labels["severity"], parts[1])
		case !value.MatchString(parts[2]):
			t.Errorf("%s has no value to compare with: %s", name, parts[2])
		}
	}
}

// TestAlertsAreDocumented checks that each alert has a severity, a description and a link to its
// section in docs/alerts.md.
func TestAlertsAreDocumented(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(root, "docs", "alerts.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	all := alerts(t)
	for name, r := range all {
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
			t.Errorf("%s has the severity %q", name, r.Labels["severity"])
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s does not say what is the matter", name)
		}
		// Alertmanager shows the annotation runbook_url as a link, so it must be a full address.
		if want := repository + "/blob/main/docs/alerts.md#" + strings.ToLower(name); r.Annotations["runbook_url"] != want {
			t.Errorf("the runbook of %s is %q, want %q", name, r.Annotations["runbook_url"], want)
		}
		if !strings.Contains(page, fmt.Sprintf("\n## %s\n\n", name)) {
			t.Errorf("docs/alerts.md does not say what to do about %s", name)
		}
	}
	for line := range strings.Lines(page) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "## "); ok && all[name].Alert == "" {
			t.Errorf("docs/alerts.md has %s, which is no alert", name)
		}
	}
}
