package escape

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Mark begins a mark: a byte that no text in UTF-8 contains. The byte after it is a key of
// [Writer.Marks].
const Mark = 0xff

// Text returns text without control characters, except line breaks and tabs.
func Text(text []byte) []byte { return appendTo(nil, text, nil) }

// Line returns text in one line, without control characters. Line breaks and tabs become spaces.
func Line(text string) string {
	return string(Text([]byte(strings.Map(func(r rune) rune {
		switch r {
		case '\n', '\r', '\t', '\v', '\f':
			return ' '
		}
		return r
	}, text))))
}

// JSON returns encoded JSON whose strings show readers the escapes of control characters. A
// character that the encoder has escaped keeps its meaning.
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

// Writer escapes the control characters in everything that it writes, except line breaks and tabs.
// It is safe for concurrent use.
type Writer struct {
	// To is the destination.
	To io.Writer
	// Marks are the sequences of the program itself, such as colors, by the byte after [Mark].
	// Other marks are escaped.
	Marks map[byte]string

	mu sync.Mutex
	// rest is the beginning of a character or mark whose end was not written yet.
	rest []byte
}

// Write is part of io.Writer. It returns the error of the destination.
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

// Close writes the rest of the text, if it ends in the middle of a character. It does not close the
// destination.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.put(w.rest, nil)
	w.rest = nil
	return err
}

// put writes escaped text. It does not write an empty text, because a pipe would wait for a reader.
func (w *Writer) put(text []byte, marks map[byte]string) error {
	if len(text) == 0 {
		return nil
	}
	_, err := w.To.Write(appendTo(nil, text, marks))
	return err
}

// unfinished returns the number of bytes at the end of text that begin a character or a mark.
func unfinished(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		end := text[len(text)-n:]
		if n == 1 && end[0] == Mark || utf8.RuneStart(end[0]) && !utf8.FullRune(end) {
			return n
		}
	}
	return 0
}

// appendTo appends the escaped text to out.
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

// isControl reports whether a terminal acts on a character, or shows other characters in another
// order or place because of it.
func isControl(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ', r >= 0x7f && r < 0xa0:
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0xfeff:
		// The directions of text, and line separators.
		return true
	}
	return false
}
