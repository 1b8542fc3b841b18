package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// These expressions match the constructions that numbers counts. docs/writing.md has the results
// for other projects.
var (
	word  = regexp.MustCompile(`[A-Za-z']+`)
	what  = regexp.MustCompile(`(?i)\bwhat\b`)
	which = regexp.MustCompile(`(?i)\b(?:of|by|for|from|in|on|with|to|at) (?:which|whom|what|whose)\b`)
	have  = regexp.MustCompile(`(?i)\b(?:has|have|had|having) (?:an? |the |its |their |all |those |each |one |other |others )?` +
		`\w+ (?:be|do|go|say|try|hear|wait|come|leave|write|look|know|plan|take|show|make)\b`)
)

// wideLine is a width in columns. A comment line counts as long if it is wider.
const wideLine = 120

// A tally has the number of words and of constructions in some text.
type tally struct {
	words, what, which, have int
	// lines is the number of comment lines that are not empty. long is the number of comment lines
	// that are too wide.
	lines, long int
}

// add adds the counts of another tally.
func (t *tally) add(other tally) {
	t.words += other.words
	t.what += other.what
	t.which += other.which
	t.have += other.have
	t.lines += other.lines
	t.long += other.long
}

// row returns the table row for a folder or for the sum of all folders.
func (t tally) row(name string) string {
	per := 1000 / float64(max(1, t.words))
	const columns = "%-44s %7d words  what %5.1f  which %4.1f  have %5.2f  long %4.1f %%"
	return fmt.Sprintf(columns, name, t.words,
		float64(t.what)*per, float64(t.which)*per, float64(t.have)*per, 100*float64(t.long)/float64(max(1, t.lines)))
}

// numbers prints a row for each folder and kind of text, and a row for the sum of each kind.
func numbers(out io.Writer, folders []string) error {
	if len(folders) == 0 {
		return errors.New("name the folders to count")
	}
	kinds, sums := []string{"docs", "go"}, map[string]*tally{}
	for _, folder := range folders {
		here, err := tallies(folder)
		if err != nil {
			return err
		}
		for _, kind := range kinds {
			if here[kind] == nil {
				continue
			}
			fmt.Fprintln(out, here[kind].row(fmt.Sprintf("%s (%s)", folder, kind)))
			if sums[kind] == nil {
				sums[kind] = &tally{}
			}
			sums[kind].add(*here[kind])
		}
	}
	for _, kind := range kinds {
		if sums[kind] != nil {
			fmt.Fprintln(out, sums[kind].row(fmt.Sprintf("all (%s)", kind)))
		}
	}
	return nil
}

// tallies counts the constructions in the files below a folder. The keys of the result are the
// kinds of text: Go comments, and Markdown.
func tallies(folder string) (map[string]*tally, error) {
	sums := map[string]*tally{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if isSkipped(entry.Name()) && path != folder {
				return filepath.SkipDir
			}
			return nil
		}
		kind, read := "docs", pageLines
		if isProductCode(path) {
			kind, read = "go", commentLines
		} else if !strings.HasSuffix(path, ".md") {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if sums[kind] == nil {
			sums[kind] = &tally{}
		}
		sums[kind].add(tallyOf(read(string(data))))
		return nil
	})
	return sums, err
}

// A countedLine is the text of a line without markers, and the width of the whole line in columns.
type countedLine struct {
	text  string
	width int
}

// commentLines returns the comment lines of a Go file. An empty line separates two comments.
func commentLines(content string) []countedLine {
	var lines []countedLine
	for line := range strings.Lines(content) {
		line = strings.TrimRight(line, "\r\n")
		bare := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(bare, "//") && !isDirective(bare):
			lines = append(lines, countedLine{text: strings.TrimSpace(bare[2:]), width: widthOf(line)})
		case len(lines) > 0 && lines[len(lines)-1].text != "":
			lines = append(lines, countedLine{})
		}
	}
	return lines
}

// isDirective reports whether a comment is for tools. numbers does not count such comments.
func isDirective(comment string) bool {
	for _, prefix := range []string{"//go:", "//nolint", "// +", "//+", "//line"} {
		if strings.HasPrefix(comment, prefix) {
			return true
		}
	}
	return false
}

// pageLines returns the lines of a Markdown page that are neither code nor tables.
func pageLines(content string) []countedLine {
	var lines []countedLine
	fenced := false
	for line := range strings.Lines(content) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(strings.TrimLeft(line, " \t"), "```"):
			fenced = !fenced
		case !fenced && !strings.HasPrefix(line, "    ") && !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "<!--"):
			lines = append(lines, countedLine{text: line})
		}
	}
	return lines
}

// tallyOf counts the constructions in lines of text.
func tallyOf(lines []countedLine) tally {
	var t tally
	joined := make([]string, len(lines))
	for i, line := range lines {
		joined[i] = line.text
		if line.text != "" {
			t.lines++
		}
		if line.width > wideLine {
			t.long++
		}
	}
	text := strings.Join(joined, " ")
	t.words = len(word.FindAllString(text, -1))
	t.what = len(what.FindAllString(text, -1))
	t.which = len(which.FindAllString(text, -1))
	t.have = len(have.FindAllString(text, -1))
	return t
}
