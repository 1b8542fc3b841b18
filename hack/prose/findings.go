package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A finding is a place where a text breaks a rule.
type finding struct {
	file    string
	line    int
	rule    string
	match   string
	message string
}

// String returns the finding in the format of compiler errors.
func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.file, f.line, f.rule, f.message)
}

// examples has lines "Rule: text" that the rules are tested with. The rule must find the text, and
// no other rule may. Texts with the rule "ok" have no finding.
//
//go:embed examples.txt
var examples string

// examplesFile is the name of the examples in the input of Vale.
const examplesFile = "examples.txt"

// findings returns the findings in all files below the paths, sorted by file and line.
func findings(ctx context.Context, paths ...string) ([]finding, error) {
	all, err := texts(paths...)
	if err != nil {
		return nil, err
	}
	wanted, example := readExamples(examples)
	raw, err := vale(ctx, append(all, example))
	if err != nil {
		return nil, err
	}
	var found, ofExamples []finding
	for _, f := range raw {
		if f.file == examplesFile {
			ofExamples = append(ofExamples, f)
		} else {
			found = append(found, f)
		}
	}
	if err := checkExamples(wanted, ofExamples); err != nil {
		return nil, err
	}
	for _, t := range all {
		found = append(found, t.long...)
	}
	slices.SortStableFunc(found, func(a, b finding) int {
		return cmp.Or(strings.Compare(a.file, b.file), cmp.Compare(a.line, b.line), strings.Compare(a.rule, b.rule))
	})
	return found, nil
}

// An alert is a finding in the output of Vale.
type alert struct {
	Check   string
	Line    int
	Span    []int
	Match   string
	Message string
}

// vale runs Vale on the texts and returns the findings.
func vale(ctx context.Context, all []text) ([]finding, error) {
	folder, err := os.MkdirTemp("", "prose")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // A file that is left in the folder for temporary files does no harm.
	paragraphs := map[string][]*paragraph{}
	for _, t := range all {
		if len(t.paragraphs) == 0 {
			continue
		}
		path := filepath.Join(folder, filepath.FromSlash(t.file)+".txt")
		if err := writeText(path, t.paragraphs); err != nil {
			return nil, err
		}
		paragraphs[path] = t.paragraphs
	}
	output, err := runVale(ctx, folder)
	if err != nil {
		return nil, err
	}
	var alerts map[string][]alert
	if err := json.Unmarshal(output, &alerts); err != nil {
		return nil, fmt.Errorf("cannot read the output of Vale: %w: %.300s", err, output)
	}
	var found []finding
	for path, ofFile := range alerts {
		for _, a := range ofFile {
			f, err := a.finding(paragraphs[path])
			if err != nil {
				return nil, err
			}
			found = append(found, f)
		}
	}
	return found, nil
}

// writeText writes a file for Vale: each paragraph on one line, followed by an empty line.
func writeText(path string, paragraphs []*paragraph) error {
	var content bytes.Buffer
	for _, p := range paragraphs {
		content.WriteString(p.text)
		content.WriteString("\n\n")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, content.Bytes(), 0o600)
}

// runVale runs Vale on all files of a folder and returns its JSON output. The first run compiles
// Vale, which needs a C compiler.
func runVale(ctx context.Context, folder string) ([]byte, error) {
	command := exec.CommandContext(ctx, "go", "tool", "-modfile=hack/tools/vale/go.mod", "vale",
		"--config=.vale.ini", "--output=JSON", "--no-exit", folder)
	command.Env = append(os.Environ(), "CGO_ENABLED=1")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("cannot run Vale (compiling it takes a C compiler): %w\n%s%s", err, output, stderr.Bytes())
	}
	return output, nil
}

// finding converts an alert of Vale to a finding with a line of the source file.
func (a alert) finding(paragraphs []*paragraph) (finding, error) {
	index := (a.Line - 1) / 2
	if index < 0 || index >= len(paragraphs) || len(a.Span) == 0 {
		return finding{}, fmt.Errorf("cannot find the place of an alert of Vale: %+v", a)
	}
	p := paragraphs[index]
	_, rule, _ := strings.Cut(a.Check, ".")
	offset := len(string([]rune(p.text)[:min(a.Span[0]-1, len([]rune(p.text)))]))
	message := a.Message
	if rule == "Sentence" {
		message += ": " + clip(p.plain[min(offset, len(p.plain)):], 50)
	}
	return finding{file: p.file, line: p.lineAt(offset), rule: rule, match: a.Match, message: message}, nil
}

// clip returns the first length characters of a text. If it drops any, it appends an ellipsis.
func clip(s string, length int) string {
	if runes := []rune(s); len(runes) > length {
		return string(runes[:length]) + "…"
	}
	return s
}

// readExamples parses the examples. It returns the expected rule by line number, and the examples
// as a text.
func readExamples(content string) (map[int]string, text) {
	wanted, t := map[int]string{}, text{file: examplesFile}
	for i, line := range strings.Split(content, "\n") {
		if rule, example, ok := strings.Cut(line, ": "); ok && !strings.HasPrefix(line, "#") {
			p := &paragraph{file: examplesFile}
			p.add(example, i+1)
			p.mask("")
			t.paragraphs = append(t.paragraphs, p)
			wanted[i+1] = rule
		}
	}
	return wanted, t
}

// checkExamples returns an error if a rule misses one of its examples, or matches an example of
// another rule.
func checkExamples(wanted map[int]string, found []finding) error {
	rules := map[int][]string{}
	for _, f := range found {
		if !slices.Contains(rules[f.line], f.rule) {
			rules[f.line] = append(rules[f.line], f.rule)
		}
	}
	var errs []error
	for line, rule := range wanted {
		want := []string{rule}
		if rule == "ok" {
			want = nil
		}
		if !slices.Equal(rules[line], want) {
			errs = append(errs, fmt.Errorf("hack/prose/%s:%d: want findings of %v, got %v", examplesFile, line, want, rules[line]))
		}
	}
	return errors.Join(errs...)
}
