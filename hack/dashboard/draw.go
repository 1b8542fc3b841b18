package main

import (
	"fmt"
	"math"
	"strings"
)

// These constants are the sizes of Grafana's panels in pixels: a grid of 24 columns, grid rows of a
// fixed height, and gaps between the panels.
const (
	columns     = 24
	columnWidth = 60
	unitHeight  = 30
	gap         = 8
	margin      = 12
)

// style is the style sheet of the picture. It has colors for light displays and for dark displays.
// The browser selects by the reader's preference.
const style = `<style>
text{font:12px system-ui,sans-serif;fill:#1f2328}.title{font-weight:600;font-size:13px}.row{font-weight:600;font-size:16px}.stat{font-size:38px;font-weight:600}
.back{fill:#f4f5f5}.panel{fill:#ffffff;stroke:#d0d7de}.grid{stroke:#d0d7de}.faint{fill:#59636e}
.green{fill:#1a7f37}.red{fill:#cf222e}.orange{fill:#bc4c00}.blue{fill:#0969da}.text{fill:#1f2328}
.line{fill:none;stroke-width:1.5;stroke-linejoin:round}.limit{stroke:#cf222e;stroke-dasharray:6 4}
@media (prefers-color-scheme: dark){text{fill:#e6edf3}.back{fill:#010409}.panel{fill:#0d1117;stroke:#30363d}.grid{stroke:#30363d}.faint{fill:#9198a1}
.green{fill:#3fb950}.red{fill:#f85149}.orange{fill:#db6d28}.blue{fill:#4493f8}.text{fill:#e6edf3}}
</style>
`

// colours returns the colors of a panel's lines, in the order of the lines. Each color is visible
// on light and on dark backgrounds.
func colours() []string {
	return []string{"#3b7dd8", "#c9820a", "#3d9a50", "#cf4a4a", "#8a63d2", "#1d9aaa", "#c2559d", "#8c6d46"}
}

// box is the position and size of a panel, in pixels.
type box struct{ x, y, w, h float64 }

// draw returns the picture of the dashboard as SVG.
func draw(d *dashboard, a *answers) (string, error) {
	var b strings.Builder
	height := 0
	for i := range d.Panels {
		height = max(height, d.Panels[i].GridPos.Y+d.Panels[i].GridPos.H)
	}
	w, h := columns*columnWidth+2*margin, height*(unitHeight+gap)+2*margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="t">`+"\n", w, h)
	fmt.Fprintf(&b, `<title id="t">The panels of the dashboard, over %d seconds of a playground under load</title>`+"\n%s", a.End-a.Begin, style)
	fmt.Fprintf(&b, `<rect class="back" width="%d" height="%d"/>`+"\n", w, h)
	for i := range d.Panels {
		p := &d.Panels[i]
		at := box{
			x: float64(margin + p.GridPos.X*columnWidth), y: float64(margin + p.GridPos.Y*(unitHeight+gap)),
			w: float64(p.GridPos.W*columnWidth - gap), h: float64(p.GridPos.H*(unitHeight+gap) - gap),
		}
		if p.Type == "row" {
			fmt.Fprintf(&b, `<text class="row" x="%g" y="%g">%s</text>`+"\n", at.x, at.y+20, escape(p.Title))
			continue
		}
		fmt.Fprintf(&b, `<rect class="panel" x="%g" y="%g" width="%g" height="%g" rx="3"/>`+"\n", at.x, at.y, at.w, at.h)
		fmt.Fprintf(&b, `<text class="title" x="%g" y="%g">%s</text>`+"\n", at.x+8, at.y+20, escape(a.fill(p.Title)))
		lines, err := a.lines(p)
		if err != nil {
			return "", err
		}
		switch {
		case len(lines) == 0:
			fmt.Fprintf(&b, `<text class="faint" x="%g" y="%g" text-anchor="middle">No data</text>`+"\n", at.x+at.w/2, at.y+at.h/2)
		case p.Type == "stat":
			stat(&b, p, lines, at)
		default:
			graph(&b, p, lines, a, at)
		}
	}
	b.WriteString("</svg>\n")
	return b.String(), nil
}

// stat draws a panel that shows the last value of its first line as a large number.
func stat(b *strings.Builder, p *panel, lines []line, at box) {
	points := lines[0].points
	last := points[len(points)-1].value
	shown := last
	if places := p.FieldConfig.Defaults.Decimals; places != nil {
		size := math.Pow10(*places)
		shown = math.Round(last*size) / size
	}
	fmt.Fprintf(b, `<text class="stat %s" x="%g" y="%g" text-anchor="middle">%s</text>`+"\n",
		escape(p.FieldConfig.Defaults.colour(last)), at.x+at.w/2, at.y+at.h/2+20, escape(format(shown, p.FieldConfig.Defaults.Unit)))
}

func escape(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(text)
}
