package main

import (
	"errors"
	"fmt"
	"strings"
)

// beginMark and endMark are the lines around the table in the documentation.
const (
	beginMark = "<!-- Written by make conformance. -->"
	endMark   = "<!-- Up to here. -->"
)

// word returns the word for the result in the table.
func (r result) word() string {
	if r.violation != nil {
		return "fails"
	}
	return "passes"
}

// page returns the text for the documentation: a description of the cluster, and a table with a row
// for each check.
func page(version string, results []result) string {
	var out strings.Builder
	fmt.Fprintf(&out, "Kubernetes %s, %d simulated nodes with %d GPUs each. Each member of a gang requests %d GPUs.\n\n",
		version, nodeCount, gpusPerNode, gpusPerNode)
	out.WriteString("| Check | Requirement | Observed | Result |\n| --- | --- | --- | --- |\n")
	for _, r := range results {
		observed := r.observed
		if r.violation != nil {
			observed = r.violation.Error()
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", r.name, r.requirement, cell(observed), r.word())
	}
	return out.String()
}

// cell escapes the characters that would end a cell of a Markdown table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(text)
}

// failures returns an error that names the failed checks, or nil if all checks pass.
func failures(results []result) error {
	var errs []error
	for _, r := range results {
		if r.violation != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.name, r.violation))
		}
	}
	return errors.Join(errs...)
}
