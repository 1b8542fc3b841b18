package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

// labelsOf maps the name of a metric to the names of its labels.
type labelsOf map[string]map[string]bool

var (
	// namedMetric matches a metric in a PromQL expression. Its groups are the name and the label
	// matchers.
	namedMetric = regexp.MustCompile(`\b((?:reprieve|scheduler|rest_client|leader_election)_[a-z_]+)(?:\{([^}]*)\})?`)
	// grouping matches a "by" clause. Its group has the label names.
	grouping = regexp.MustCompile(`\bby \(([^)]*)\)`)
	// matcher matches one label matcher. Its groups are the label, the operator and the value.
	matcher = regexp.MustCompile(`([a-z_]+)(=~|!=|!~|=)"([^"]*)"`)
)

// labelValues maps a label to its possible values. It has only the labels with a fixed set of
// values.
func labelValues() map[string][]string {
	return map[string][]string{
		"operation": {string(metrics.Preemption), string(metrics.Completion)},
		"result": {
			string(metrics.Success), string(metrics.Failure), string(metrics.Abandoned),
			string(metrics.Fits), string(metrics.Preempts), string(metrics.Infeasible), string(metrics.Broken),
			// These are values of kube-scheduler's metrics.
			"scheduled", "unschedulable",
		},
		"refusal": {string(metrics.FirstTime), string(metrics.Repeated)},
		"reason":  {string(metrics.OwnerUnknown), string(metrics.NotGroupable), string(metrics.PodGroupNotMade), string(metrics.PriorityAbovePods)},
		"writing": {string(metrics.Written), string(metrics.Dropped), string(metrics.Unwritable)},
	}
}

// monitoringExpressions returns the PromQL expressions of the chart's alerts and dashboard. The
// keys are the names of alerts and panels.
func monitoringExpressions(t *testing.T) map[string]string {
	t.Helper()
	read := func(name string, into any) {
		raw, err := os.ReadFile(filepath.Join(playgroundtest.ModuleRoot(t), "charts", "reprieve", "monitoring", name))
		if err == nil {
			err = yaml.Unmarshal(raw, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	read("alerts.yaml", &rules)
	read("dashboard.json", &dashboard)
	out := map[string]string{}
	for _, group := range rules.Groups {
		for _, r := range group.Rules {
			out["alert "+r.Alert] = r.Expr
		}
	}
	for _, p := range dashboard.Panels {
		for i, target := range p.Targets {
			out[fmt.Sprintf("panel %q, query %d", p.Title, i)] = target.Expr
		}
	}
	if len(out) < 20 {
		t.Fatalf("there are %d expressions only", len(out))
	}
	return out
}

// missing returns the metrics, labels and label values in an expression that the scheduler does not
// expose.
func missing(expression string, shown labelsOf) []string {
	var out []string
	grouped := map[string]bool{"instance": true}
	for _, m := range namedMetric.FindAllStringSubmatch(expression, -1) {
		labels, ok := shown[m[1]]
		if !ok {
			out = append(out, "the metric "+m[1])
			continue
		}
		maps.Copy(grouped, labels)
		for _, asked := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !labels[asked[1]] {
				out = append(out, "the label "+asked[1]+" of "+m[1])
			}
			values, known := labelValues()[asked[1]]
			for _, value := range strings.Split(asked[3], "|") {
				if known && !slices.Contains(values, value) {
					out = append(out, "the value "+value+" of the label "+asked[1]+" of "+m[1])
				}
			}
		}
	}
	for _, m := range grouping.FindAllStringSubmatch(expression, -1) {
		for _, label := range strings.Split(m[1], ",") {
			if label = strings.TrimSpace(label); !grouped[label] {
				out = append(out, "the label "+label)
			}
		}
	}
	return out
}

// TestMissing checks that missing finds unknown metrics, labels and values.
func TestMissing(t *testing.T) {
	shown := labelsOf{"reprieve_a": {"result": true, "le": true}, "scheduler_b": {}}
	for expression, want := range map[string]string{
		`sum by (le) (rate(reprieve_a{result="error"}[5m]))`: "",
		`reprieve_a > 0 and on (instance) scheduler_b`:       "",
		`reprieve_c`:                       "the metric reprieve_c",
		`reprieve_a{profile="x"}`:          "the label profile of reprieve_a",
		`reprieve_a{result=~"error|eror"}`: "the value eror of the label result of reprieve_a",
		`sum by (queue) (reprieve_a)`:      "the label queue",
	} {
		if got := strings.Join(missing(expression, shown), "; "); got != want {
			t.Errorf("%s: missing %q, want %q", expression, got, want)
		}
	}
}

// testMonitored checks that the metrics and labels in the alerts and the dashboard exist. It
// compares them with the metrics of a scheduler that has scheduled pods.
func testMonitored(t *testing.T, c *cluster) {
	queue := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "monitored"}, Spec: v1alpha1.QueueSpec{
		Quota: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")},
	}}
	c.create(t, queue)
	t.Cleanup(func() {
		if err := c.Delete(context.WithoutCancel(t.Context()), queue); err != nil {
			t.Error(err)
		}
	})
	get := c.reader(t, c.metricsReader(t, "dashboard"))
	expressions := monitoringExpressions(t)
	last := "the metrics have not been read"
	eventually(t, "what alerts and dashboard go by", func(ctx context.Context) string {
		text, err := get(ctx, c.schedulers[0].URL()+"/metrics")
		if err != nil {
			return last + "; " + err.Error()
		}
		shown := labelsIn(text)
		lacks := map[string][]string{}
		for what, expression := range expressions {
			if m := missing(expression, shown); len(m) > 0 {
				lacks[what] = m
			}
		}
		if len(lacks) == 0 {
			return ""
		}
		said, err := json.MarshalIndent(lacks, "", "  ")
		if err != nil {
			return err.Error()
		}
		last = "the scheduler does not show " + string(said)
		return last
	})
}

// labelsIn returns the metrics and labels in a response of the endpoint /metrics.
func labelsIn(text string) labelsOf {
	sample := regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? `)
	label := regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="(?:[^"\\]|\\.)*"`)
	out := labelsOf{}
	for line := range strings.Lines(text) {
		m := sample.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if out[m[1]] == nil {
			out[m[1]] = map[string]bool{}
		}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			out[m[1]][l[1]] = true
		}
	}
	return out
}

// reader returns a function that requests a URL of the scheduler with a token.
func (c *cluster) reader(t *testing.T, token string) func(ctx context.Context, url string) (string, error) {
	t.Helper()
	transport := c.transport(t)
	return func(ctx context.Context, url string) (string, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return "", fmt.Errorf("make a request: %w", err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := transport.RoundTrip(request)
		if err != nil {
			return "", fmt.Errorf("ask %s: %w", url, err)
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return "", fmt.Errorf("read what %s answers: %w", url, err)
		}
		if response.StatusCode != http.StatusOK {
			return "", fmt.Errorf("%s answers with %d: %s", url, response.StatusCode, body)
		}
		return string(body), nil
	}
}
