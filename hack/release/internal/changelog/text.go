package changelog

import (
	"regexp"
	"strings"
)

// link matches a Markdown link. Its groups are the text and the target.
var link = regexp.MustCompile(`\[([^\]]+)\]\(([^)\s]+)\)`)

// Absolute replaces each link to a file of the repository by a link to the file's web page. Users
// read release notes outside of the repository.
func Absolute(markdown string, page func(path string) string) string {
	return link.ReplaceAllStringFunc(markdown, func(found string) string {
		parts := link.FindStringSubmatch(found)
		if strings.Contains(parts[2], "://") || strings.HasPrefix(parts[2], "#") {
			return found
		}
		return "[" + parts[1] + "](" + page(parts[2]) + ")"
	})
}

// Plain returns Markdown as one line without links, code marks and bold marks. It is for places
// that do not render Markdown.
func Plain(markdown string) string {
	text := link.ReplaceAllString(markdown, "$1")
	text = strings.NewReplacer("`", "", "**", "").Replace(text)
	return strings.Join(strings.Fields(text), " ")
}
