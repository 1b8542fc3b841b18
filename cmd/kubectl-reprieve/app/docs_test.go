package app_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the answers into docs/kubectl.md")

// TestDocumentedAnswers runs the commands of docs/kubectl.md and compares the answers.
func TestDocumentedAnswers(t *testing.T) {
	t.Parallel()
	page := filepath.Join("..", "..", "..", "docs", "kubectl.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, name := range []string{"cluster.json", "job.yaml", "gang.yaml", "decisions.jsonl", "next.yaml"} {
		content, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(content)
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
