// Command metricsdoc writes the table of metrics into docs/troubleshooting.md, from the
// descriptions in internal/metrics.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/reprieve-dev/reprieve/internal/metrics"
)

// header is the head of the table of metrics.
const header = "| metric | type | labels | meaning, and when to act |\n| --- | --- | --- | --- |\n"

func main() {
	page := flag.String("page", "docs/troubleshooting.md", "the page with the table")
	out := flag.String("out", "docs/troubleshooting.md", "the file to write")
	flag.Parse()
	if err := run(*page, *out); err != nil {
		fmt.Fprintln(os.Stderr, "metricsdoc:", err)
		os.Exit(1)
	}
}

func run(page, out string) error {
	raw, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	before, rest, ok := strings.Cut(string(raw), header)
	if !ok {
		return errors.New("the page has no table of metrics: its header has changed")
	}
	_, after, ok := strings.Cut(rest, "\n\n")
	if !ok {
		return errors.New("no empty line follows the table of metrics")
	}
	var b strings.Builder
	b.WriteString(before)
	b.WriteString(header)
	for _, d := range metrics.New().Descriptions() {
		b.WriteString(row(&d))
	}
	b.WriteString("\n")
	b.WriteString(after)
	return os.WriteFile(out, []byte(b.String()), 0o644)
}

// row returns the table row of a metric.
func row(d *metrics.Description) string {
	var labels []string
	for _, l := range d.Labels {
		labels = append(labels, "`"+l.Name+"`")
	}
	cells := []string{"`reprieve_" + d.Name + "`", string(d.Type), strings.Join(labels, ", "), strings.TrimSpace(d.Help + " " + d.Advice)}
	for i := range cells {
		if cells[i] != "" {
			cells[i] += " "
		}
	}
	return "| " + strings.Join(cells, "| ") + "|\n"
}
