package bench

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// report has the results of a run. Each field has the rows of one table.
type report struct {
	takings []taking
	rivals  []rival
	races   []race
	limits  []limit
	queues  []queued
	growths []growth
	spaces  []space
}

// race has the times of Reprieve and of upstream for the same decision.
type race struct {
	name, shape   string
	ours, against string
	mine, theirs  samples
	// aim is the required ratio of upstream's time to Reprieve's time; 0 if the row has no aim.
	aim float64
}

func (r *race) ratio() float64 {
	return float64(r.theirs.percentile(50)) / float64(r.mine.percentile(50))
}

// limit has the times of a decision by Reprieve. aim is their upper bound.
type limit struct {
	name, shape          string
	core, planned, whole samples
	aim                  time.Duration
}

// growth has the times of the same decision on two clusters. The second cluster is ten times as
// large as the first.
type growth struct {
	name, where  string
	nodes        [2]int
	small, large samples
	aim          float64
}

// space is an amount of memory in bytes. aim is its upper bound.
type space struct {
	name, shape string
	bytes, aim  float64
}

// missed returns the names of the rows that miss their aim.
func (r *report) missed() []string {
	var out []string
	add := func(met bool, name string, args ...any) {
		if !met {
			out = append(out, fmt.Sprintf(name, args...))
		}
	}
	for i := range r.races {
		x := &r.races[i]
		add(x.ratio() >= x.aim, "%s, %s: %.0f times", x.name, x.ours, x.ratio())
	}
	for i := range r.limits {
		x := &r.limits[i]
		add(x.whole.percentile(50) < x.aim, "%s, %s: %s", x.name, x.shape, duration(x.whole.percentile(50)))
	}
	for i := range r.queues {
		x := &r.queues[i]
		add(x.ratio() < x.aim, "%s under %s queues: %.2f times", x.name, x.kind, x.ratio())
	}
	for i := range r.growths {
		x := &r.growths[i]
		add(exponent(x.small, x.large, x.nodes) <= x.aim, "growth of %s, %s: %.2f", x.name, x.where, exponent(x.small, x.large, x.nodes))
	}
	for _, x := range r.spaces {
		add(x.bytes < x.aim, "%s: %.0f bytes", x.name, x.bytes)
	}
	return out
}

// markdown returns the report in Markdown. It omits tables without rows.
func (r *report) markdown(kubernetes string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d cores, %s/%s, %s, Kubernetes %s.\n", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), kubernetes)
	for _, section := range []struct {
		rows  int
		write func(*strings.Builder)
	}{
		{len(r.takings), r.writeVictims}, {len(r.rivals), r.writeRivals}, {len(r.races), r.writeRaces}, {len(r.limits), r.writeLimits},
		{len(r.queues), r.writeQueues}, {len(r.growths), r.writeGrowths}, {len(r.spaces), r.writeSpaces},
	} {
		if section.rows > 0 {
			section.write(&b)
		}
	}
	return b.String()
}

func (r *report) writeRaces(b *strings.Builder) {
	b.WriteString(`
### A pod beside upstream

Each row is the decision for one pod. The columns *Reprieve* and *Upstream* name the nodes that each
side examines, or the measured part. *Ratio* is upstream's time divided by Reprieve's.

`)
	row(b, "Benchmark", "Reprieve", "p50", "p99", "n", "Upstream", "p50", "p99", "n", "Ratio of p50", "Aim")
	rule(b, "l", "l", "r", "r", "r", "l", "r", "r", "r", "r", "r")
	for i := range r.races {
		x := &r.races[i]
		aim := "–"
		if x.aim > 0 {
			aim = fmt.Sprintf("%s×%s", thousands(int(x.aim)), mark(x.ratio() >= x.aim))
		}
		row(b, x.name+": "+x.shape, x.ours, duration(x.mine.percentile(50)), duration(x.mine.percentile(99)), thousands(len(x.mine)),
			x.against, duration(x.theirs.percentile(50)), duration(x.theirs.percentile(99)), thousands(len(x.theirs)),
			thousands(int(x.ratio()))+"×", aim)
	}
}

