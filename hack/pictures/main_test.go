package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPicturesAreDrawn checks that each committed SVG file equals the picture of its YAML file.
func TestPicturesAreDrawn(t *testing.T) {
	t.Parallel()
	texts, err := filepath.Glob(filepath.Join("..", "..", "docs", "pictures", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(texts) == 0 {
		t.Fatal("docs/pictures has no texts")
	}
	for _, text := range texts {
		want, err := drawFile(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(pictureOf(text))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is outdated: run `go run ./hack/pictures`", pictureOf(text))
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, wantError string }{
		"a node that is full":    {text: "rows: [{name: node, a: 2}]"},
		"more than a node has":   {text: "rows: [{name: node, a: 3}]", wantError: "of 2 cells"},
		"a workload without key": {text: "rows: [{name: node, b: 1}]", wantError: "of 2 cells"},
		"no title":               {text: "title: ''\nrows: []", wantError: "title"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			title := "title: A\n"
			rows := c.text
			if before, after, found := strings.Cut(c.text, "\nrows:"); found {
				title, rows = before+"\n", "rows:"+after
			}
			path := filepath.Join(t.TempDir(), "it.yaml")
			text := title + "description: B\ncells: 2\nworkloads: [{name: a, label: A}]\npanels:\n  - title: P\n    " + rows + "\n"
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			svg, err := drawFile(path)
			switch {
			case c.wantError == "" && err != nil:
				t.Fatal(err)
			case c.wantError == "" && !strings.Contains(string(svg), "prefers-color-scheme"):
				t.Error("the picture has no colors for dark displays")
			case c.wantError != "" && (err == nil || !strings.Contains(err.Error(), c.wantError)):
				t.Errorf("got the error %v, want one with %q", err, c.wantError)
			}
		})
	}
}
