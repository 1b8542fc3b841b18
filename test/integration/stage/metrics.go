package stage

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/client-go/kubernetes"

	"github.com/reprieve-dev/reprieve/internal/playground"
)

// Metrics is what a component said at /metrics at some moment.
type Metrics struct {
	stage *Stage
	text  string
}

// Metrics reads the metrics of a scheduler.
func (s *Stage) Metrics(scheduler *playground.Component) Metrics {
	s.Helper()
	config := s.Run.RESTConfig()
	config.Host = scheduler.URL()
	direct, err := kubernetes.NewForConfig(config)
	if err != nil {
		s.Fatal(err)
	}
	raw, err := direct.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(s.Context())
	if err != nil {
		s.Fatalf("read the scheduler's metrics: %v", err)
	}
	return Metrics{stage: s, text: string(raw)}
}

// Sum is the sum over all samples of that name and with these labels, of the form key="value".
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
