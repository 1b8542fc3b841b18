package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	// above, below and left are the widths of the margins around the lines, in pixels. The upper
	// margin has the title. The lower margin has the times and the legend. The left margin has the
	// values.
	above, below, left = 34, 26, 78
	legendLine         = 17
	// letter is the approximate width of a letter in pixels.
	letter = 6.3
)

// graph draws a panel with lines over time.
func graph(b *strings.Builder, p *panel, lines []line, a *answers, at box) {
	defaults := &p.FieldConfig.Defaults
	stacked := defaults.Custom.Stacking.Mode == "normal"
	if stacked {
		lines = stack(lines)
	}
	legend := layOut(lines, at.w-16)
	plot := box{x: at.x + left, y: at.y + above, w: at.w - left - 12}
	plot.h = at.h - above - below - float64(legend.rows)*legendLine

	most := 0.0
	for _, l := range lines {
		for _, v := range l.points {
			most = max(most, v.value)
		}
	}
	limit, hasLimit := defaults.limit()
	if hasLimit {
		most = max(most, limit)
	}
	values := ticks(most)
	top := values[len(values)-1]
	down := func(value float64) float64 { return plot.y + plot.h*(1-value/top) }
	across := func(seconds float64) float64 {
		return plot.x + plot.w*(seconds-float64(a.Begin))/float64(max(1, a.End-a.Begin))
	}
	for _, value := range values {
		fmt.Fprintf(b, `<path class="grid" d="M%.1f %.1fh%.1f"/><text class="faint" x="%.1f" y="%.1f" text-anchor="end">%s</text>`+"\n",
			plot.x, down(value), plot.w, plot.x-6, down(value)+4, escape(format(value, defaults.Unit)))
	}
	for second := int64(0); second <= a.End-a.Begin; second += timeStep(a.End - a.Begin) {
		fmt.Fprintf(b, `<text class="faint" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n",
			across(float64(a.Begin+second)), plot.y+plot.h+16, seconds(float64(second)))
	}
	if hasLimit {
		fmt.Fprintf(b, `<path class="limit" d="M%.1f %.1fh%.1f"/>`+"\n", plot.x, down(limit), plot.w)
	}
	for i := range lines {
		colour := colours()[i%len(colours())]
		if stacked {
			var below []point
			if i > 0 {
				below = lines[i-1].points
			}
			fill(b, lines[i].points, below, colour, float64(defaults.Custom.FillOpacity)/100, across, down)
		}
		trace(b, &lines[i], colour, across, down)
	}
	for i, l := range lines {
		x, y := at.x+8+legend.at[i].x, at.y+at.h-float64(legend.rows-legend.at[i].row)*legendLine+7
		fmt.Fprintf(b, `<path d="M%.1f %.1fh12" stroke="%s" stroke-width="3"%s/><text x="%.1f" y="%.1f">%s</text>`+"\n",
			x, y-4, colours()[i%len(colours())], dashes(&l), x+16, y, escape(l.name))
	}
}

// limit returns the threshold that the graph shows as a line. It returns false if the graph shows
// none.
func (f *field) limit() (float64, bool) {
	if f.Custom.ThresholdsStyle.Mode != "line" {
		return 0, false
	}
	for _, s := range f.Thresholds.Steps {
		if s.Value != nil {
			return *s.Value, true
		}
	}
	return 0, false
}

// apart is the greatest distance of two samples that a line connects, in seconds.
const apart = 3

// trace draws one line. In a sequence of points with equal values, it draws only the first and the
// last point.
func trace(b *strings.Builder, l *line, colour string, across, down func(float64) float64) {
	fmt.Fprintf(b, `<path class="line" stroke="%s"%s d="`, colour, dashes(l))
	for i, v := range l.points {
		first := i == 0 || v.at-l.points[i-1].at > apart
		last := i == len(l.points)-1 || l.points[i+1].at-v.at > apart
		switch {
		case first && last:
			fmt.Fprintf(b, "M%.0f %.0fh1", across(v.at), down(v.value))
		case first:
			fmt.Fprintf(b, "M%.0f %.0f", across(v.at), down(v.value))
		case last || v.value != l.points[i-1].value || v.value != l.points[i+1].value:
			fmt.Fprintf(b, "L%.0f %.0f", across(v.at), down(v.value))
		}
	}
	b.WriteString("\"/>\n")
}

// fill draws the area between the line upper and the line lower. If lower is empty, the area ends
// at the value 0.
func fill(b *strings.Builder, upper, lower []point, colour string, opacity float64, across, down func(float64) float64) {
	if len(lower) == 0 {
		lower = []point{{at: upper[0].at}, {at: upper[len(upper)-1].at}}
	}
	fmt.Fprintf(b, `<path fill="%s" fill-opacity="%.2f" d="M`, colour, opacity)
	for _, v := range level(upper) {
		fmt.Fprintf(b, "%.0f %.0f ", across(v.at), down(v.value))
	}
	for _, v := range slices.Backward(level(lower)) {
		fmt.Fprintf(b, "%.0f %.0f ", across(v.at), down(v.value))
	}
	b.WriteString("Z\"/>\n")
}

// level returns the points without each point whose two neighbors have the same value as the point.
func level(points []point) []point {
	var out []point
	for i, v := range points {
		if i == 0 || i == len(points)-1 || v.value != points[i-1].value || v.value != points[i+1].value {
			out = append(out, v)
		}
	}
	return out
}

func dashes(l *line) string {
	if l.dashed {
		return ` stroke-dasharray="6 6"`
	}
	return ""
}

// stack adds to each line the values of the lines before it. A line that lacks a value at a time
// counts as 0.
func stack(lines []line) []line {
	sums := map[float64]float64{}
	for _, l := range lines {
		for _, v := range l.points {
			sums[v.at] = 0
		}
	}
	times := slices.Sorted(maps.Keys(sums))
	out := make([]line, 0, len(lines))
	for _, l := range lines {
		for _, v := range l.points {
			sums[v.at] += v.value
		}
		on := line{name: l.name, dashed: l.dashed}
		for _, at := range times {
			on.points = append(on.points, point{at: at, value: sums[at]})
		}
		out = append(out, on)
	}
	return out
}

// legends has the positions of the names in a legend: the offset from the left in pixels, and the
// row.
type legends struct {
	rows int
	at   []struct {
		x   float64
		row int
	}
}

// layOut distributes the names of a legend over rows of the given width.
func layOut(lines []line, width float64) legends {
	out := legends{rows: 1}
	x := 0.0
	for _, l := range lines {
		needs := 32 + letter*float64(len([]rune(l.name)))
		if x > 0 && x+needs > width {
			out.rows++
			x = 0
		}
		out.at = append(out.at, struct {
			x   float64
			row int
		}{x, out.rows - 1})
		x += needs
	}
	return out
}
