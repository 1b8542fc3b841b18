package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// beginMark and endMark are the lines around the table in the documentation.
const (
	beginMark = "<!-- Written by make test-versions. -->"
	endMark   = "<!-- Up to here. -->"
)

// row is a table row with the results of a version. results has an element for each area.
type row struct {
	version, built string
	results        []result
}

// line returns the row as a line of the table.
func (r row) line() string {
	cells := []string{r.version, r.built}
	for _, result := range r.results {
		cells = append(cells, result.String())
	}
	return "| " + strings.Join(cells, " | ") + " |"
}

// write replaces the table in the page at path. If path is empty, it prints the table to out.
func write(out io.Writer, path string, rows []row) error {
	if path == "" {
		_, err := io.WriteString(out, table(nil, rows))
		return err
	}
	page, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	before, rest, found := strings.Cut(string(page), beginMark)
	old, after, ended := strings.Cut(rest, endMark)
	if !found || !ended {
		return errors.New(path + " has no place for the table")
	}
	text := before + beginMark + "\n\n" + table(strings.Split(old, "\n"), rows) + "\n" + endMark + after
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// table returns the table with the given rows. It keeps the old rows of versions that have no new
// row, if the old table has the same columns.
func table(old []string, rows []row) string {
	head, rule := "| Kubernetes | tested with |", "| --- | --- |"
	for _, a := range core() {
		head, rule = head+" "+a.name+" |", rule+" --- |"
	}
	lines := make(map[string]string)
	if slices.Contains(old, head) {
		for _, l := range old {
			if v := versionOf(l); v != "" {
				lines[v] = l
			}
		}
	}
	for _, r := range rows {
		lines[r.version] = r.line()
	}
	versions := make([]string, 0, len(lines))
	for v := range lines {
		versions = append(versions, v)
	}
	slices.SortFunc(versions, func(a, b string) int {
		// Sort by version, the newest first.
		n, _ := version.MustParseGeneric(b).Compare(a)
		return n
	})
	out := head + "\n" + rule + "\n"
	for _, v := range versions {
		out += lines[v] + "\n"
	}
	return out
}

// versionOf returns the version in a table row, or "" if the line has none.
func versionOf(line string) string {
	cells := strings.Split(line, "|")
	if len(cells) < 3 {
		return ""
	}
	v := strings.TrimSpace(cells[1])
	if _, err := version.ParseGeneric(v); err != nil {
		return ""
	}
	return v
}
