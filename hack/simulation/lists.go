package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	// podLists matches the lists of pods in a trace.
	podLists = "openb_pod_list_*.csv"
	// yardstick is the policy that the others are compared with.
	yardstick = "kube-scheduler"
)

// compared lists the policies of the table of lists, after the yardstick.
func compared() []string { return []string{"priority", "lost-work"} }

// checkpoints lists the intervals between checkpoints in the table of lists.
func checkpoints() []string { return []string{"0", "30m"} }

// listsBlock is the block with the table of lists.
func listsBlock() block {
	return block{"<!-- make simulation-lists writes from here -->\n", "<!-- the lists end here -->\n"}
}

// loss is the cost of evictions: GPU-hours of work, and pods.
type loss struct {
	hours float64
	pods  int
}

func (l loss) plus(other loss) loss { return loss{l.hours + other.hours, l.pods + other.pods} }

// writeLists plays every list of pods in the trace with every seed, and writes the table of losses.
// A row is the sum over the seeds.
func (r *run) writeLists(ctx context.Context, seeds int) error {
	lists, err := filepath.Glob(filepath.Join(r.trace, podLists))
	if err != nil {
		return err
	}
	if len(lists) == 0 {
		return errors.New("-lists needs a list of pods in -trace")
	}
	var rows []listLosses
	withoutQoS := 0
	for _, list := range lists {
		if hasQoS, err := hasColumn(list, "qos"); err != nil {
			return err
		} else if !hasQoS {
			withoutQoS++
			continue
		}
		row := listLosses{name: strings.TrimSuffix(strings.TrimPrefix(filepath.Base(list), "openb_pod_list_"), ".csv"), of: make(map[string]loss)}
		for seed := range seeds {
			if err := r.playList(ctx, list, seed+1, row.of); err != nil {
				return fmt.Errorf("%s, seed %d: %w", row.name, seed+1, err)
			}
		}
		fmt.Fprintln(os.Stderr, row.line())
		rows = append(rows, row)
	}
	old, err := os.ReadFile(r.doc)
	if err != nil {
		return err
	}
	page, err := listsBlock().put(string(old), listsText(r.args, seeds, rows, withoutQoS))
	if err != nil {
		return fmt.Errorf("%s: %w", r.doc, err)
	}
	return r.put(r.doc, []byte(page))
}

// playList plays one list of pods with a seed, and adds the losses by policy and interval.
func (r *run) playList(ctx context.Context, list string, seed int, of map[string]loss) error {
	for _, interval := range checkpoints() {
		args := append(slices.Clone(r.args), "--seed", strconv.Itoa(seed), "--checkpoint", interval)
		for _, policy := range append(compared(), yardstick) {
			args = append(args, "--policy", policy)
		}
		results, err := resultsOf(ctx, list, args)
		if err != nil {
			return err
		}
		for _, result := range results {
			key := result.Policy + interval
			of[key] = of[key].plus(loss{result.GPUHours.Lost, result.EvictedPods})
		}
	}
	return nil
}

// listLosses is one row: the losses of a list by policy and interval.
type listLosses struct {
	name string
	of   map[string]loss
}

// line returns the row of the table, with the ratios to the yardstick.
func (l *listLosses) line() string {
	cells := []string{l.name}
	for _, interval := range checkpoints() {
		base := l.of[yardstick+interval]
		cells = append(cells, fmt.Sprintf("%.1f", base.hours))
		for _, policy := range compared() {
			cells = append(cells, fmt.Sprintf("%.1f (%s)", l.of[policy+interval].hours, ratio(l.of[policy+interval].hours, base.hours)))
		}
	}
	return "| " + strings.Join(cells, " | ") + " |"
}

// ratio returns how many times as much one number is as another.
func ratio(of, base float64) string {
	if base == 0 {
		return "no ratio"
	}
	return fmt.Sprintf("%.2f×", of/base)
}

// listsText is the text of the block: the command, the table, its sums and the pods evicted.
func listsText(args []string, seeds int, rows []listLosses, withoutQoS int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d lists, seeds 1 to %d, `simulate %s`.\nGPU-hours lost, and the ratio to the model of kube-scheduler:\n\n", len(rows), seeds, strings.Join(args, " "))
	b.WriteString("| list | kube-scheduler | priority | lost-work | kube-scheduler, checkpoints every 30m | priority | lost-work |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	sum := listLosses{name: "**sum**", of: make(map[string]loss)}
	for i := range rows {
		b.WriteString(rows[i].line() + "\n")
		for key, l := range rows[i].of {
			sum.of[key] = sum.of[key].plus(l)
		}
	}
	b.WriteString(sum.line() + "\n\nPods evicted, in sum:\n\n")
	for at, interval := range checkpoints() {
		base := sum.of[yardstick+interval].pods
		fmt.Fprintf(&b, "- %s: %d by kube-scheduler", []string{"without checkpoints", "with checkpoints"}[at], base)
		for _, policy := range compared() {
			pods := sum.of[policy+interval].pods
			fmt.Fprintf(&b, ",\n  %d by %s (%s)", pods, policy, ratio(float64(pods), float64(base)))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	if withoutQoS > 0 {
		fmt.Fprintf(&b, "Lists without QoS, and so without priorities: %d.\n\n", withoutQoS)
	}
	return b.String()
}

// hasColumn reports whether the first line of a list names a column.
func hasColumn(list, column string) (bool, error) {
	f, err := os.Open(list)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	columns, err := csv.NewReader(f).Read()
	if err != nil {
		return false, fmt.Errorf("read the first line of %s: %w", list, err)
	}
	return slices.Contains(columns, column), nil
}
