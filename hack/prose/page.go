package main

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxLine is the greatest length of a line of text, in columns.
const maxLine = 100

var (
	// itemStart matches the start of a list item, a quotation or a heading.
	itemStart = regexp.MustCompile(`^\s*(?:[-*+]|\d+\.|>|#+)\s+`)
	// These expressions match the parts of a Markdown paragraph that are not checked.
	inlineCode = regexp.MustCompile("``[^`]+``|`[^`]+`")
	linkTarget = regexp.MustCompile(`\]\([^)\s]*\)|\]\[[^\]]*\]|https?://\S+`)
	tag        = regexp.MustCompile(`<[^<>\s][^<>]*>`)
)

// pageText returns the paragraphs of a Markdown page, without code, tables and comments.
func pageText(file, content string) *text {
	t := &text{file: file}
	var current *paragraph
	end := func() {
		if current != nil && current.text != "" {
			current.mask("")
			t.paragraphs = append(t.paragraphs, current)
		}
		current = &paragraph{file: file}
	}
	end()
	fenced, comment := false, false
	for i, line := range strings.Split(content, "\n") {
		bare := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(bare, "```") || strings.HasPrefix(bare, "~~~"):
			fenced = !fenced
			end()
			continue
		case fenced:
			continue
		case comment || strings.HasPrefix(bare, "<!--"):
			comment = !strings.Contains(bare, "-->")
			end()
			continue
		case bare == "" || isIndentedCode(line) || strings.HasPrefix(bare, "|"):
			end()
			continue
		}
		if tooLong(line) {
			t.long = append(t.long, longLine(file, i+1, line))
		}
		if marker := itemStart.FindString(line); marker != "" {
			end()
			line = line[len(marker):]
		}
		current.add(strings.TrimSpace(line), i+1)
		if strings.HasPrefix(bare, "#") {
			end()
		}
	}
	end()
	return t
}

// isIndentedCode reports whether a line is indented so far that Markdown shows it as code.
func isIndentedCode(line string) bool {
	return strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t")
}

// maskMarkup overwrites the inline code, tags and link targets of a paragraph. Byte offsets stay
// the same.
func maskMarkup(s string) string {
	s = inlineCode.ReplaceAllStringFunc(s, func(code string) string { return strings.Repeat("x", len(code)) })
	s = tag.ReplaceAllStringFunc(s, func(tag string) string { return strings.Repeat(" ", len(tag)) })
	return linkTarget.ReplaceAllStringFunc(s, func(target string) string {
		if strings.HasPrefix(target, "]") {
			return "]" + strings.Repeat(" ", len(target)-1)
		}
		return strings.Repeat("x", len(target))
	})
}

// tooLong reports whether a line is wider than maxLine and has a space where it can be broken.
func tooLong(line string) bool {
	if widthOf(line) <= maxLine {
		return false
	}
	for word := range strings.FieldsSeq(line) {
		if utf8.RuneCountInString(word) > maxLine-20 {
			return false
		}
	}
	return true
}

// longLine returns the finding about a line that is too long.
func longLine(file string, line int, content string) finding {
	return finding{file: file, line: line, rule: "Line", match: strings.TrimSpace(content)[:20] + "…",
		message: "break the line: at most 100 characters"}
}

// widthOf returns the width of a line in columns. A tab ends at the next multiple of four.
func widthOf(line string) int {
	width := 0
	for _, r := range line {
		if r == '\t' {
			width += 4 - width%4
		} else {
			width++
		}
	}
	return width
}
