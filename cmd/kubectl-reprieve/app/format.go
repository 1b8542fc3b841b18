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
)

// The formats of answers.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

// answerVersion is the version of the answers in JSON and YAML.
const answerVersion = "cli.reprieve.dev/v1"

func formats() []string { return []string{formatTable, formatWide, formatJSON, formatYAML} }

func (a *asking) checkFormat() error {
	if !slices.Contains(formats(), a.format) {
		return usage(fmt.Errorf("--output %q: it is one of %s", a.format, strings.Join(formats(), ", ")))
	}
	return nil
}

// typed is the common head of all answers in JSON and YAML.
type typed struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Taken      time.Time `json:"taken"`
}

// write writes an answer: the value in JSON or YAML, or by show for people.
func (a *asking) write(value any, show func(to io.Writer, wide bool) error) error {
	var text []byte
	var err error
	switch a.format {
	case formatJSON:
		text, err = json.MarshalIndent(value, "", "  ")
		text = append(text, '\n')
	case formatYAML:
		text, err = yaml.Marshal(value)
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

// table writes rows in columns, as kubectl does.
func table(to io.Writer, rows [][]string) error {
	var text strings.Builder
	out := printers.GetNewTabWriter(&text)
	// Text from others, such as the notes of events, must fit in one line and one column.
	plain := strings.NewReplacer("\t", " ", "\n", " ", "\r", " ", "\f", " ", "\v", " ")
	for _, row := range rows {
		for i := range row {
			row[i] = plain.Replace(row[i])
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

// unpainted is a text without its colours, which take no room on a terminal.
func unpainted(text string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "\x1b[")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		_, text, _ = strings.Cut(rest, "m")
	}
}

// repainted is a line of a table with the colours of its cells.
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

// The colours of words that say how something stands.
const (
	good = "\x1b[32m"
	fair = "\x1b[33m"
	bad  = "\x1b[31m"
	bold = "\x1b[1m"
)

// paint colours a text on a terminal.
func (a *asking) paint(colour, text string) string {
	if !a.coloured {
		return text
	}
	return colour + text + "\x1b[0m"
}

// hours writes hours for people.
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

// plural counts things.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
