package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/reprieve-dev/reprieve/internal/simulation"
	"github.com/reprieve-dev/reprieve/internal/simulation/plot"
)

const (
	trace     = "../../cmd/kubectl-reprieve/app/testdata/trace"
	committed = "../../docs/simulation.md"
	day       = "testdata/day"
)

// TestMain sorts the flags of the process before the tests. The first read of the flags sorts them.
// The tests run several commands concurrently, and these would sort the flags at the same time,
// which is a data race.
func TestMain(m *testing.M) {
	pflag.CommandLine.VisitAll(func(*pflag.Flag) {})
	os.Exit(m.Run())
}

// mustPlay simulates a trace and returns the results.
func mustPlay(t *testing.T, trace string, args []string) []*simulation.Result {
	t.Helper()
	results, err := resultsOf(t.Context(), trace, args)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// TestPage checks that the page gets the output of the command, that the plot shows the
// percentiles, and that the surrounding text stays. A check of this page must pass. After a number
// in the page changes, the check must fail.
func TestPage(t *testing.T) {
	t.Parallel()
	doc := filepath.Join(t.TempDir(), "page.md")
	page := "before\n" + wholeTrace().begin + "old figures\n" + wholeTrace().end + "between\n" + smallDay().begin + "older\n" + smallDay().end + "after\n"
	if err := os.WriteFile(doc, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run{trace: trace, day: trace, doc: doc, args: []string{"--seed", "3", "--load", "1.5"}}
	if err := r.write(t.Context()); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	table, err := ask(t.Context(), trace, r.args)
	if err != nil {
		t.Fatal(err)
	}
	want := "before\n" + wholeTrace().begin + "\n```console\n$ kubectl reprieve simulate --trace openb --seed 3 --load 1.5\n" + table +
		"```\n\n![How long work waited, by policy and priority](page.svg)\n\n" + wholeTrace().end + "between\n" + smallDay().begin
	if !strings.HasPrefix(string(written), want) || !strings.HasSuffix(string(written), "```\n\n"+smallDay().end+"after\n") {
		t.Errorf("the page is\n%s\nwant it to begin with\n%s", written, want)
	}
	picture, err := os.ReadFile(strings.TrimSuffix(doc, ".md") + ".svg")
	if err != nil {
		t.Fatal(err)
	}
	for decoder := xml.NewDecoder(strings.NewReader(string(picture))); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the plot is no XML: %v", err)
		}
	}
	if string(picture) != plot.Draw(mustPlay(t, trace, r.args)) || !strings.Contains(string(picture), "prefers-color-scheme: dark") {
		t.Error("the plot is not that of the answer")
	}
	r.check = true
	if err := r.write(t.Context()); err != nil {
		t.Errorf("the page that was just written: %v", err)
	}
	if err := os.WriteFile(doc, []byte(strings.Replace(string(written), "4 nodes", "5 nodes", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.write(t.Context()); !errors.Is(err, errDiffers) || !strings.Contains(err.Error(), "- 5 nodes") || !strings.Contains(err.Error(), "+ 4 nodes") {
		t.Errorf("a changed number: %v", err)
	}
}

// TestLists checks that the table has the sums of the command's results over all lists and seeds,
// and a row for each list. The table must omit lists without the column QoS, and lists whose work
// equals the work of another list.
func TestLists(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for to, from := range map[string]string{
		"openb_node_list_gpu_node.csv": "openb_node_list_gpu_node.csv", "openb_pod_list_one.csv": "openb_pod_list_default.csv", "openb_pod_list_two.csv": "openb_pod_list_default.csv",
	} {
		text, err := os.ReadFile(filepath.Join(trace, from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "openb_pod_list_plain.csv"), []byte("name,cpu_milli\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, sameWork+"05.csv"), []byte("name,qos\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	doc := filepath.Join(dir, "page.md")
	if err := os.WriteFile(doc, []byte("before\n"+listsBlock().begin+listsBlock().end+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run{trace: dir, doc: doc}
	if err := r.writeLists(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	want, pods := 0.0, 0
	for _, seed := range []string{"1", "2"} {
		for _, result := range mustPlay(t, trace, []string{"--load", "1", "--seed", seed, "--policy", yardstick}) {
			want, pods = want+2*result.GPUHours.Lost, pods+2*result.EvictedPods
		}
	}
	if want == 0 {
		t.Fatal("nothing is lost: the trace proves nothing")
	}
	for _, words := range []string{
		"before\n", "after\n", "2 of the 4 lists with seeds 1 to 2", "there are 8 cells", fmt.Sprintf("| gangs | kube-scheduler | %.1f | 1.00× | – | – | %d |", want, pods),
		"| one | single pods |", "| two | gangs |",
	} {
		if !strings.Contains(string(page), words) {
			t.Errorf("the page has no %q:\n%s", words, page)
		}
	}
	if err := (&run{trace: t.TempDir(), doc: doc}).writeLists(t.Context(), 1); err == nil {
		t.Error("a directory without lists is no error")
	}
}

// TestMisses checks that the text names the aims that a policy misses, with the number of cells.
func TestMisses(t *testing.T) {
	t.Parallel()
	cells := func(lost ...float64) tableOf {
		var out tableOf
		for i, l := range lost {
			c := &cell{list: fmt.Sprintf("list-%d", i), shape: "gangs", seed: 1}
			for _, v := range variants() {
				r := &simulation.Result{GPUHours: simulation.Hours{Lost: 10}, PreemptorWait: simulation.Waits{P99: 60}}
				if v.name == defaultOrder {
					r.GPUHours.Lost = l
				}
				c.results = append(c.results, r)
			}
			out = append(out, c)
		}
		return out
	}
	at := slices.IndexFunc(variants(), func(v variant) bool { return v.name == defaultOrder })
	for name, c := range map[string]struct {
		cells tableOf
		want  []string
	}{
		"none":        {cells: cells(9, 9)},
		"one cell":    {cells: cells(4, 12), want: []string{"gangs, default: each cell 1.20×, aim 1×; 1 of 2 cells are above 1×"}},
		"the sum too": {cells: cells(10, 9), want: []string{"gangs, default: lost 0.95×, aim 0.9×"}},
	} {
		line, misses := c.cells.row("gangs", at)
		if !slices.Equal(misses, c.want) || !strings.Contains(line, "| 1m0s (1.00×) | lost ≤ 0.9×, each cell ≤ 1×, p99 ≤ 1.02× |") {
			t.Errorf("%s: %q is missed, want %q; the row is %s", name, misses, c.want, line)
		}
	}
}

// TestCommitted checks that the committed page has the results of the large trace where the command
// writes them, and that the plot exists.
func TestCommitted(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(committed)
	if err != nil {
		t.Fatal(err)
	}
	_, text, _, err := wholeTrace().in(string(page))
	for _, words := range []string{"$ kubectl reprieve simulate --trace openb", "--seed", "KUBE-SCHEDULER", "(simulation.svg)"} {
		if err != nil || !strings.Contains(text, words) {
			t.Errorf("docs/simulation.md has no %q where make simulation writes: %v", words, err)
		}
	}
	if _, err := os.Stat("../../docs/simulation.svg"); err != nil {
		t.Error(err)
	}
}

// TestSmallDay checks that the committed page has the results that the program now produces for the
// small day. The large trace is not in the repository, so only this test can notice outdated
// results.
func TestSmallDay(t *testing.T) {
	t.Parallel()
	r := run{day: day, doc: committed, check: true}
	if err := r.write(t.Context()); err != nil {
		t.Error(err)
	}
}

// mostSteps is the greatest allowed number of steps for the small day, by policy. Each bound is 20
// % above the number of steps when the bound was set.
var mostSteps = map[string]int{"priority": 119_000, "queues": 4_910_000}

// TestWork checks that the decisions of the small day do not take more steps than allowed. It
// counts steps instead of time, because time depends on the machine. If a change makes a search do
// more work on purpose, raise the bound.
func TestWork(t *testing.T) {
	t.Parallel()
	bounded := 0
	for _, r := range mustPlay(t, day, dayArgs()) {
		most, isBounded := mostSteps[r.Policy]
		if !isBounded {
			continue
		}
		bounded++
		t.Logf("%s: %d decisions in %d steps", r.Policy, r.Decisions, r.Steps)
		if r.Decisions == 0 || r.Steps == 0 || r.Steps > most {
			t.Errorf("%s takes %d steps for %d decisions, want at most %d", r.Policy, r.Steps, r.Decisions, most)
		}
	}
	if bounded != len(mostSteps) {
		t.Errorf("%d policies have bounded steps, want %d", bounded, len(mostSteps))
	}
}
