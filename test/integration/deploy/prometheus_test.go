package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

const (
	// scrapeEvery is the interval of Prometheus for scrapes and for the evaluation of rules.
	scrapeEvery = time.Second
	// rateInterval is the value of the variable $__rate_interval in Grafana, which depends on the
	// scrape interval.
	rateInterval = 4 * scrapeEvery
)

// prometheus is a running Prometheus server.
type prometheus struct{ url string }

// prometheusConfig has the fields of a Prometheus configuration that docs/monitoring.md uses.
type prometheusConfig struct {
	Global        *prometheusGlobal  `json:"global,omitempty"`
	RuleFiles     []string           `json:"rule_files"`
	ScrapeConfigs []prometheusScrape `json:"scrape_configs"`
}

type prometheusGlobal struct {
	ScrapeInterval     string `json:"scrape_interval"`
	ScrapeTimeout      string `json:"scrape_timeout"`
	EvaluationInterval string `json:"evaluation_interval"`
}

type prometheusScrape struct {
	JobName       string            `json:"job_name"`
	Scheme        string            `json:"scheme"`
	Authorization map[string]string `json:"authorization"`
	TLSConfig     map[string]bool   `json:"tls_config"`
	// Discovery finds the Pods of a cluster, and Relabel selects some of them.
	Discovery []map[string]any      `json:"kubernetes_sd_configs,omitempty"`
	Relabel   []prometheusRelabel   `json:"relabel_configs,omitempty"`
	Static    []map[string][]string `json:"static_configs,omitempty"`
}

type prometheusRelabel struct {
	SourceLabels []string `json:"source_labels"`
	Regex        string   `json:"regex"`
	Action       string   `json:"action"`
}

// prometheusPath returns the path of the Prometheus binary. The test fails if the binary is
// missing.
func prometheusPath(t *testing.T) string {
	t.Helper()
	path := filepath.Join(playgroundtest.BinDir(t, playgroundtest.ControlPlane()...), "prometheus")
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the binary prometheus is missing (%v): run `make bin/prometheus`", err)
	}
	return path
}

