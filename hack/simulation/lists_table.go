package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/reprieve-dev/reprieve/internal/simulation"
)

// aim is the goal of a variant. Each field is the highest ratio of the variant's result to the
// yardstick's result. 0 means no goal.
type aim struct {
	// These are the bounds:
	//
	//   - lost: the ratio of lost GPU-hours in the sum of all cells
	//   - worst: the ratio of lost GPU-hours in each cell
	//   - wait: the ratio of the p99 wait of preemptors
	lost, worst, wait float64
}

// aims returns the aims by the name of their variant.
func aims() map[string]aim {
	order := aim{lost: 0.9, worst: 1, wait: 1.02}
	return map[string]aim{defaultOrder: order, "bands": {lost: 0.6}, "bands, checkpoints": {lost: 0.2}}
}

// bounds returns ratios of lost GPU-hours, by shape and variant. Another simulator, which changed
// only the order of victims, has reached these ratios for two lists.
func bounds() map[string]map[string]string {
	return map[string]map[string]string{
		"single pods": {"bands": "0.76× and 0.45×; without priorities 0.61× and 0.16×"},
		"gangs":       {"bands": "0.95× and 0.86×; without priorities 0.83× and 0.71×"},
	}
}

// listsBlock returns the block of the page with the table of lists.
func listsBlock() block {
	return block{"<!-- make simulation-lists writes from here -->\n", "<!-- the lists end here -->\n"}
}

// sums has the sums of one variant's results over some cells.
type sums struct {
	lost                 float64
	pods, byReplacements int
	// waitP50 and waitP99 are sums over the cells, in seconds.
	waitP50, waitP99 float64
	cells            int
}

func (s *sums) add(r *simulation.Result) {
	s.lost += r.GPUHours.Lost
	s.pods += r.EvictedPods
	s.byReplacements += r.EvictedByReplacements
	s.waitP50 += r.PreemptorWait.P50
	s.waitP99 += r.PreemptorWait.P99
	s.cells++
}

// mean divides a sum over the cells by the number of cells. The sum is in seconds.
func (s *sums) mean(seconds float64) string {
	return time.Duration(seconds / float64(max(s.cells, 1)) * float64(time.Second)).Round(time.Second).String()
}

// tableOf is a list of cells with functions that write tables.
type tableOf []*cell

// sum adds up the results of one variant over the cells that wanted selects. variant is an index in
// variants().
func (t tableOf) sum(variant int, wanted func(*cell) bool) sums {
	var out sums
	for _, c := range t {
		if wanted(c) {
			out.add(c.results[variant])
		}
	}
	return out
}

// worst compares the lost GPU-hours of two variants in each cell that wanted selects. It returns
// the cell with the highest ratio, the ratio, and the number of cells with a ratio above 1.
func (t tableOf) worst(variant, base int, wanted func(*cell) bool) (at *cell, most float64, above int) {
	for _, c := range t {
		if !wanted(c) {
			continue
		}
		of := quotient(c.results[variant].GPUHours.Lost, c.results[base].GPUHours.Lost)
		if of > 1 {
			above++
		}
		if at == nil || of > most {
			at, most = c, of
		}
	}
	return at, most, above
}

// quotient returns the ratio of two numbers. The ratio of 0 to 0 is 1.
func quotient(of, base float64) float64 {
	if of == base {
		return 1
	}
	return of / base
}

// baseOf returns the index of the yardstick that a variant is compared with. It has the same
// interval between checkpoints.
func baseOf(v variant) int {
	return slices.IndexFunc(variants(), func(o variant) bool { return o.policy == yardstick && o.checkpoint == v.checkpoint && o.salt == 0 })
}

