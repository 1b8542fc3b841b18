package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A paragraph is a piece of text that sentences do not cross, on one line.
type paragraph struct {
	file string
	// text is the input of Vale. plain is the text as written, with the same offsets.
	text, plain string
	// pieces map parts of the text to lines of the file, in ascending order.
	pieces []piece
}

// A piece is a part of a paragraph, from a byte offset on.
type piece struct {
	offset, line int
}

// add appends a line of the file to the paragraph, after a space.
func (p *paragraph) add(text string, line int) {
	if p.text != "" {
		p.text += " "
	}
	p.join(text, line)
}

// join appends text that goes on where the paragraph ends.
func (p *paragraph) join(text string, line int) {
	p.pieces = append(p.pieces, piece{offset: len(p.text), line: line})
	p.text += text
}

// mask overwrites the parts that are not prose, and the name that a doc comment begins with.
// Offsets stay the same.
func (p *paragraph) mask(name string) {
	p.plain = p.text
	if name != "" {
		p.text = maskName(p.text, name)
	}
	p.text = endSentences(maskMarkup(p.text))
}

// sentenceStart matches the end of a sentence, and a small letter at the start of the next one.
var sentenceStart = regexp.MustCompile(`(\S*[.?!]["')]?\s+|^)([a-z])`)

// endSentences makes each sentence begin with a capital, and ends the last one with a period.
// Otherwise Vale joins it with the next sentence if that begins with an identifier, or with the
// next paragraph.
func endSentences(s string) string {
	s = sentenceStart.ReplaceAllStringFunc(s, func(match string) string {
		if strings.HasPrefix(match, "e.g.") || strings.HasPrefix(match, "i.e.") || strings.HasPrefix(match, "etc.") {
			return match
		}
		return match[:len(match)-1] + strings.ToUpper(match[len(match)-1:])
	})
	if strings.HasSuffix(s, ".") || strings.HasSuffix(s, "?") || strings.HasSuffix(s, "!") {
		return s
	}
	return s + "."
}

// lineAt returns the line of the file that has the text at a byte offset.
func (p *paragraph) lineAt(offset int) int {
	line := 0
	for _, piece := range p.pieces {
		if piece.offset > offset {
			break
		}
		line = piece.line
	}
	return line
}

// isSkipped reports whether folders of a name have no prose of this project.
func isSkipped(folder string) bool {
	switch folder {
	case ".git", "bin", "node_modules", "testdata", "vendor":
		return true
	}
	return false
}

// A text has the prose of one file.
type text struct {
	file       string
	paragraphs []*paragraph
	// long lists the findings about lines that are too long.
	long []finding
}

// texts reads the prose of all Go files and Markdown pages below the paths, sorted by name.
func texts(paths ...string) ([]text, error) {
	var all []text
	for _, root := range paths {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() {
				if isSkipped(entry.Name()) && path != root {
					return filepath.SkipDir
				}
				return nil
			}
			t, err := textOf(filepath.ToSlash(filepath.Clean(path)))
			if err == nil && t != nil {
				all = append(all, *t)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// textOf returns the prose of a file. It returns nil for a file without prose, such as a test.
func textOf(path string) (*text, error) {
	isPage, isCode := strings.HasSuffix(path, ".md"), isProductCode(path)
	if !isPage && !isCode {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if isPage {
		return pageText(path, string(data)), nil
	}
	if bytes.HasPrefix(data, []byte("// Code generated ")) || bytes.Contains(data, []byte("\n// Code generated ")) {
		return nil, nil
	}
	t, err := codeText(path, data)
	if err != nil {
		return nil, fmt.Errorf("cannot read the comments of %s: %w", path, err)
	}
	return t, nil
}

// isProductCode reports whether a path names a Go file that is neither a test nor generated.
func isProductCode(path string) bool {
	name := filepath.Base(path)
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "zz_")
}

// unitOf returns the package or page that a file counts for.
// The fragments of the changelog count as one page.
func unitOf(file string) string {
	folder := filepath.ToSlash(filepath.Dir(file))
	if strings.HasSuffix(file, ".go") || folder == "changelog" {
		return folder
	}
	return file
}