// documentedPrometheus returns the Prometheus configuration in docs/monitoring.md, which is the
// first YAML block of the page.
func documentedPrometheus(t *testing.T) prometheusConfig {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(playgroundtest.ModuleRoot(t), "docs", "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	block, _, found := strings.Cut(rest, "```\n")
	var config prometheusConfig
	if err := yaml.UnmarshalStrict([]byte(block), &config); err != nil {
		t.Fatalf("the configuration in docs/monitoring.md: %v", err)
	}
	if !found || len(config.ScrapeConfigs) != 1 {
		t.Fatalf("docs/monitoring.md has no configuration, or more to scrape than one job: %+v", config)
	}
	return config
}

// TestDocumentedPrometheus checks that the Prometheus configuration in docs/monitoring.md selects
// the Pods of the Deployment.
func TestDocumentedPrometheus(t *testing.T) {
	scrape := documentedPrometheus(t).ScrapeConfigs[0]
	template := deploymentOf(t, render(t, deployPath(t))).Spec.Template
	labels := map[string]string{
		"__meta_kubernetes_pod_label_app_kubernetes_io_name": template.Labels["app.kubernetes.io/name"],
		"__meta_kubernetes_pod_container_port_name":          template.Spec.Containers[0].Ports[0].Name,
	}
	for _, relabel := range scrape.Relabel {
		var values []string
		for _, label := range relabel.SourceLabels {
			values = append(values, labels[label])
		}
		if got := strings.Join(values, ";"); relabel.Action == "keep" && got != relabel.Regex {
			t.Errorf("the Pods have %q, and %q is looked for", got, relabel.Regex)
		}
	}
	if len(scrape.Discovery) != 1 || len(scrape.Relabel) != 1 {
		t.Errorf("Pods are looked for with %v, and picked with %v: want one each", scrape.Discovery, scrape.Relabel)
	}
}

// startPrometheus starts Prometheus with the configuration in docs/monitoring.md. It replaces the
// scheduler's address, the token and the files with alerts.
func (c *cluster) startPrometheus(t *testing.T, token string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	config, every := documentedPrometheus(t), fmt.Sprint(scrapeEvery)
	config.Global = &prometheusGlobal{ScrapeInterval: every, ScrapeTimeout: every, EvaluationInterval: every}
	config.RuleFiles = []string{filepath.Join(playgroundtest.ModuleRoot(t), "charts", "reprieve", "monitoring", "alerts.yaml")}
	scrape := &config.ScrapeConfigs[0]
	scrape.Discovery, scrape.Relabel = nil, nil
	scrape.Authorization = map[string]string{"credentials_file": write("token", []byte(token))}
	scrape.Static = []map[string][]string{{"targets": {strings.TrimPrefix(c.schedulers[0].URL(), "https://")}}}
	raw, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return runPrometheus(t, "--config.file="+write("prometheus.yaml", raw), "--storage.tsdb.path="+filepath.Join(dir, "data"))
}

// runPrometheus runs Prometheus on a free port until the test ends.
func runPrometheus(t *testing.T, args ...string) *prometheus {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	command := exec.CommandContext(ctx, prometheusPath(t), append(args, "--web.listen-address=127.0.0.1:0")...)
	command.Stdout, command.Stderr = log, log
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 15 * time.Second
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := command.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("end Prometheus: %v", err)
		}
		_ = log.Close()
	})
	p, listening := &prometheus{}, regexp.MustCompile(`msg="Listening on".* address=(\S+)`)
	eventually(t, "Prometheus", func(ctx context.Context) string {
		said, err := os.ReadFile(log.Name())
		if err != nil {
			return err.Error()
		}
		at := listening.FindSubmatch(said)
		if at == nil {
			return "it does not listen; it says:\n" + string(said)
		}
		p.url = "http://" + string(at[1])
		if err := p.ask(ctx, "/api/v1/status/buildinfo", nil, nil); err != nil {
			return err.Error() + "; it says:\n" + string(said)
		}
		return ""
	})
	return p
}

// ask sends a request to the API of Prometheus. It decodes the data of the response into "into",
// unless "into" is nil.
func (p *prometheus) ask(ctx context.Context, path string, parameters url.Values, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path+"?"+parameters.Encode(), http.NoBody)
	if err != nil {
		return fmt.Errorf("ask Prometheus: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask Prometheus: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: into}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("read what Prometheus answers with %s: %w", response.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("ask Prometheus for %s %s: %s: %s", path, parameters.Encode(), answer.Status, answer.Error)
	}
	return nil
}

// series is a time series in a response of Prometheus.
type series struct {
	Metric map[string]string `json:"metric"`
	// Values has samples. A sample is a pair of a time in seconds, and a number as a string.
	Values [][2]json.RawMessage `json:"values"`
}

// over returns the values of an expression between two times.
func (p *prometheus) over(ctx context.Context, expression string, from, to time.Time) ([]series, error) {
	seconds := func(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
	var out struct{ Result []series }
	err := p.ask(ctx, "/api/v1/query_range", url.Values{
		"query": {expression}, "start": {seconds(from)}, "end": {seconds(to)}, "step": {fmt.Sprint(scrapeEvery.Seconds())},
	}, &out)
	return out.Result, err
}

// highest returns the greatest value of all series. The result some is false if there is no value.
func highest(all []series) (value float64, some bool) {
	for _, s := range all {
		for _, pair := range s.Values {
			n, err := strconv.ParseFloat(strings.Trim(string(pair[1]), `"`), 64)
			if err != nil || math.IsNaN(n) {
				continue
			}
			if !some || n > value {
				value, some = n, true
			}
		}
	}
	return value, some
}

// alertState is the state of an alerting rule.
type alertState struct {
	Name, State, Health, LastError string
	LastEvaluation                 time.Time
}

// alerts returns the states of all alerting rules by name.
func (p *prometheus) alerts(ctx context.Context) (map[string]alertState, error) {
	var answer struct {
		Groups []struct{ Rules []alertState }
	}
	if err := p.ask(ctx, "/api/v1/rules", url.Values{"type": {"alert"}}, &answer); err != nil {
		return nil, err
	}
	out := map[string]alertState{}
	for _, group := range answer.Groups {
		for _, rule := range group.Rules {
			out[rule.Name] = rule
		}
	}
	return out, nil
}
