// Package plot draws the waiting times of simulations as SVG.
//
// The plot has a panel for each priority with enough work. In a panel, each policy has a line. The
// line shows, for each waiting time, the percentage of the work that waited at most that time. The
// lines of policies differ in color and in dashes.
package plot

import (
	"fmt"
	"math"
	"strings"

	"github.com/reprieve-dev/reprieve/internal/simulation"
)

const (
	width, panelHeight, left, right, top, gap = 760, 190, 60, 20, 56, 50
	// fewest is the smallest number of workloads in a panel.
	fewest = 50
	// lowest is the start of the vertical axis, in percent. It is not 0, because most work does not
	// wait at all.
	lowest = 50
	// longest is the end of the horizontal axis, in seconds. The axis starts at one second.
	longest = 86400
)

// style has the colors for light and dark color schemes. Viewers without a color scheme show the
// light colors.
const style = `<style>
text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-weight:600}.frame{fill:none;stroke:#8c959f}.grid{stroke:#d0d7de}
.line{fill:none;stroke-width:2}.p0{stroke:#0550ae}.p1{stroke:#116329;stroke-dasharray:9 3}.p2{stroke:#a40e26;stroke-dasharray:3 3}.p3{stroke:#6e5494;stroke-dasharray:12 3 3 3}
.back{fill:#ffffff}
@media (prefers-color-scheme: dark){text{fill:#e6edf3}.frame{stroke:#8b949e}.grid{stroke:#30363d}
.p0{stroke:#79c0ff}.p1{stroke:#56d364}.p2{stroke:#ff7b72}.p3{stroke:#d2a8ff}.back{fill:#0d1117}}
</style>
`

// Draw returns a plot of the results as SVG. There must be at least one result. If no priority has
// enough work for a panel, each priority with any work gets one.
func Draw(results []*simulation.Result) string {
	panels := withWork(results[0], fewest)
	if len(panels) == 0 {
		panels = withWork(results[0], 1)
	}
	var b strings.Builder
	height := top + len(panels)*(panelHeight+gap)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="t">`+"\n", width, height)
	b.WriteString(`<title id="t">How long work waited: for each priority and policy, the part of the work that waited at most so long</title>` + "\n")
	b.WriteString(style)
	fmt.Fprintf(&b, `<rect class="back" width="%d" height="%d"/>`+"\n", width, height)
	for i, r := range results {
		x := left + i*170
		fmt.Fprintf(&b, `<path class="line p%d" d="M%d 18h34"/><text x="%d" y="22">%s</text>`+"\n", i%4, x, x+42, escape(r.Policy))
	}
	for k, i := range panels {
		panel(&b, results, i, top+k*(panelHeight+gap))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// withWork returns the indexes of the priorities that have the given number of workloads or more.
func withWork(r *simulation.Result, least int) []int {
	var out []int
	for i := range r.Priorities {
		if r.Priorities[i].Work >= least {
			out = append(out, i)
		}
	}
	return out
}

// panel draws the panel of the priority with the index i.
func panel(b *strings.Builder, results []*simulation.Result, i, y int) {
	g := &results[0].Priorities[i]
	fmt.Fprintf(b, `<text class="title" x="%d" y="%d">priority %d, %d workloads: part that waited at most so long</text>`+"\n", left, y-8, g.Priority, g.Work)
	for _, tick := range []struct {
		seconds float64
		name    string
	}{{1, "1 s"}, {10, "10 s"}, {60, "1 min"}, {600, "10 min"}, {3600, "1 h"}, {6 * 3600, "6 h"}, {longest, "1 d"}} {
		fmt.Fprintf(b, `<path class="grid" d="M%.1f %dv%d"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n",
			across(tick.seconds), y, panelHeight, across(tick.seconds), y+panelHeight+16, tick.name)
	}
	for part := lowest; part <= 100; part += 10 {
		fmt.Fprintf(b, `<path class="grid" d="M%d %.1fh%d"/><text x="%d" y="%.1f" text-anchor="end">%d %%</text>`+"\n",
			left, down(y, part), width-left-right, left-6, down(y, part)+4, part)
	}
	fmt.Fprintf(b, `<rect class="frame" x="%d" y="%d" width="%d" height="%d"/>`+"\n", left, y, width-left-right, panelHeight)
	for n, r := range results {
		fmt.Fprintf(b, `<path class="line p%d" d="`, n%4)
		for p, seconds := range r.Priorities[i].Wait.Percentiles {
			switch {
			case p == lowest:
				fmt.Fprintf(b, "M%.1f %.1f", across(seconds), down(y, p))
			case p > lowest:
				fmt.Fprintf(b, "H%.1fV%.1f", across(seconds), down(y, p))
			}
		}
		b.WriteString(`"/>` + "\n")
	}
}

// across returns the x coordinate of a waiting time. The axis is logarithmic.
func across(seconds float64) float64 {
	part := math.Log(min(max(seconds, 1), longest)) / math.Log(longest)
	return left + part*float64(width-left-right)
}

// down returns the y coordinate of a percentage, in the panel whose top is y.
func down(y, part int) float64 {
	return float64(y+panelHeight) - float64(part-lowest)/(100-lowest)*panelHeight
}

func escape(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}
