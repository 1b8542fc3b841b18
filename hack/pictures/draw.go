package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
)

// picture is a parsed file of docs/pictures. It has either a diagram of states, or panels. A panel
// shows nodes as rows of cells, colored by workload.
type picture struct {
	diagram

	Title       string     `json:"title"`
	Description string     `json:"description"` // for screen readers
	Cells       int        `json:"cells"`       // of each node
	CellSize    int        `json:"cellSize"`    // 24 if unset
	Stacked     bool       `json:"stacked"`     // panels are below each other
	Workloads   []workload `json:"workloads"`
	Panels      []panel    `json:"panels"`
	Notes       []string   `json:"notes"` // lines of text below the panels
}

type workload struct {
	Name  string `json:"name"`
	Label string `json:"label"`
}

type panel struct {
	Title string `json:"title"`
	Rows  []row  `json:"rows"`
}

// row is a node of a panel. uses maps a workload to the number of cells that it uses on the node.
type row struct {
	name string
	uses map[string]int
}

// UnmarshalJSON reads an object with the key "name". Each other key is a workload, and its value is
// a number of cells.
func (r *row) UnmarshalJSON(raw []byte) error {
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	r.uses = make(map[string]int, len(all))
	for key, value := range all {
		if key == "name" {
			if err := json.Unmarshal(value, &r.name); err != nil {
				return err
			}
			continue
		}
		var cells int
		if err := json.Unmarshal(value, &cells); err != nil {
			return err
		}
		r.uses[key] = cells
	}
	return nil
}

const (
	margin     = 16
	cellSize   = 24 // the side of a cell and the gap behind it
	gap        = 4
	nameWidth  = 64
	lineHeight = 22
	panelGap   = 72
	textWidth  = 7.6 // of one character of a note, at most
)

// colors returns the colors of the workloads, in the order of the workloads. Each element has a
// color for light displays and a color for dark displays.
func colors() [][2]string {
	return [][2]string{{"#8250df", "#a371f7"}, {"#bf8700", "#d29922"}, {"#1f7a3d", "#3fb950"}, {"#0969da", "#58a6ff"}}
}

// check returns an error if the picture is not valid, for example if workloads use more cells of a
// node than it has. It also fills in the default of CellSize.
func (p *picture) check() error {
	if len(p.Workloads) > len(colors()) {
		return fmt.Errorf("%d workloads, and %d colors", len(p.Workloads), len(colors()))
	}
	if p.CellSize == 0 {
		p.CellSize = cellSize
	}
	if err := p.checkDiagram(); err != nil {
		return err
	}
	if p.Title == "" || p.Description == "" {
		return errors.New("the picture needs a title and a description")
	}
	for _, panel := range p.Panels {
		for _, r := range panel.Rows {
			known, used := 0, 0
			for _, w := range p.Workloads {
				if n, ok := r.uses[w.Name]; ok {
					known, used = known+1, used+n
				}
			}
			if known != len(r.uses) || used > p.Cells {
				return fmt.Errorf("panel %q: %s uses %v of %d cells", panel.Title, r.name, r.uses, p.Cells)
			}
		}
	}
	return nil
}

// layout has the sizes of a picture and the positions of its parts, in pixels.
type layout struct {
	width, height  int
	panelsX        []int
	panelsY        []int
	legendY, noteY int
}

func (p *picture) layout() layout {
	var l layout
	panelWidth, bottom := nameWidth+p.Cells*p.CellSize, 0
	x, y := margin, margin
	for i, panel := range p.Panels {
		if i > 0 && !p.Stacked {
			x += panelWidth + panelGap
		}
		l.panelsX, l.panelsY = append(l.panelsX, x), append(l.panelsY, y)
		height := lineHeight + len(panel.Rows)*cellSize
		bottom = max(bottom, y+height)
		if p.Stacked {
			y += height + margin
		}
		l.width = max(l.width, x+panelWidth+margin)
	}
	width, height := p.diagramSize()
	l.width, bottom = max(l.width, width), max(bottom, height)
	for _, note := range p.Notes {
		l.width = max(l.width, 2*margin+int(textWidth*float64(len([]rune(note)))))
	}
	l.legendY = bottom + 2*margin
	l.noteY = l.legendY + len(p.Workloads)*lineHeight + margin/2
	l.height = l.noteY + len(p.Notes)*lineHeight + margin/2
	return l
}

