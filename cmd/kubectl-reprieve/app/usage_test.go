package app

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// TestQueueHistory checks the usage of queues over time. A status in the log applies until the next
// status of the queue, or until the queue is deleted. The log of a new process begins without
// usage.
func TestQueueHistory(t *testing.T) {
	t.Parallel()
	line := func(process string, number uint64, second int, what string) *decisionlog.Inputs {
		in := &decisionlog.Inputs{Process: process, Number: number, Time: time.Unix(int64(second), 0), Objects: make(map[string][]json.RawMessage), Gone: make(map[string][]string)}
		if number == 1 {
			in.Whole = &decisionlog.Whole{}
		}
		for word := range strings.FieldsSeq(what) {
			name, used, set := strings.Cut(word, "=")
			if !set {
				in.Gone[inventory.Queues] = append(in.Gone[inventory.Queues], "/"+name)
				continue
			}
			in.Objects[inventory.Queues] = append(in.Objects[inventory.Queues], json.RawMessage(fmt.Sprintf(
				`{"metadata":{"name":%q},"spec":{"quota":{"cpu":"500m"}},"status":{"allocated":{"cpu":%q}}}`, name, used)))
		}
		return in
	}
	var h queueHistory
	// Pass the lines out of order, because a command may read the files of a log in any order.
	for _, in := range []*decisionlog.Inputs{
		line("b", 1, 50, "y=9"), line("a", 1, 10, "x=1 y=2"), line("a", 3, 30, ""), line("a", 4, 40, "y"), line("a", 2, 20, "x=1500m"),
	} {
		h.add(in)
	}
	var got []string
	for _, s := range h.samples() {
		words := fmt.Sprint(s.At.Unix())
		for _, name := range []string{"x", "y"} {
			if q, ok := s.Queues[name]; ok {
				words += fmt.Sprintf(" %s=%g/%g", name, q.Used["cpu"], q.Quota["cpu"])
			}
		}
		got = append(got, words)
	}
	if want := "10 x=1/0.5 y=2/0.5; 20 x=1.5/0.5 y=2/0.5; 40 x=1.5/0.5; 50 y=9/0.5"; strings.Join(got, "; ") != want {
		t.Errorf("the samples are %q, want %q", strings.Join(got, "; "), want)
	}
	var long queueHistory
	for n := range 5000 {
		long.add(line("a", uint64(n+1), n, fmt.Sprintf("x=%d", n)))
	}
	all := long.samples()
	if last := all[len(all)-1]; len(all) > mostSamples+2 || len(all) < mostSamples/2 || last.Queues["x"].Used["cpu"] != 4999 {
		t.Errorf("of 5000 lines there are %d samples; the last is %+v", len(all), last)
	}
}
