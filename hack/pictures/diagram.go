package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strings"
)

// diagram is a graph of states and edges. A picture may have a diagram.
type diagram struct {
	States []state `json:"states"`
	Edges  []edge  `json:"edges"`
}

// state is a box of a diagram. Column and Row are its position, counted in boxes.
type state struct {
	Name   string  `json:"name"`
	Column float64 `json:"column"`
	Row    float64 `json:"row"`
	// Color is the index of the frame's color in colors().
	Color int `json:"color"`
}

type edge struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Label string `json:"label"` // lines are separated by "|"
}

const (
	boxWidth, boxHeight     = 126.0, 40.0
	columnWidth, rowHeight  = 240.0, 118.0
	labelHeight, labelWidth = 16.0, 6.8 // of one line, and of one character
	twoWays                 = 18.0      // between the two edges of a pair of states
)

// checkDiagram returns an error if an edge names an unknown state, or if the color of a state is
// not in colors().
func (p *picture) checkDiagram() error {
	for _, s := range p.States {
		if s.Color < 0 || s.Color >= len(colors()) {
			return fmt.Errorf("state %s has the color %d of %d", s.Name, s.Color, len(colors()))
		}
	}
	for _, e := range p.Edges {
		for _, end := range []string{e.From, e.To} {
			if _, ok := p.state(end); !ok {
				return fmt.Errorf("there is no state %q", end)
			}
		}
	}
	return nil
}

func (p *picture) state(name string) (state, bool) {
	for _, s := range p.States {
		if s.Name == name {
			return s, true
		}
	}
	return state{}, false
}

func (s *state) center() (x, y float64) {
	return 2*margin + boxWidth/2 + s.Column*columnWidth, 2*margin + boxHeight/2 + s.Row*rowHeight
}

// diagramSize returns the width and height of the diagram in pixels, or 0 and 0 if the diagram has
// no states.
func (p *picture) diagramSize() (width, height int) {
	for _, s := range p.States {
		x, y := s.center()
		width, height = max(width, int(x+boxWidth/2)+2*margin), max(height, int(y+boxHeight/2)+margin)
	}
	return width, height
}

func (p *picture) drawDiagram(out *bytes.Buffer) {
	for _, e := range p.Edges {
		from, _ := p.state(e.From)
		to, _ := p.state(e.To)
		p.drawEdge(out, &from, &to, e)
	}
	for _, s := range p.States {
		x, y := s.center()
		fmt.Fprintf(out, `<rect class="back s%d" x="%.0f" y="%.0f" width="%.0f" height="%.0f" rx="8"/>`,
			s.Color, x-boxWidth/2, y-boxHeight/2, boxWidth, boxHeight)
		fmt.Fprintf(out, `<text class="head mid" x="%.0f" y="%.0f">%s</text>`+"\n", x, y+5, html.EscapeString(s.Name))
	}
}

// drawEdge draws an arrow between the borders of two boxes, and its label at the middle of the
// arrow. If two states have edges in both directions, the two arrows are drawn side by side.
func (p *picture) drawEdge(out *bytes.Buffer, from, to *state, e edge) {
	x1, y1 := from.center()
	x2, y2 := to.center()
	dx, dy := x2-x1, y2-y1
	length := math.Hypot(dx, dy)
	dx, dy = dx/length, dy/length
	side := 0.0
	for _, other := range p.Edges {
		if other.From == e.To && other.To == e.From {
			side = twoWays / 2
		}
	}
	x1, y1, x2, y2 = x1-dy*side, y1+dx*side, x2-dy*side, y2+dx*side
	// border is the distance from the center of a box to its border along the edge. dx and dy are a
	// unit vector.
	border := math.Min(boxWidth/2/math.Max(math.Abs(dx), 1e-9), boxHeight/2/math.Max(math.Abs(dy), 1e-9))
	x1, y1, x2, y2 = x1+dx*(border+2), y1+dy*(border+2), x2-dx*(border+4), y2-dy*(border+4)
	fmt.Fprintf(out, `<path class="arrow" d="M%.1f %.1fL%.1f %.1f"/>`, x1, y1, x2, y2)
	fmt.Fprintf(out, `<path class="arrow" d="M%.1f %.1fL%.1f %.1fL%.1f %.1f"/>`,
		x2-9*dx+5*dy, y2-9*dy-5*dx, x2, y2, x2-9*dx-5*dy, y2-9*dy+5*dx)
	lines := strings.Split(e.Label, "|")
	// The label is beside the arrow. Its side is the outer side for a pair of arrows, the left side
	// for an upward arrow, and the upper side for a horizontal arrow.
	x, y := (x1+x2)/2-dy*side, (y1+y2)/2+dx*side
	height := labelHeight * float64(len(lines))
	class := "note mid"
	switch {
	case math.Abs(dx) < 0.2 && (side > 0) == (dy > 0):
		class = "note end"
		x -= 8
		y -= height / 2
	case math.Abs(dx) < 0.2:
		class, x, y = "note", x+8, y-height/2
	case math.Abs(dy) < 0.2 && dx*side >= 0 && side > 0:
		y += 2
	case math.Abs(dy) < 0.2:
		y -= height + 6
	default:
		y -= height / 2
		longest := 0
		for _, line := range lines {
			longest = max(longest, len([]rune(line)))
		}
		w := labelWidth*float64(longest) + 8
		fmt.Fprintf(out, `<rect class="back" x="%.0f" y="%.0f" width="%.0f" height="%.0f"/>`, x-w/2, y-2, w, height+4)
	}
	for i, line := range lines {
		fmt.Fprintf(out, `<text class="%s" x="%.0f" y="%.0f">%s</text>`, class, x, y+labelHeight*float64(i)+12, html.EscapeString(line))
	}
	out.WriteString("\n")
}