func (p *picture) draw(out *bytes.Buffer) {
	l := p.layout()
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-labelledby="t d">`+"\n",
		l.width, l.height, l.width, l.height)
	fmt.Fprintf(out, "<title id=\"t\">%s</title>\n<desc id=\"d\">%s</desc>\n", html.EscapeString(p.Title), html.EscapeString(p.Description))
	p.style(out)
	fmt.Fprintf(out, `<rect class="back" width="%d" height="%d" rx="8"/>`+"\n", l.width, l.height)
	for i, panel := range p.Panels {
		x, y := l.panelsX[i], l.panelsY[i]
		if i > 0 && !p.Stacked {
			middle := y + lineHeight + len(panel.Rows)*cellSize/2
			fmt.Fprintf(out, `<path class="arrow" d="M%d %dh%dm-8 -7l8 7l-8 7"/>`+"\n", x-panelGap+14, middle, panelGap-32)
		}
		p.drawPanel(out, panel, x, y)
	}
	p.drawDiagram(out)
	for i, w := range p.Workloads {
		y := l.legendY + i*lineHeight
		fmt.Fprintf(out, `<rect class="w%d" x="%d" y="%d" width="14" height="14" rx="3"/>`, i, margin, y-12)
		fmt.Fprintf(out, `<text x="%d" y="%d">%s</text>`+"\n", margin+22, y, html.EscapeString(w.Label))
	}
	for i, note := range p.Notes {
		fmt.Fprintf(out, `<text x="%d" y="%d">%s</text>`+"\n", margin, l.noteY+(i+1)*lineHeight-margin/2, html.EscapeString(note))
	}
	out.WriteString("</svg>\n")
}

// style writes the style sheet. Its colors are for light displays, and a media query replaces them
// for dark displays.
func (p *picture) style(out *bytes.Buffer) {
	out.WriteString("<style>\ntext{font:14px ui-sans-serif,system-ui,sans-serif}.head{font-weight:600}.note{font-size:12px}.mid{text-anchor:middle}.end{text-anchor:end}\n")
	for mode, frame := range [][3]string{{"#ffffff", "#1f2328", "#e7ebef"}, {"#0d1117", "#e6edf3", "#262c36"}} {
		if mode == 1 {
			out.WriteString("@media (prefers-color-scheme: dark){\n")
		}
		fmt.Fprintf(out, ".back{fill:%s}text{fill:%s}.free{fill:%s}.arrow{fill:none;stroke:%s;stroke-width:2.5}\n", frame[0], frame[1], frame[2], frame[1])
		for i, color := range colors() {
			fmt.Fprintf(out, ".w%d{fill:%s}.s%d{stroke:%s;stroke-width:2.5}", i, color[mode], i, color[mode])
		}
		out.WriteString("\n")
	}
	out.WriteString("}\n</style>\n")
}

// drawPanel writes one panel: a title, and a row of cells for each node.
func (p *picture) drawPanel(out *bytes.Buffer, panel panel, x, top int) {
	fmt.Fprintf(out, `<text class="head" x="%d" y="%d">%s</text>`+"\n", x, top+10, html.EscapeString(panel.Title))
	for i, r := range panel.Rows {
		y := top + lineHeight + i*cellSize
		fmt.Fprintf(out, `<text x="%d" y="%d">%s</text>`, x, y+15, html.EscapeString(r.name))
		at := 0
		for w, of := range p.Workloads {
			for range r.uses[of.Name] {
				p.drawCell(out, fmt.Sprintf("w%d", w), x, y, at)
				at++
			}
		}
		for ; at < p.Cells; at++ {
			p.drawCell(out, "free", x, y, at)
		}
		out.WriteString("\n")
	}
}

func (p *picture) drawCell(out *bytes.Buffer, class string, x, y, at int) {
	between := min(gap, p.CellSize/4)
	fmt.Fprintf(out, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="%d"/>`,
		class, x+nameWidth+at*p.CellSize, y, p.CellSize-between, cellSize-gap, between-1)
}
