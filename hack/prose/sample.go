package main

import (
	"cmp"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// shortComment is a number of words. The sample contains only longer comments.
	shortComment = 8
	// screen is the number of lines in the first screen of a page.
	screen = 30
)

// An excerpt is a comment or the start of a page, for a person to read.
type excerpt struct {
	file string
	line int
	text string
}

// sample prints comments and first screens of pages below the paths, drawn at random. The same seed
// on the same files draws the same excerpts.
func sample(out io.Writer, seed uint64, comments, pages int, paths []string) error {
	if len(paths) == 0 {
		paths = []string{"."}
	}
	var code, screens []excerpt
	for _, path := range paths {
		err := eachFile(path, func(path string, content []byte) error {
			if strings.HasSuffix(path, ".md") {
				screens = append(screens, firstScreen(path, string(content)))
				return nil
			}
			found, err := commentsOf(path, content)
			code = append(code, found...)
			return err
		})
		if err != nil {
			return err
		}
	}
	random := rand.New(rand.NewPCG(seed, 0))
	for i, e := range slices.Concat(draw(random, code, comments), draw(random, screens, pages)) {
		fmt.Fprintf(out, "[%d] %s:%d\n%s\n\n", i+1, e.file, e.line, e.text)
	}
	return nil
}

// eachFile calls read for every Go file and page below a path that a person writes. Tests are
// included; fragments of the changelog are not, because a release rewrites them.
func eachFile(root string, read func(path string, content []byte) error) error {
	return filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (isSkipped(entry.Name()) || entry.Name() == "changelog"):
			return filepath.SkipDir
		case entry.IsDir(), !strings.HasSuffix(path, ".md") && !strings.HasSuffix(path, ".go"):
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil || isGenerated(content) {
			return err
		}
		return read(filepath.ToSlash(filepath.Clean(path)), content)
	})
}

// firstScreen returns the first lines of a page.
func firstScreen(path, content string) excerpt {
	lines := strings.Split(content, "\n")
	return excerpt{file: path, line: 1, text: strings.Join(lines[:min(screen, len(lines))], "\n")}
}

// commentsOf returns the long comments of a Go file, each with the first line of code below it.
func commentsOf(path string, content []byte) ([]excerpt, error) {
	positions := token.NewFileSet()
	parsed, err := parser.ParseFile(positions, path, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(content), "\n")
	var found []excerpt
	for _, group := range parsed.Comments {
		if isLicence(group, parsed) || len(strings.Fields(group.Text())) <= shortComment {
			continue
		}
		first, last := lineOf(positions, group.Pos()), lineOf(positions, group.End())
		text := strings.Join(lines[first-1:min(last+1, len(lines))], "\n")
		found = append(found, excerpt{file: path, line: first, text: text})
	}
	return found, nil
}

// lineOf returns the line of a position in its file.
func lineOf(positions *token.FileSet, pos token.Pos) int { return positions.Position(pos).Line }

// draw returns count of the excerpts, chosen at random and sorted by file and line.
func draw(random *rand.Rand, from []excerpt, count int) []excerpt {
	var drawn []excerpt
	for _, i := range random.Perm(len(from))[:min(count, len(from))] {
		drawn = append(drawn, from[i])
	}
	slices.SortFunc(drawn, func(a, b excerpt) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
	})
	return drawn
}
