package escape

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Mark is the first byte of a mark, which is two bytes long. UTF-8 text never contains this byte.
// The second byte is a key of [Writer.Marks].
const Mark = 0xff

// Text returns text with its control characters escaped, except line breaks and tabs.
func Text(text []byte) []byte { return appendTo(nil, text, nil) }

// Line returns text as one line with its control characters escaped. Line breaks and tabs become
// spaces.
func Line(text string) string {
	return string(Text([]byte(strings.Map(func(r rune) rune {
		switch r {
		case '\n', '\r', '\t', '\v', '\f':
			return ' '
		}
		return r
	}, text))))
}

// JSON returns encoded JSON with the remaining control characters escaped twice. So a page that
// decodes a string and shows it displays the escape, such as \u001b. Characters that the JSON
// encoder has escaped keep their meaning.
func JSON(encoded []byte) []byte {
	out := make([]byte, 0, len(encoded))
	for _, r := range string(encoded) {
		if isControl(r) {
			out = fmt.Appendf(out, `\\u%04x`, r)
			continue
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

// Writer escapes the control characters in everything that is written to it, except line breaks and
// tabs. It is safe for concurrent use.
type Writer struct {
	// To is the destination.
	To io.Writer
	// Marks maps the second byte of a mark to the escape sequence that replaces the mark, such as a
	// color. Marks with other bytes are escaped.
	Marks map[byte]string

	mu sync.Mutex
	// rest is an incomplete character or mark at the end of the last Write.
	rest []byte
}

// Write writes escaped text to To. It returns the error of To.
func (w *Writer) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.Concat(w.rest, text)
	whole := len(all) - unfinished(all)
	w.rest = slices.Clone(all[whole:])
	if err := w.put(all[:whole], w.Marks); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Close writes an incomplete character at the end of the text. It does not close To.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.put(w.rest, nil)
	w.rest = nil
	return err
}

// put writes escaped text to To. It skips empty texts, because writing nothing to a pipe blocks
// until a reader opens it.
func (w *Writer) put(text []byte, marks map[byte]string) error {
	if len(text) == 0 {
		return nil
	}
	_, err := w.To.Write(appendTo(nil, text, marks))
	return err
}

// unfinished returns the number of bytes at the end of text that are an incomplete character or
// mark.
func unfinished(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		end := text[len(text)-n:]
		if n == 1 && end[0] == Mark || utf8.RuneStart(end[0]) && !utf8.FullRune(end) {
			return n
		}
	}
	return 0
}

func appendTo(out, text []byte, marks map[byte]string) []byte {
	for len(text) > 0 {
		if text[0] == Mark && len(text) > 1 {
			if sequence, ok := marks[text[1]]; ok {
				out, text = append(out, sequence...), text[2:]
				continue
			}
		}
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, text[0])
		case isControl(r):
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = append(out, text[:size]...)
		}
		text = text[size:]
	}
	return out
}

// isControl reports whether a character controls a terminal, or changes the order or the place of
// other characters on the screen.
func isControl(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ', r >= 0x7f && r < 0xa0:
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0xfeff:
		// These characters change the direction of text or separate lines.
		return true
	}
	return false
}
