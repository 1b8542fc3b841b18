package crash

import (
	"bufio"
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/reprieve-dev/reprieve/internal/playground"
)

// samples is what /metrics said at some moment, a line each.
type samples struct {
	t     *testing.T
	lines []string
}

// scrape reads the metrics of a scheduler.
func (c *cluster) scrape(ctx context.Context, t *testing.T, scheduler *playground.Component) samples {
	t.Helper()
	config := c.run.RESTConfig()
	config.Host = scheduler.URL()
	direct, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := direct.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		t.Fatalf("read the scheduler's metrics: %v", err)
	}
	s := samples{t: t}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, len(raw)+1)
	for lines.Scan() {
		s.lines = append(s.lines, lines.Text())
	}
	return s
}

// of is the sum over all samples of the tests' profile that have that name and these labels, of the form key="value".
func (s samples) of(name string, labels ...string) float64 {
	s.t.Helper()
	labels = append(slices.Clone(labels), `profile="`+profile+`"`)
	sum := 0.0
	for _, line := range s.lines {
		rest, ok := strings.CutPrefix(line, name+"{")
		if !ok || slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(rest, l) }) {
			continue
		}
		value, err := strconv.ParseFloat(line[strings.LastIndex(line, " ")+1:], 64)
		if err != nil {
			s.t.Fatalf("metric %q: %v", line, err)
		}
		sum += value
	}
	return sum
}
