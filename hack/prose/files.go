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

// A paragraph is a part of a file's text, joined to one line. No sentence extends past the end of a
// paragraph.
type paragraph struct {
	file string
	// text is the input of Vale, with code and names masked. plain is the unmasked text; its byte
	// offsets are the same.
	text, plain string
	// pieces maps byte offsets in text to lines of the file. The offsets ascend.
	pieces []piece
}

// A piece is the part of a paragraph that comes from one line of the file. It begins at a byte
// offset.
type piece struct {
	offset, line int
}

// add appends a space and the text of a line of the file to the paragraph.
func (p *paragraph) add(text string, line int) {
	if p.text != "" {
		p.text += " "
	}
	p.join(text, line)
}

// join appends text to the paragraph without a space. The text comes from a line of the file.
func (p *paragraph) join(text string, line int) {
	p.pieces = append(p.pieces, piece{offset: len(p.text), line: line})
	p.text += text
}

// mask overwrites the text that Vale must not check: code, and the identifier at the start of a doc
// comment. Byte offsets stay the same.
func (p *paragraph) mask(name string) {
	p.plain = p.text
	if name != "" {
		p.text = maskName(p.text, name)
	}
	p.text = endSentences(maskMarkup(p.text))
}

// sentenceStart matches the start of a sentence that begins with a lowercase letter, with the end
// of the sentence before it.
var sentenceStart = regexp.MustCompile(`(\S*[.?!]["')]?\s+|^)([a-z])`)

// endSentences makes each sentence begin with a capital letter, and the last sentence end with a
// period. Vale needs both to find the ends of sentences. A doc comment, for example, begins with a
// lowercase identifier.
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

// lineAt returns the number of the file's line that has the text at a byte offset.
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

// isSkipped reports whether a folder with the given name contains no text of this project.
func isSkipped(folder string) bool {
	switch folder {
	case ".git", "bin", "node_modules", "testdata", "vendor":
		return true
	}
	return false
}

// A text has the paragraphs of one file.
type text struct {
	file       string
	paragraphs []*paragraph
	// long has a finding for each line that is too long.
	long []finding
}

// texts reads all Go files and Markdown pages below the paths, and returns their texts sorted by
// path.
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

// textOf returns the text of a file. It returns nil if the file is not checked, such as a test.
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
	if isGenerated(data) {
		return nil, nil
	}
	t, err := codeText(path, data)
	if err != nil {
		return nil, fmt.Errorf("cannot read the comments of %s: %w", path, err)
	}
	return t, nil
}

// isGenerated reports whether a program wrote the content of a Go file.
func isGenerated(content []byte) bool {
	return bytes.HasPrefix(content, []byte("// Code generated ")) || bytes.Contains(content, []byte("\n// Code generated "))
}

// isProductCode reports whether a path names a Go file that is neither a test nor generated.
func isProductCode(path string) bool {
	name := filepath.Base(path)
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "zz_")
}

// unitOf returns the key of a file in counts: the folder of a Go file, or the path of a page. All
// fragments of the changelog have one key.
func unitOf(file string) string {
	folder := filepath.ToSlash(filepath.Dir(file))
	if strings.HasSuffix(file, ".go") || folder == "changelog" {
		return folder
	}
	return file
}
