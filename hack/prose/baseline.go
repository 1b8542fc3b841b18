package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// baselineFile lists how many findings each package and page may still have.
const baselineFile = "hack/prose/baseline.txt"

// baselineHead is the comment at the top of the baseline.
const baselineHead = `# The findings that each package and page may still have. All others have none.
# Counts only fall: "make prose-baseline" lowers them after a rewrite.
`

// counts maps a package or page to the number of its findings for each rule.
type counts map[string]map[string]int

// countsOf counts the findings of each rule, for each package and page.
func countsOf(found []finding) counts {
	c := counts{}
	for _, f := range found {
		unit := unitOf(f.file)
		if c[unit] == nil {
			c[unit] = map[string]int{}
		}
		c[unit][f.rule]++
	}
	return c
}

// A rise is a count of one rule in a package or page that exceeds the count in the baseline.
type rise struct {
	unit, rule     string
	count, granted int
}

// of returns the findings of the rule and package or page of r.
func (r rise) of(found []finding) []finding {
	var of []finding
	for _, f := range found {
		if f.rule == r.rule && unitOf(f.file) == r.unit {
			of = append(of, f)
		}
	}
	return of
}

// risen returns the counts in now that exceed the granted counts. They are sorted by package or
// page, and then by rule.
func risen(granted, now counts) []rise {
	var above []rise
	for unit, rules := range now {
		for rule, count := range rules {
			if count > granted[unit][rule] {
				above = append(above, rise{unit: unit, rule: rule, count: count, granted: granted[unit][rule]})
			}
		}
	}
	slices.SortFunc(above, func(a, b rise) int {
		return cmp.Or(strings.Compare(a.unit, b.unit), strings.Compare(a.rule, b.rule))
	})
	return above
}

// unitsOf returns the number of packages and pages that have at least one rise.
func unitsOf(above []rise) int {
	units := map[string]bool{}
	for _, r := range above {
		units[r.unit] = true
	}
	return len(units)
}

// refuseRise returns an error if counts rose. If moved is true, it compares only the sum of each
// rule over all packages and pages, so findings may move between them.
func refuseRise(out io.Writer, granted, now counts, moved bool) error {
	above := risen(granted, now)
	if moved {
		above = risen(granted.sum(), now.sum())
	}
	for _, r := range above {
		fmt.Fprintf(out, "%s: %d findings of %s, the baseline grants %d\n", r.unit, r.count, r.rule, r.granted)
	}
	if len(above) > 0 {
		return errors.New("the baseline is not raised; for code that moved between packages: make prose-baseline MOVED=1")
	}
	return nil
}

// lower returns the smaller of the granted and the current count, for each rule of each package and
// page.
func lower(granted, now counts) counts {
	lower := counts{}
	for unit, rules := range now {
		for rule, count := range rules {
			if count = min(count, granted[unit][rule]); count == 0 {
				continue
			}
			if lower[unit] == nil {
				lower[unit] = map[string]int{}
			}
			lower[unit][rule] = count
		}
	}
	return lower
}

// sum adds up each rule over all packages and pages. The result has a single key.
func (c counts) sum() counts {
	sum := map[string]int{}
	for _, rules := range c {
		for rule, count := range rules {
			sum[rule] += count
		}
	}
	return counts{"all packages and pages": sum}
}

// readBaseline reads a baseline file. If a merge left two lines for one package or page, the lower
// counts apply.
func readBaseline(file string) (counts, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseBaseline(string(data))
}

// parseBaseline reads the lines of a baseline.
func parseBaseline(content string) (counts, error) {
	c := counts{}
	for line := range strings.SplitSeq(content, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		rules := map[string]int{}
		for _, field := range fields[1:] {
			rule, number, _ := strings.Cut(field, "=")
			count, err := strconv.Atoi(number)
			if err != nil {
				return nil, fmt.Errorf("%s: cannot read %q: write Rule=count", baselineFile, field)
			}
			rules[rule] = count
		}
		if before, listed := c[fields[0]]; listed {
			for rule := range rules {
				rules[rule] = min(rules[rule], before[rule])
			}
		}
		c[fields[0]] = rules
	}
	return c, nil
}

// writeBaseline writes a baseline: a line for each unit that has findings, sorted by name.
func writeBaseline(file string, c counts) error {
	var content strings.Builder
	content.WriteString(baselineHead)
	for _, unit := range slices.Sorted(maps.Keys(c)) {
		content.WriteString(unit)
		for _, rule := range slices.Sorted(maps.Keys(c[unit])) {
			fmt.Fprintf(&content, " %s=%d", rule, c[unit][rule])
		}
		content.WriteString("\n")
	}
	return os.WriteFile(file, []byte(content.String()), 0o644)
}
