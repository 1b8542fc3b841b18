package stage

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/reprieve-dev/reprieve/internal/playground"
)

// Metrics is a response of the endpoint /metrics.
type Metrics struct {
	stage *Stage
	text  string
}

// Metrics requests the metrics of a scheduler.
func (s *Stage) Metrics(scheduler *playground.Component) Metrics {
	s.Helper()
	m, err := s.metrics(s.Context(), scheduler)
	if err != nil {
		s.Fatal(err)
	}
	return m
}

func (s *Stage) metrics(ctx context.Context, scheduler *playground.Component) (Metrics, error) {
	raw, err := s.ask(ctx, scheduler, "/metrics")
	if err != nil {
		return Metrics{}, err
	}
	return Metrics{stage: s, text: string(raw)}, nil
}

// ask sends a GET request to a scheduler and returns the body of the response.
func (s *Stage) ask(ctx context.Context, scheduler *playground.Component, path string) ([]byte, error) {
	config := s.Run.RESTConfig()
	config.Host, config.Timeout = scheduler.URL(), 30*time.Second
	direct, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", scheduler.Name(), err)
	}
	raw, err := direct.Discovery().RESTClient().Get().AbsPath(path).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", path, scheduler.Name(), err)
	}
	return raw, nil
}

// Sum returns the sum of all samples of a metric that have the labels. The format of a label is
// key="value".
func (m Metrics) Sum(name string, labels ...string) float64 {
	m.stage.Helper()
	sum := 0.0
	for line := range strings.Lines(m.text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != '{' && rest[0] != ' ' || slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(rest, l) }) {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " ")+1:]), 64)
		if err != nil {
			m.stage.Fatalf("metric %q: %v", line, err)
		}
		sum += value
	}
	return sum
}

// plansHold fails the test if a running scheduler has repeated a gang's plan that could not be
// carried out.
func (s *Stage) plansHold() {
	s.Helper()
	for name, n := range s.plansRepeated() {
		if n > s.repeated[name] {
			s.Errorf("%s has made %v plans again that could not be carried out", name, n-s.repeated[name])
		}
	}
}

// plansRepeated returns, for each running scheduler, the number of plans that it has repeated
// because they could not be carried out.
func (s *Stage) plansRepeated() map[string]float64 {
	s.Helper()
	out := make(map[string]float64)
	for _, component := range s.Run.Components() {
		if !strings.Contains(component.Name(), playground.Scheduler) || component.PID() == 0 {
			continue
		}
		m, err := s.metrics(context.WithoutCancel(s.Context()), component)
		if err != nil {
			s.Logf("whether plans of %s hold is not known: %v", component.Name(), err)
			continue
		}
		out[component.Name()] = m.Sum("reprieve_gang_plans_unconfirmed_total", `refusal="repeated"`)
	}
	return out
}