func (r *report) writeLimits(b *strings.Builder) {
	b.WriteString(`
### Against a limit

The rows have Reprieve's times only. *Core* is the search without reading the cluster. *Plan* adds
the reading of the cluster and the filters. *Plan and orders* adds the nominations and the orders to
evict. The aim is for the p50 of *Plan and orders*.

`)
	row(b, "Benchmark", "Core p50", "p99", "Plan p50", "p99", "Plan and orders p50", "p99", "n", "Aim")
	rule(b, "l", "r", "r", "r", "r", "r", "r", "r", "r")
	for i := range r.limits {
		x := &r.limits[i]
		p50, p99 := "–", "–"
		if len(x.core) > 0 {
			p50, p99 = duration(x.core.percentile(50)), duration(x.core.percentile(99))
		}
		row(b, x.name+": "+x.shape, p50, p99,
			duration(x.planned.percentile(50)), duration(x.planned.percentile(99)),
			duration(x.whole.percentile(50)), duration(x.whole.percentile(99)), thousands(len(x.whole)),
			"< "+duration(x.aim)+mark(x.whole.percentile(50) < x.aim))
	}
}

func (r *report) writeQueues(b *strings.Builder) {
	b.WriteString(`
### Reclaim under 1,000 queues

The times are of the core alone. The first two are for a decision that reclaims from other queues,
the next two for the same decision by priority, without queues. *Ratio* is the time with queues
divided by the time without. *guarded* queues have quotas and a min-runtime, *plain* queues do not.

`)
	row(b, "Benchmark", "Queues", "p50", "p99", "Without queues p50", "p99", "n", "Ratio of p50", "Aim")
	rule(b, "l", "l", "r", "r", "r", "r", "r", "r", "r")
	for i := range r.queues {
		x := &r.queues[i]
		row(b, x.name+": "+x.shape, string(x.kind), duration(x.with.percentile(50)), duration(x.with.percentile(99)),
			duration(x.without.percentile(50)), duration(x.without.percentile(99)), thousands(len(x.with)),
			fmt.Sprintf("%.2f×", x.ratio()), fmt.Sprintf("< %.0f×%s", x.aim, mark(x.ratio() < x.aim)))
	}
}

func (r *report) writeGrowths(b *strings.Builder) {
	b.WriteString(`
### Growth

Each row compares the same decision on a small and on a large cluster.

`)
	row(b, "Benchmark", "Where", "Nodes", "p50", "Nodes", "p50", "n", "Grows with nodes to the power of", "Aim")
	rule(b, "l", "l", "r", "r", "r", "r", "r", "r", "r")
	for i := range r.growths {
		x := &r.growths[i]
		e := exponent(x.small, x.large, x.nodes)
		row(b, x.name, x.where, thousands(x.nodes[0]), duration(x.small.percentile(50)), thousands(x.nodes[1]), duration(x.large.percentile(50)),
			thousands(len(x.large)), fmt.Sprintf("%.2f", e), fmt.Sprintf("≤ %.2f%s", x.aim, mark(e <= x.aim)))
	}
}

func (r *report) writeSpaces(b *strings.Builder) {
	b.WriteString(`
### Memory

The first row has the heap memory for each pod of the cluster. The second row has the memory that
one decision allocates.

`)
	row(b, "Benchmark", "Shape", "Bytes", "Aim")
	rule(b, "l", "l", "r", "r")
	for _, x := range r.spaces {
		row(b, x.name, x.shape, thousands(int(x.bytes)), "< "+thousands(int(x.aim))+mark(x.bytes < x.aim))
	}
}

// mark returns the sign for an aim that is met or missed.
func mark(met bool) string {
	if met {
		return " ✓"
	}
	return " missed"
}

