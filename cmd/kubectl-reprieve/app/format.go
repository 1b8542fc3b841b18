package app

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/internal/escape"
)

// The values of --output.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

// answerVersion is the apiVersion of answers in JSON and YAML.
const answerVersion = "cli.reprieve.dev/v1"

func formats() []string { return []string{formatTable, formatWide, formatJSON, formatYAML} }

func (a *asking) checkFormat() error {
	if !slices.Contains(formats(), a.format) {
		return usage(fmt.Errorf("--output %q: it is one of %s", a.format, strings.Join(formats(), ", ")))
	}
	return nil
}

// typed has the first fields of most answers in JSON and YAML. Taken is the time of the objects
// that the answer is about.
type typed struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Taken      time.Time `json:"taken"`
}

// write prints an answer in the format of the flag --output. In JSON and YAML, it prints value. In
// the other formats, it calls show.
func (a *asking) write(value any, show func(to io.Writer, wide bool) error) error {
	var text []byte
	var err error
	switch a.format {
	case formatJSON:
		text, err = json.MarshalIndent(value, "", "  ")
		text = append(text, '\n')
	case formatYAML:
		// The YAML package rejects control characters in JSON but accepts their escapes.
		if text, err = json.Marshal(value); err == nil {
			text, err = yaml.JSONToYAML(escape.Text(text))
		}
	default:
		return show(a.streams.Out, a.format == formatWide)
	}
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	if _, err = a.streams.Out.Write(text); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// table prints rows in columns, in the format of kubectl.
func table(to io.Writer, rows [][]string) error {
	var text strings.Builder
	out := printers.GetNewTabWriter(&text)
	// Cells may be text from users, such as the messages of events. Each must stay in one line and
	// one column.
	for _, row := range rows {
		for i := range row {
			row[i] = paintedLine(row[i])
		}
		fmt.Fprintln(out, unpainted(strings.Join(row, "\t")))
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write a table: %w", err)
	}
	i := 0
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(to, strings.TrimRight(repainted(line, rows[i]), " \n")); err != nil {
			return fmt.Errorf("write a table: %w", err)
		}
		i++
	}
	return nil
}

// paintedLine returns a text as one line, without control characters. It keeps the marks of
// colours.
func paintedLine(text string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, mark)
		out.WriteString(escape.Line(before))
		if !found || rest == "" {
			return out.String()
		}
		out.WriteString(mark + rest[:1])
		text = rest[1:]
	}
}

// unpainted returns a text without the marks of colours, which must not count in the width of a
// column.
func unpainted(text string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, mark)
		out.WriteString(before)
		if !found || rest == "" {
			return out.String()
		}
		text = rest[1:]
	}
}

// repainted adds the colours of the cells to a line of a table that lacks them.
func repainted(line string, cells []string) string {
	var out strings.Builder
	for _, cell := range cells {
		before, after, _ := strings.Cut(line, unpainted(cell))
		out.WriteString(before)
		out.WriteString(cell)
		line = after
	}
	return out.String() + line
}

// mark begins the mark of a colour in output. A letter follows. The writer of the output replaces
// marks with terminal sequences, and escapes the terminal sequences in all other text.
const mark = "\xff"

// Marks in the text of an answer. The marks of colours are for words that describe a state, such as
// "Pending".
const (
	good = mark + "g"
	fair = mark + "f"
	bad  = mark + "b"
	bold = mark + "B"
	// uncoloured ends a colour.
	uncoloured = mark + "0"
	// cleared clears the line.
	cleared = mark + "c"
)

// colourMarks maps the letters of colour marks to terminal sequences.
func colourMarks() map[byte]string {
	return map[byte]string{'g': "\x1b[32m", 'f': "\x1b[33m", 'b': "\x1b[31m", 'B': "\x1b[1m", '0': "\x1b[0m"}
}

// progressMarks maps the letter of the mark that clears a line to the terminal sequence.
func progressMarks() map[byte]string { return map[byte]string{'c': "\r\x1b[K"} }

// paint returns a text in a colour. If the output is not a terminal, it returns the text unchanged.
func (a *asking) paint(colour, text string) string {
	if !a.coloured {
		return text
	}
	return colour + text + uncoloured
}

// hours formats a number of hours for people.
func hours(h float64) string {
	switch {
	case h == 0:
		return "0"
	case h < 0.05:
		return "<0.1"
	default:
		return fmt.Sprintf("%.1f", h)
	}
}

// plural returns a number with its noun in the singular or the plural, such as "2 pods".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
