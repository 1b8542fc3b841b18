package main

import (
	"fmt"
	"slices"
	"strings"
)

// beginMark and endMark are the lines around the table in the documentation.
const (
	beginMark = "<!-- Written by make upstream-suites. -->"
	endMark   = "<!-- Up to here. -->"
)

// share returns the percentage of passed cases, rounded down.
func share(passed, all int) int {
	if all == 0 {
		return 0
	}
	return 100 * passed / all
}

// page returns the text for the documentation: a table with the counts of each test, and a row for
// each case that does not pass.
func page(version string, outcomes []outcome) string {
	type counts struct{ passed, differ, failed, skipped int }
	var order []string
	byTest := make(map[string]*counts)
	var total counts
	for _, o := range outcomes {
		test := o.pkg + ": " + topLevel(o.name)
		if byTest[test] == nil {
			byTest[test], order = &counts{}, append(order, test)
		}
		for _, c := range []*counts{byTest[test], &total} {
			switch o.result {
			case passed:
				c.passed++
			case skipped:
				c.skipped++
			case differs:
				c.differ++
			default:
				c.failed++
			}
		}
	}
	ran := total.passed + total.differ + total.failed
	var out strings.Builder
	fmt.Fprintf(&out, "Kubernetes %s: of %d cases, %d run and %d are skipped.\n", version, ran+total.skipped, ran, total.skipped)
	fmt.Fprintf(&out, "Of the cases that run, %d pass (%d %%), %d differ by design and %d fail.\n", total.passed, share(total.passed, ran), total.differ, total.failed)
	fmt.Fprintf(&out, "Without the cases that differ by design, %d %% pass.\n\n", share(total.passed, total.passed+total.failed))
	out.WriteString("| Test | Pass | Differ | Fail | Skipped |\n| --- | ---: | ---: | ---: | ---: |\n")
	for _, test := range order {
		c := byTest[test]
		fmt.Fprintf(&out, "| %s | %d | %d | %d | %d |\n", test, c.passed, c.differ, c.failed, c.skipped)
	}
	out.WriteString("\n| Case | Result | Reason |\n| --- | --- | --- |\n")
	for _, o := range outcomes {
		if o.result != passed {
			fmt.Fprintf(&out, "| `%s` | %s | %s |\n", strings.ReplaceAll(o.name, "|", `\|`), o.result, strings.ReplaceAll(o.reason, "|", `\|`))
		}
	}
	return out.String()
}

func topLevel(name string) string {
	top, _, _ := strings.Cut(name, "/")
	return top
}

// leaves returns the outcomes of tests without subtests, sorted by name.
func leaves(outcomes []outcome) []outcome {
	parents := make(map[string]bool)
	for _, o := range outcomes {
		for i := range o.name {
			if o.name[i] == '/' {
				parents[o.pkg+" "+o.name[:i]] = true
			}
		}
	}
	out := slices.DeleteFunc(slices.Clone(outcomes), func(o outcome) bool { return parents[o.pkg+" "+o.name] })
	slices.SortStableFunc(out, func(a, b outcome) int { return strings.Compare(a.pkg+" "+a.name, b.pkg+" "+b.name) })
	return out
}