func row(b *strings.Builder, cells ...string) {
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// rule writes the line between the head and the body of a table. align has "l" or "r" for each
// column: aligned to the left or to the right.
func rule(b *strings.Builder, align ...string) {
	cells := make([]string, len(align))
	for i, a := range align {
		cells[i] = "---"
		if a == "r" {
			cells[i] = "---:"
		}
	}
	row(b, cells...)
}

// duration formats a duration with three significant digits, in milliseconds or seconds.
func duration(d time.Duration) string {
	unit, v := "ms", milliseconds(d)
	if d >= time.Second {
		unit, v = "s", d.Seconds()
	}
	digits := 0
	for limit := 100.0; v < limit && digits < 3; limit /= 10 {
		digits++
	}
	text := fmt.Sprintf("%.*f", digits, v)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + " " + unit
}

// thousands returns a number with a comma after every three digits.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// kubernetesVersion returns the version of k8s.io/kubernetes in go.mod. It reads the file, because
// the build information of a test binary has no versions.
func kubernetesVersion() (string, error) {
	file, err := os.ReadFile("../../go.mod")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(file)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "k8s.io/kubernetes" {
			return f[1], nil
		}
	}
	return "", errors.New("go.mod does not require k8s.io/kubernetes")
}

// beginMark and endMark are the lines around the tables in the documentation.
const (
	beginMark = "<!-- Written by `make bench`. -->"
	endMark   = "<!-- End of what `make bench` writes. -->"
)

// replaceBlock replaces the text between the marks of a document.
func replaceBlock(document, text string) (string, error) {
	before, rest, ok := strings.Cut(document, beginMark+"\n")
	if !ok {
		return "", fmt.Errorf("the line %q is missing", beginMark)
	}
	_, after, ok := strings.Cut(rest, endMark+"\n")
	if !ok {
		return "", fmt.Errorf("the line %q is missing", endMark)
	}
	return before + beginMark + "\n\n" + strings.TrimSpace(text) + "\n\n" + endMark + "\n" + after, nil
}

// writeBlock replaces the text between the marks of a file.
func writeBlock(file, text string) error {
	document, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	changed, err := replaceBlock(string(document), text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(changed), 0o644)
}

func TestReplaceBlock(t *testing.T) {
	block := beginMark + "\nold\n" + endMark + "\n"
	tests := map[string]struct {
		document string
		want     string
		wantErr  bool
	}{
		"in the middle": {"# Top\n" + block + "end\n", "# Top\n" + beginMark + "\n\nnew\n\n" + endMark + "\nend\n", false},
		"no begin":      {"# Top\n" + endMark + "\n", "", true},
		"no end":        {"# Top\n" + beginMark + "\n", "", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := replaceBlock(tt.document, "new\n")
			if got != tt.want || (err != nil) != tt.wantErr {
				t.Errorf("replaceBlock = %q, %v, want %q, error %t", got, err, tt.want, tt.wantErr)
			}
		})
	}
}

func TestTimes(t *testing.T) {
	for ratio, want := range map[float64]string{0.0012: "0.0012×", 0.25: "0.2×", 9.96: "10.0×", 12.9: "12×", 1234: "1,234×"} {
		if got := times(ratio); got != want {
			t.Errorf("times(%v) = %q, want %q", ratio, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	tests := map[string]struct {
		d    time.Duration
		want string
	}{
		"microseconds": {123456 * time.Nanosecond, "0.123 ms"},
		"milliseconds": {12345 * time.Microsecond, "12.3 ms"},
		"whole":        {20 * time.Millisecond, "20 ms"},
		"hundreds":     {345678 * time.Microsecond, "346 ms"},
		"hundred":      {400 * time.Millisecond, "400 ms"},
		"seconds":      {17045 * time.Millisecond, "17 s"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := duration(tt.d); got != tt.want {
				t.Errorf("duration(%d) = %q, want %q", tt.d, got, tt.want)
			}
		})
	}
}
