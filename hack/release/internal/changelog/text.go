package changelog

import (
	"regexp"
	"strings"
)

// link matches a link of Markdown: its text and its target.
var link = regexp.MustCompile(`\[([^\]]+)\]\(([^)\s]+)\)`)

// Absolute replaces links to files of the repository by links to their pages on the web, because
// release notes are read outside of the repository.
func Absolute(markdown string, page func(path string) string) string {
	return link.ReplaceAllStringFunc(markdown, func(found string) string {
		parts := link.FindStringSubmatch(found)
		if strings.Contains(parts[2], "://") || strings.HasPrefix(parts[2], "#") {
			return found
		}
		return "[" + parts[1] + "](" + page(parts[2]) + ")"
	})
}

// Plain returns the text of Markdown as one line, for places that do not render Markdown.
func Plain(markdown string) string {
	text := link.ReplaceAllString(markdown, "$1")
	text = strings.NewReplacer("`", "", "**", "").Replace(text)
	return strings.Join(strings.Fields(text), " ")
}
