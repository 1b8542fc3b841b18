package report_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const web = "../../web"

// TestPageIsBuiltFromItsSources compares the files with the hashes that make web has stored. So a
// change in web/ that was not built is detected without npm.
func TestPageIsBuiltFromItsSources(t *testing.T) {
	t.Parallel()
	for list, root := range map[string]string{"sources.sha256": web, "output.sha256": "page"} {
		text, err := os.ReadFile(filepath.Join("page", list))
		if err != nil {
			t.Fatal(err)
		}
		want := make(map[string]string)
		for line := range strings.Lines(string(text)) {
			hash, file, _ := strings.Cut(strings.TrimSpace(line), "  ")
			want[file] = hash
		}
		if len(want) == 0 {
			t.Fatalf("%s is empty. Run 'make web'.", list)
		}
		for file, hash := range want {
			content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
			if sum := sha256.Sum256(content); err != nil || hex.EncodeToString(sum[:]) != hash {
				t.Errorf("%s/%s is not what the page was built with (%v). Run 'make web'.", root, file, err)
			}
		}
		if root != web {
			continue
		}
		err = filepath.WalkDir(filepath.Join(web, "src"), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			name, err := filepath.Rel(web, path)
			if _, ok := want[filepath.ToSlash(name)]; !ok {
				t.Errorf("The page was built without web/%s. Run 'make web'.", name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestRulesAreSaidInTheSameWords checks that the page explains each rule with the words of
// docs/troubleshooting.md.
func TestRulesAreSaidInTheSameWords(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	words, err := os.ReadFile(filepath.Join(web, "src", "words.ts"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Rules\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rules := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(line, " | ")
		rule, ok := strings.CutPrefix(cells[0], "| `")
		if !ok || len(cells) < 2 {
			continue
		}
		rules++
		if want := strings.TrimSuffix(rule, "`") + `: "` + cells[1] + `",`; !strings.Contains(string(words), want) {
			t.Errorf("words.ts does not have\n%s", want)
		}
	}
	if rules < 10 {
		t.Errorf("docs/troubleshooting.md has %d rules", rules)
	}
}
