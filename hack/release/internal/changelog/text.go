package changelog

import (
	"regexp"
	"strings"
)

// link is one of Markdown: its words, and where it goes.
var link = regexp.MustCompile(`\[([^\]]+)\]\(([^)\s]+)\)`)

// Absolute has the links to files of the repository go to where those are on the web, as release
// notes are read elsewhere.
func Absolute(markdown string, page func(path string) string) string {
	return link.ReplaceAllStringFunc(markdown, func(found string) string {
		parts := link.FindStringSubmatch(found)
		if strings.Contains(parts[2], "://") || strings.HasPrefix(parts[2], "#") {
			return found
		}
		return "[" + parts[1] + "](" + page(parts[2]) + ")"
	})
}

// Plain is Markdown's text in one line, for where no Markdown is read.
func Plain(markdown string) string {
	text := link.ReplaceAllString(markdown, "$1")
	text = strings.NewReplacer("`", "", "**", "").Replace(text)
	return strings.Join(strings.Fields(text), " ")
}
