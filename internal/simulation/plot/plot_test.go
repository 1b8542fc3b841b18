package plot

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/simulation"
)

// result returns the result of a policy for two priorities. The waiting times of both range from 0
// to the given number of seconds. work is the number of workloads of the first priority.
func result(policy string, work int, most float64) *simulation.Result {
	waits := simulation.Waits{P99: most}
	for p := range 101 {
		waits.Percentiles = append(waits.Percentiles, most*float64(p)/100)
	}
	return &simulation.Result{Policy: policy, Priorities: []simulation.Group{{Priority: 1000, Work: work, Wait: waits}, {Priority: 10, Work: 2, Wait: waits}}}
}

// TestDraw checks that the plot is valid XML and has a panel for each priority with enough work. If
// no priority has enough work, each priority with any work has a panel.
func TestDraw(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		work, wantPanels int
	}{"enough of one priority": {work: 80, wantPanels: 1}, "little of any": {work: 3, wantPanels: 2}, "none of one": {work: 0, wantPanels: 1}} {
		text := Draw([]*simulation.Result{result("a<b", c.work, 30), result("none", c.work, 7200)})
		for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: the plot is no XML: %v", name, err)
			}
		}
		if n := strings.Count(text, "part that waited at most so long"); n != c.wantPanels {
			t.Errorf("%s: there are %d panels, want %d", name, n, c.wantPanels)
		}
		if at := fmt.Sprintf("H%.1f", across(7200)); !strings.Contains(text, at) || !strings.Contains(text, "a&lt;b") {
			t.Errorf("%s: the longest wait, at %s, or a policy is not in the plot", name, at)
		}
	}
}
