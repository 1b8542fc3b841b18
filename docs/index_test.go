package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestIndex checks that the index names every page and every page of results, and that the index of
// design notes names every note.
func TestIndex(t *testing.T) {
	t.Parallel()
	for index, globs := range map[string][]string{
		"README.md":        {"*.md", "results/*.md"},
		"design/README.md": {"design/*.md"},
	} {
		named := linked(t, index)
		found := 0
		for _, glob := range globs {
			pages, err := filepath.Glob(filepath.FromSlash(glob))
			if err != nil {
				t.Fatal(err)
			}
			for _, page := range pages {
				found++
				if filepath.ToSlash(page) != index && !named[filepath.Clean(page)] {
					t.Errorf("docs/%s does not name %s", index, page)
				}
			}
		}
		if found < 10 {
			t.Errorf("only %d pages are beside docs/%s", found, index)
		}
	}
}

// linked returns the pages that a page links to, as paths from docs.
func linked(t *testing.T, page string) map[string]bool {
	t.Helper()
	raw, err := os.ReadFile(filepath.FromSlash(page))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, m := range regexp.MustCompile(`\]\(([^)\s#]+)[^)]*\)`).FindAllStringSubmatch(string(raw), -1) {
		out[filepath.Join(filepath.Dir(page), m[1])] = true
	}
	return out
}

// TestPackages checks that the map of packages names only existing folders, and every package at
// the top of internal.
func TestPackages(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("packages.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z0-9/-]+)/`").FindAllStringSubmatch(string(raw), -1) {
		named[m[1]] = true
		if !exists(m[1]) {
			t.Errorf("docs/packages.md has the folder %s, which does not exist", m[1])
		}
	}
	folders, err := filepath.Glob("../internal/*/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		if name := "internal/" + filepath.Base(filepath.Dir(folder)); !named[name] {
			t.Errorf("docs/packages.md lacks %s", name)
		}
	}
}
