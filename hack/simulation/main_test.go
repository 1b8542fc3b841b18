package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/simulation/plot"
)

const trace = "../../cmd/kubectl-reprieve/app/testdata/trace"

// TestPage: the page has the command's own answer, and the plot its percentiles; all around stays.
func TestPage(t *testing.T) {
	t.Parallel()
	doc := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(doc, []byte("before\n"+begin+"old figures\n"+end+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--seed", "3", "--load", "1.5"}
	if err := write(t.Context(), trace, doc, args); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	table, err := ask(t.Context(), trace, args)
	if err != nil {
		t.Fatal(err)
	}
	want := "before\n" + begin + "\n```console\n$ kubectl reprieve simulate --trace openb --seed 3 --load 1.5\n" + table + "```\n\n![How long work waited, by policy and priority](page.svg)\n\n" + end + "after\n"
	if string(page) != want {
		t.Errorf("the page is\n%s\nwant\n%s", page, want)
	}
	picture, err := os.ReadFile(strings.TrimSuffix(doc, ".md") + ".svg")
	if err != nil {
		t.Fatal(err)
	}
	for decoder := xml.NewDecoder(strings.NewReader(string(picture))); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the plot is no XML: %v", err)
		}
	}
	text, err := ask(t.Context(), trace, append(args, "-o", "json"))
	if err != nil {
		t.Fatal(err)
	}
	var a answer
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatal(err)
	}
	if string(picture) != plot.Draw(a.Results) || !strings.Contains(string(picture), "prefers-color-scheme: dark") {
		t.Error("the plot is not that of the answer")
	}
}

// TestCommitted: the page that is committed has been written by the command, and its plot is there.
func TestCommitted(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/simulation.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), begin)
	block, _, found := strings.Cut(rest, end)
	for _, words := range []string{"$ kubectl reprieve simulate --trace openb", "--seed", "KUBE-SCHEDULER", "(simulation.svg)"} {
		if !found || !strings.Contains(block, words) {
			t.Errorf("docs/simulation.md has no %q where make simulation writes", words)
		}
	}
	if _, err := os.Stat("../../docs/simulation.svg"); err != nil {
		t.Error(err)
	}
}
