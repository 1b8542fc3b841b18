package app_test

import (
	"flag"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the answers into the pages of docs/")

// TestDocumentedAnswers runs the commands in pages of docs/ and compares their output with the
// page.
func TestDocumentedAnswers(t *testing.T) {
	t.Parallel()
	for page, files := range map[string][]string{
		"kubectl.md": {"cluster.json", "job.yaml", "gang.yaml", "decisions.jsonl", "next.yaml"},
		"why.md":     {"why/cluster.json", "why/decisions.jsonl", "why/report.yaml", "why/other.yaml"},
	} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			content := make(map[string]string)
			for _, name := range files {
				text, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(name)))
				if err != nil {
					t.Fatal(err)
				}
				content[path.Base(name)] = string(text)
			}
			documented(t, filepath.Join("..", "..", "..", "docs", page), content)
		})
	}
}

// documented runs the commands of a page in a directory with the given files, and compares their
// output with the page.
func documented(t *testing.T, page string, files map[string]string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end, prompt = "```console\n", "```\n", "$ kubectl reprieve "
	var out strings.Builder
	rest, commands := string(text), 0
	for {
		before, after, found := strings.Cut(rest, begin)
		out.WriteString(before)
		if !found {
			break
		}
		block, tail, _ := strings.Cut(after, end)
		command, want, _ := strings.Cut(block, "\n")
		args, ok := strings.CutPrefix(command, prompt)
		if !ok {
			t.Fatalf("The block begins with %q, want %q", command, prompt)
		}
		_, got, errOut := run(t, files, "", strings.Fields(args)...)
		got += errOut
		if got != want && !*update {
			t.Errorf("%s answers\n%s\nand the page has\n%s", command, got, want)
		}
		out.WriteString(begin + command + "\n" + got + end)
		rest = tail
		commands++
	}
	if commands < 5 {
		t.Errorf("The page has %d commands", commands)
	}
	if *update {
		if err := os.WriteFile(page, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
