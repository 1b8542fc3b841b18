package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/reprieve-dev/reprieve/test/peers"
)

// peersText runs test cases of other schedulers, and compares their expected outcomes with
// Reprieve's outcomes.
func peersText(_ context.Context, r *run) (string, error) {
	tables, err := peers.Tables()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| Source | Cases | Same outcome | Other outcome, explained | Same or explained | Cases left out |\n")
	b.WriteString("| --- | ---: | ---: | ---: | ---: | --- |\n")
	sums, skipped, rules := make(map[string]peers.Agreement), make(map[string]int), make(map[string]int)
	for i := range tables {
		t := &tables[i]
		a := t.Compare()
		for _, fault := range a.Faults {
			fmt.Fprintf(r.progress, "%s: %s\n", t.Name, fault)
		}
		var left []string
		for _, s := range t.Skipped {
			left = append(left, fmt.Sprintf("%d: %s", s.Cases, s.Reason))
			skipped[t.Repository] += s.Cases
		}
		fmt.Fprintf(&b, "| `%s` %s, %.7s | %s | %s |\n", t.Repository, t.File, t.Commit, countsOf(a), strings.Join(left, "; "))
		sums[t.Repository] = plus(sums[t.Repository], a)
		for j := range t.Cases {
			if rule := t.Cases[j].Rule; rule != "" {
				rules[rule]++
			}
		}
	}
	all, out := peers.Agreement{}, 0
	for _, repository := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&b, "| **%s** | %s | %d |\n", repository, countsOf(sums[repository]), skipped[repository])
		all, out = plus(all, sums[repository]), out+skipped[repository]
	}
	fmt.Fprintf(&b, "| **all** | %s | %d |\n\nThe rules and pages that explain the differences:\n\n| Rule or page | Cases |\n| --- | ---: |\n", countsOf(all), out)
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		name := "`" + rule + "`"
		if page, ok := strings.CutPrefix(rule, "docs/"); ok {
			name = fmt.Sprintf("[%s](../%s)", page, page)
		}
		fmt.Fprintf(&b, "| %s | %d |\n", name, rules[rule])
	}
	fmt.Fprintf(&b, "\nThe peers name the node of %d workloads that run as they expect. %d of them run on that node.\n", all.Nodes, all.SameNode)
	return b.String(), nil
}

func plus(a, b peers.Agreement) peers.Agreement {
	return peers.Agreement{
		Cases: a.Cases + b.Cases, Agree: a.Agree + b.Agree, Explained: a.Explained + b.Explained,
		Nodes: a.Nodes + b.Nodes, SameNode: a.SameNode + b.SameNode,
	}
}

// countsOf returns the last four cells of a table row: the numbers of cases, with percentages.
func countsOf(a peers.Agreement) string {
	part := func(n int) string { return fmt.Sprintf("%d (%.0f %%)", n, 100*float64(n)/float64(max(a.Cases, 1))) }
	return fmt.Sprintf("%d | %s | %s | %s", a.Cases, part(a.Agree), part(a.Explained), part(a.Agree+a.Explained))
}
