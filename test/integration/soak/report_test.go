package soak

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
	"github.com/reprieve-dev/reprieve/test/integration/soak/invariants"
)

// hourMark and shortMark are the lines before a report in the page, and endMark is the line after
// it. The page has one report of a run of an hour or more, and one report of a shorter run.
const (
	hourMark  = "<!-- Written by make soak that lasts an hour. -->"
	shortMark = "<!-- Written by make soak that is shorter. -->"
	endMark   = "<!-- Up to here. -->"
)

// report has the results of a run.
type report struct {
	seed        uint64
	began       time.Time
	duration    time.Duration
	counts      invariants.Counts
	violations  []invariants.Violation
	faults      []struck
	first, last levels
	// deeds maps the name of a deed to the number of times that the hostile tenant has done it.
	deeds map[string]int
	// exits is the number of times that a scheduler has exited without being killed.
	exits int64
}

// String returns the report as Markdown.
func (r report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Seed %d, %v from %s on. Two schedulers on %d nodes; %d cores for all processes together, %s.\n\n", r.seed, r.duration.Round(time.Second),
		r.began.UTC().Format("2006-01-02 15:04"), nodeCount, runtime.NumCPU(), runtime.Version())
	b.WriteString("| Invariant | Checks | Violations |\n| --- | ---: | ---: |\n")
	for _, name := range invariants.Names() {
		broken := 0
		for _, v := range r.violations {
			if v.Invariant == name {
				broken++
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %d |\n", name, r.counts.Judged[name], broken)
	}
	b.WriteString("\n| Fault | Times | Total time |\n| --- | ---: | ---: |\n")
	times, took := make(map[string]int), make(map[string]time.Duration)
	for _, f := range r.faults {
		times[f.name]++
		took[f.name] += f.took
	}
	for _, name := range slices.Sorted(maps.Keys(times)) {
		fmt.Fprintf(&b, "| %s | %d | %v |\n", name, times[name], took[name].Round(time.Second))
	}
	if len(r.deeds) > 0 {
		b.WriteString("\n| The hostile tenant | Times |\n| --- | ---: |\n")
		for _, name := range slices.Sorted(maps.Keys(r.deeds)) {
			fmt.Fprintf(&b, "| %s | %d |\n", name, r.deeds[name])
		}
	}
	c := r.counts
	fmt.Fprintf(&b, "\n| Counted in the run | Number |\n| --- | ---: |\n| Pods created | %d |\n| Pods bound | %d |\n| Gangs with minCount bound members | %d |\n| Pods evicted | %d |\n"+
		"| Victims reclaimed by another queue (a group counts once) | %d |\n| Groups evicted as a whole | %d |\n| Longest wait for room within a quota | %v |\n| States of objects that the checker read | %d |\n| Scheduler processes that exited without a kill | %d |\n",
		c.Pods, c.Bound, c.Whole, c.Victims, c.Reclaims, c.Groups, c.Entitled.Round(time.Second/10), c.States, r.exits)
	b.WriteString("\n| The leader in the last third of the run | At the start | At the end |\n| --- | ---: | ---: |\n")
	row := func(what, format string, first, last float64) {
		fmt.Fprintf(&b, "| %s | "+format+" | "+format+" |\n", what, first, last)
	}
	row("Live objects on the heap, MiB", "%.1f", r.first.heap/(1<<20), r.last.heap/(1<<20))
	row("Heap pages with these objects, MiB", "%.1f", r.first.spans/(1<<20), r.last.spans/(1<<20))
	row("Goroutines", "%.0f", r.first.goroutines, r.last.goroutines)
	row("Pods with reserved room", "%.0f", r.first.promises, r.last.promises)
	row("Pods in the cluster", "%.0f", float64(r.first.pods), float64(r.last.pods))
	for _, v := range r.violations {
		fmt.Fprintf(&b, "\n- %v", v)
	}
	if len(r.violations) > 0 {
		b.WriteString("\n")
	}
	return b.String()
}

// writeInto writes the report into the page. It replaces the report of a run with a similar
// duration.
func (r report) writeInto(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	page, err := r.putInto(string(raw))
	if err != nil {
		return fmt.Errorf("write the report into %s: %w", path, err)
	}
	return os.WriteFile(path, []byte(page), 0o644)
}

func (r report) putInto(page string) (string, error) {
	mark := shortMark
	if r.duration >= time.Hour {
		mark = hourMark
	}
	before, rest, found := strings.Cut(page, mark)
	_, after, ended := strings.Cut(rest, endMark)
	if !found || !ended {
		return "", errors.New("it has no place between " + mark + " and " + endMark)
	}
	return before + mark + "\n\n" + r.String() + "\n" + endMark + after, nil
}

// TestReport checks that a report replaces only the report of a run with a similar duration.
func TestReport(t *testing.T) {
	t.Parallel()
	page := "head\n" + hourMark + "\n\nNo figures yet.\n\n" + endMark + "\nmiddle\n" + shortMark + "\n\nold\n\n" + endMark + "\ntail\n"
	r := report{seed: 7, duration: time.Hour, violations: []invariants.Violation{{Invariant: invariants.LimitExceeded, Text: "too much"}}}
	hour, err := r.putInto(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"head\n" + hourMark, "Seed 7,", "| no limit is exceeded | 0 | 1 |", "too much", "\nmiddle\n", "\nold\n", "\ntail\n"} {
		if !strings.Contains(hour, want) {
			t.Errorf("It lacks %q:\n%s", want, hour)
		}
	}
	if strings.Contains(hour, "No figures yet") {
		t.Error("What was there before is still there")
	}
	r.duration = time.Minute
	if short, err := r.putInto(page); err != nil || !strings.Contains(short, "No figures yet") || strings.Contains(short, "\nold\n") {
		t.Errorf("A short run: %v\n%s", err, short)
	}
	if _, err := r.putInto("head\n"); err == nil {
		t.Error("A page without a place takes it")
	}
}

// TestPage checks that the committed page has both reports, and that it describes each fault and
// each invariant.
func TestPage(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(playgroundtest.ModuleRoot(t), "docs", "results", "endurance.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	for _, r := range []report{{duration: time.Hour}, {duration: time.Minute}} {
		if _, err := r.putInto(page); err != nil {
			t.Error(err)
		}
	}
	for _, f := range faults() {
		if !strings.Contains(page, "**"+f.name+"**") {
			t.Errorf("It does not say what the fault %q is", f.name)
		}
	}
	for _, d := range deeds() {
		if !strings.Contains(page, "**"+d.name+"**") {
			t.Errorf("It does not describe the deed %q", d.name)
		}
	}
	for _, name := range invariants.Names() {
		if !strings.Contains(page, "**"+string(name)+"**") {
			t.Errorf("It does not say what it means that %s", name)
		}
	}
}

// TestTooMuch checks which increases exceed the bounds.
func TestTooMuch(t *testing.T) {
	t.Parallel()
	first := levels{heap: 100 << 20, goroutines: 500}
	cases := map[string]struct {
		last levels
		want string
	}{
		"as before":             {last: first},
		"a little more":         {last: levels{heap: 110 << 20, goroutines: 530}},
		"a heap that grows":     {last: levels{heap: 170 << 20, goroutines: 500}, want: "heap"},
		"goroutines that leak":  {last: levels{heap: 100 << 20, goroutines: 700}, want: "goroutines"},
		"a promise that stays":  {last: levels{heap: 100 << 20, goroutines: 500, promises: 1}, want: "promised"},
		"a nomination":          {last: levels{heap: 100 << 20, goroutines: 500, nominated: 1}, want: "nominated"},
		"a group that is going": {last: levels{heap: 100 << 20, goroutines: 500, disrupted: 1}, want: "on record"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := strings.Join(tooMuch(first, c.last), "; ")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