// listsText returns the text of the block: the sample, the table of sums with the aims, the missed
// aims, and the table by list.
func (r *run) listsText(cells tableOf, lists, all, seeds int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
The table plays %d of the %d lists with seeds 1 to %d, in two shapes: all pods alone, and pods that
arrive together as gangs. It plays a sample: one of every %d pods or gangs, on %d nodes, at load 1.
Each seed selects another part of the list. So there are %d cells for each policy.

`, lists, all, seeds, r.sample.every, r.sample.nodes, len(cells))
	b.WriteString("| work | policy | GPU-hours lost | to kube-scheduler | worst cell | cells above 1× | pods evicted | by replacements | preemptors wait, p50 | p99 | aim | possible by order alone |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	var misses []string
	for _, shape := range slices.Sorted(maps.Keys(shapes())) {
		for i := range variants() {
			line, missed := cells.row(shape, i)
			b.WriteString(line)
			misses = append(misses, missed...)
		}
	}
	b.WriteString("\nAims that are missed:\n\n")
	for _, miss := range misses {
		b.WriteString("- " + miss + "\n")
	}
	if len(misses) == 0 {
		b.WriteString("- none\n")
	}
	b.WriteString("\n" + cells.byList())
	return b.String()
}

// row returns the table row of the variant with index i for one shape of work. It also describes
// the aims that the variant misses.
func (t tableOf) row(shape string, i int) (line string, misses []string) {
	v := variants()[i]
	wanted := func(c *cell) bool { return c.shape == shape }
	base := baseOf(v)
	got, standard := t.sum(i, wanted), t.sum(base, wanted)
	lost, wait := quotient(got.lost, standard.lost), quotient(got.waitP99, standard.waitP99)
	at, most, above := t.worst(i, base, wanted)
	a, worst, higher := aims()[v.name], "–", "–"
	if i != base && at != nil {
		worst = fmt.Sprintf("%.2f× (%s, seed %d)", most, at.list, at.seed)
		higher = fmt.Sprintf("%d of %d", above, got.cells)
	}
	var goals []string
	judge := func(of, more string, got, most float64) {
		if most == 0 {
			return
		}
		goals = append(goals, fmt.Sprintf("%s ≤ %g×", of, most))
		if got > most {
			misses = append(misses, fmt.Sprintf("%s, %s: %s %.2f×, aim %g×%s", shape, v.name, of, got, most, more))
		}
	}
	judge("lost", "", lost, a.lost)
	judge("each cell", fmt.Sprintf("; %d of %d cells are above 1×", above, got.cells), most, a.worst)
	judge("p99", "", wait, a.wait)
	line = fmt.Sprintf("| %s | %s | %.1f | %.2f× | %s | %s | %d | %d | %s | %s (%.2f×) | %s | %s |\n", shape, v.name, got.lost, lost, worst, higher, got.pods,
		got.byReplacements, got.mean(got.waitP50), got.mean(got.waitP99), wait, cmp.Or(strings.Join(goals, ", "), "–"), cmp.Or(bounds()[shape][v.name], "–"))
	return line, misses
}

// byList returns a table with a row of ratios for each list. Each ratio divides sums over all
// seeds.
func (t tableOf) byList() string {
	var b strings.Builder
	var names []string
	for _, c := range t {
		names = append(names, c.list)
	}
	slices.Sort(names)
	b.WriteString("By list, in sum over the seeds, the ratio of lost GPU-hours; in parentheses,\nthe ratio of the worst seed:\n\n| list | work |")
	for i, v := range variants() {
		if baseOf(v) != i {
			b.WriteString(" " + v.name + " |")
		}
	}
	b.WriteString("\n| --- | --- |" + strings.Repeat(" --- |", len(variants())-2) + "\n")
	for _, list := range slices.Compact(names) {
		for _, shape := range slices.Sorted(maps.Keys(shapes())) {
			wanted := func(c *cell) bool { return c.list == list && c.shape == shape }
			fmt.Fprintf(&b, "| %s | %s |", list, shape)
			for i, v := range variants() {
				base := baseOf(v)
				if base == i {
					continue
				}
				got, standard := t.sum(i, wanted), t.sum(base, wanted)
				_, most, _ := t.worst(i, base, wanted)
				fmt.Fprintf(&b, " %.2f× (%.2f×) |", quotient(got.lost, standard.lost), most)
			}
			b.WriteString("\n")
		}
	}
	return b.String() + "\n"
}
