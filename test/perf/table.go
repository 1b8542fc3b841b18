package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// result has the figures of both sides of a row. calls has the figures of the side callsAlone, if
// the aim of the row needs them.
type result struct {
	row                   row
	upstream, ours, calls *figures
}

// beginMark and endMark are the lines around the table in the documentation.
const (
	beginMark = "<!-- Written by make perf. -->"
	endMark   = "<!-- Up to here. -->"
)

const (
	rateHeader = "| Workload | Scheduler | Pods/s | p50 | p90 | p99 | All placed | Mean wait | Ratio | Aim |\n" +
		"| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n"
	gangHeader = "| Workload | Scheduler | Whole gang | p50 | p90 | p99 | Ratio | Aim |\n" +
		"| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |\n"
)

// table returns the table of results. The argument before is the old table. A row without a new
// result keeps its old lines, if the old table was measured with the same setting.
func table(setting string, all []row, size string, results []result, before string) string {
	if !strings.Contains(before, setting) {
		before = ""
	}
	var rates, gangs strings.Builder
	for i := range all {
		r := &all[i]
		to, cells := &rates, rateCells
		if r.gang {
			to, cells = &gangs, gangCells
		}
		if at := slices.IndexFunc(results, func(res result) bool { return res.row.name == r.name }); at >= 0 {
			to.WriteString(results[at].lines(r.titleAt(size), cells, results))
		} else {
			to.WriteString(linesOf(before, r.titleAt(size)))
		}
	}
	out := setting + "\n"
	if rates.Len() > 0 {
		out += "\n" + rateHeader + rates.String()
	}
	if gangs.Len() > 0 {
		out += "\n" + gangHeader + gangs.String()
	}
	return out
}

// setting describes the environment of the measurements.
func setting(cores int, kubernetes string) string {
	return fmt.Sprintf("Kubernetes %s, %d cores for all processes together.", kubernetes, cores)
}

// linesOf returns the lines of a table that are about one workload.
func linesOf(table, title string) string {
	var out strings.Builder
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "| "+title+" |") {
			out.WriteString(line)
		}
	}
	return out.String()
}

func rateCells(f *figures) []string {
	q := f.PerSecond
	return []string{rate(q.Average), rate(q.P50), rate(q.P90), rate(q.P99), placed(f), seconds(f.waits().Average)}
}

func gangCells(f *figures) []string {
	w := f.waits()
	return []string{placed(f), seconds(w.P50), seconds(w.P90), seconds(w.P99)}
}

// lines returns the lines of a row, one for each side. The function cells formats the figures of a
// side, and all has the results of all rows in this run.
func (r *result) lines(title string, cells func(*figures) []string, all []result) string {
	ratio := "—"
	if x, ok := r.row.ratio(r.upstream, r.ours); ok {
		ratio = fmt.Sprintf("%.2f×", x)
	}
	line := func(name string, f *figures, more ...string) string {
		all := append(append([]string{title, name}, cells(f)...), more...)
		return "| " + strings.Join(all, " | ") + " |\n"
	}
	out := line(r.row.rivalTitle(), r.upstream, "", "")
	if r.row.aim.calls > 0 {
		out += line("the API calls alone", r.calls, "", "")
	}
	return out + line("Reprieve", r.ours, ratio, r.judge(all))
}

// placed returns the time until all measured pods had a node. If some pods got no node, it returns
// the number of pods that got one.
func placed(f *figures) string {
	switch err := f.check(); {
	case errors.Is(err, errNoFigures):
		return "failed"
	case err != nil:
		return "gave up at " + thousands(f.Bound) + " of " + thousands(f.Wanted)
	}
	return seconds(f.Total)
}

func rate(v float64) string {
	if v == 0 {
		return "—"
	}
	return fmt.Sprintf("%.0f", v)
}

func seconds(v float64) string {
	switch {
	case v == 0:
		return "—"
	case v < 10:
		return fmt.Sprintf("%.2f s", v)
	}
	return fmt.Sprintf("%.1f s", v)
}

func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// splitDocument splits a page at its marks. table is the text between the marks.
func splitDocument(doc string) (before, table, after string, err error) {
	before, rest, ok1 := strings.Cut(doc, beginMark+"\n")
	table, after, ok2 := strings.Cut(rest, endMark)
	if !ok1 || !ok2 {
		return "", "", "", fmt.Errorf("no lines %q and %q", beginMark, endMark)
	}
	return before + beginMark + "\n", table, endMark + after, nil
}
