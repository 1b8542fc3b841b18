package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	// directive matches comments for tools: //go:build, //nolint:x, // +marker.
	directive = regexp.MustCompile(`^//(?:[a-z0-9]+:[a-z0-9]|nolint|line | ?\+)`)
	// listMarker matches the start of a list item in a doc comment.
	listMarker = regexp.MustCompile(`^\s*(?:[-*+•]|\d+[.)])\s+`)
	// looksLikeCode matches a string that is a template, a query or a program. Such a string is not
	// a message.
	looksLikeCode = regexp.MustCompile(`%-?\d+|\\b|\(\?|\{\{|\$\{|=>|==|:=|&&|\|\||</|\(\)|;\s|\bby \(`)
	// letters matches one word of a message.
	letters = regexp.MustCompile(`[A-Za-z]{2,}`)
)

// minWords is the number of words that a string needs to count as a message.
const minWords = 4

// codeText returns the text of the comments and messages of a Go file.
func codeText(file string, content []byte) (*text, error) {
	positions := token.NewFileSet()
	parsed, err := parser.ParseFile(positions, file, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	c := &codeReader{text: &text{file: file}, positions: positions, lines: strings.Split(string(content), "\n"), named: names(parsed)}
	for _, group := range parsed.Comments {
		if !isLicence(group, parsed) {
			c.comment(group)
		}
	}
	ast.Inspect(parsed, c.messages)
	return c.text, nil
}

// A codeReader collects the prose of one Go file.
type codeReader struct {
	text      *text
	positions *token.FileSet
	lines     []string
	// named maps a doc comment to the identifier that it documents.
	named map[*ast.CommentGroup]string
}

// isLicence reports whether a comment is the licence header of a file.
func isLicence(group *ast.CommentGroup, file *ast.File) bool {
	text := group.Text()
	return group.End() < file.Package && group != file.Doc &&
		(strings.Contains(text, "Copyright") || strings.Contains(text, "Licen"))
}

// comment splits a comment into paragraphs and collects them.
func (c *codeReader) comment(group *ast.CommentGroup) {
	current, name := &paragraph{file: c.text.file}, c.named[group]
	end := func() {
		if current.text != "" {
			current.mask(name)
			name = ""
			c.text.paragraphs = append(c.text.paragraphs, current)
		}
		current = &paragraph{file: c.text.file}
	}
	for _, comment := range group.List {
		if directive.MatchString(comment.Text) {
			continue
		}
		first := c.positions.Position(comment.Pos()).Line
		for i, line := range strings.Split(commentBody(comment.Text), "\n") {
			c.checkWidth(first + i)
			bare := strings.TrimSpace(line)
			marker := listMarker.FindString(line)
			if bare == "" || marker == "" && isIndentedCode(line) {
				end()
				continue
			}
			if marker != "" || strings.HasPrefix(bare, "# ") {
				end()
				bare = strings.TrimSpace(line[len(marker):])
			}
			current.add(bare, first+i)
		}
	}
	end()
}

// checkWidth records a finding if a comment line of the file is too long.
func (c *codeReader) checkWidth(line int) {
	content := c.lines[line-1]
	if !strings.HasPrefix(strings.TrimSpace(content), "//") {
		// Only whole-line comments have a limit. This line is code with a comment at its end.
		return
	}
	if tooLong(content) {
		c.text.long = append(c.text.long, longLine(c.text.file, line, content))
	}
}

// commentBody returns a comment without its markers.
func commentBody(s string) string {
	if body, isLine := strings.CutPrefix(s, "//"); isLine {
		return strings.TrimPrefix(body, " ")
	}
	return strings.TrimSuffix(strings.TrimPrefix(s, "/*"), "*/")
}

// maskName replaces the identifier at the start of a doc comment by letters x, so that Vale does
// not check it as a word.
func maskName(line, name string) string {
	for _, article := range []string{"", "A ", "An ", "The "} {
		if rest, ok := strings.CutPrefix(line, article+name); ok {
			return article + strings.Repeat("x", len(name)) + rest
		}
	}
	return line
}

// names maps each doc comment of a file to the identifier that it documents.
func names(file *ast.File) map[*ast.CommentGroup]string {
	named := map[*ast.CommentGroup]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncDecl:
			named[n.Doc] = n.Name.Name
		case *ast.GenDecl:
			if len(n.Specs) == 1 {
				named[n.Doc] = specName(n.Specs[0])
			}
		case *ast.TypeSpec:
			named[n.Doc] = n.Name.Name
		case *ast.ValueSpec:
			named[n.Doc] = specName(n)
		case *ast.Field:
			if len(n.Names) > 0 {
				named[n.Doc] = n.Names[0].Name
			}
		}
		return true
	})
	delete(named, nil)
	return named
}

// specName returns the first identifier of a declaration.
func specName(spec ast.Spec) string {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		return s.Name.Name
	case *ast.ValueSpec:
		return s.Names[0].Name
	}
	return ""
}

// messages collects the string literals of a syntax tree that count as messages. It is a callback
// of ast.Inspect.
func (c *codeReader) messages(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.ImportSpec:
		return false
	case *ast.Field:
		// The tag of a struct field is not a message.
		if n.Tag != nil {
			ast.Inspect(n.Type, c.messages)
			return false
		}
	case *ast.BinaryExpr:
		if parts := literals(n); len(parts) > 0 && n.Op == token.ADD {
			c.message(parts)
			return false
		}
	case *ast.BasicLit:
		if n.Kind == token.STRING {
			c.message([]*ast.BasicLit{n})
		}
	}
	return true
}

// literals returns the string literals of a sum such as "a" + name + "b". It skips all other
// operands.
func literals(expr ast.Expr) []*ast.BasicLit {
	switch e := expr.(type) {
	case *ast.BinaryExpr:
		return slices.Concat(literals(e.X), literals(e.Y))
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			return []*ast.BasicLit{e}
		}
	}
	return nil
}

// message splits a string into paragraphs and collects them. The string is the concatenation of
// parts.
func (c *codeReader) message(parts []*ast.BasicLit) {
	current := &paragraph{file: c.text.file}
	end := func() {
		if len(letters.FindAllString(current.text, minWords)) == minWords && !looksLikeCode.MatchString(current.text) {
			current.mask("")
			c.text.paragraphs = append(c.text.paragraphs, current)
		}
		current = &paragraph{file: c.text.file}
	}
	fenced := false
	for _, part := range parts {
		value, err := strconv.Unquote(part.Value)
		if err != nil {
			continue
		}
		raw := strings.HasPrefix(part.Value, "`")
		line := c.positions.Position(part.Pos()).Line
		for i, content := range strings.Split(value, "\n") {
			bare := strings.TrimSpace(content)
			switch {
			case strings.HasPrefix(bare, "```"):
				fenced = !fenced
				end()
				continue
			case fenced:
				continue
			case i > 0 && (bare == "" || raw && isIndentedCode(content)), strings.HasPrefix(bare, "|"):
				end()
				continue
			}
			if marker := itemStart.FindString(content); marker != "" && i > 0 {
				end()
				bare = strings.TrimSpace(content[len(marker):])
			}
			switch {
			case i == 0:
				current.join(content, line)
			case raw:
				current.add(bare, line+i)
			default:
				current.add(bare, line)
			}
		}
	}
	end()
}
