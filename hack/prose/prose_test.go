package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestCodeText checks the paragraphs that codeText extracts. The source has each kind of comment
// and string.
func TestCodeText(t *testing.T) {
	t.Parallel()
	const source = `// Copyright the authors. Licensed under something.

//go:build linux

// Package books is here.
package books

import "a/long/path/of words that are no message"

// roster lists the nodes, a
// line each.
//
//	code := "is left out"
//
//   - an item of a list
type roster struct {
	// +optional
	name string ` + "`json:\"a b c d e f\"`" + ` // name is shown.
}

//nolint:unused // for a reason that is not prose
func f() string {
	return "short one" + "a message with five words, " +
		"which goes on"
}
`
	got, err := codeText("x.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"5 Package books is here.",
		"10 Xxxxxx lists the nodes, a line each.",
		"15 An item of a list.",
		"18 Name is shown.",
		"23 Short onea message with five words, which goes on.",
	}
	if lines := linesOf(got); !slices.Equal(lines, want) {
		t.Errorf("got paragraphs:\n%s\nwant:\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if line := got.paragraphs[1].lineAt(strings.Index(got.paragraphs[1].text, "line each")); line != 11 {
		t.Errorf("the second line of the comment is at line %d, want 11", line)
	}
}

// TestPageText checks the paragraphs that pageText extracts. The page has each kind of Markdown
// text.
func TestPageText(t *testing.T) {
	t.Parallel()
	const page = "# Head\nA [link](https://x/what) and\n`what` as code.\n- item\n\n| what | table |\n\n```console\n$ what\n```\n" +
		"    what\n<!-- code\nwhat -->\nEnd."
	got := linesOf(pageText("x.md", page))
	want := []string{"1 Head.", "2 A [link]                 and xxxxxx as code.", "4 Item.", "14 End."}
	if !slices.Equal(got, want) {
		t.Errorf("got paragraphs %q, want %q", got, want)
	}
}

// linesOf returns the paragraphs of a text. Each begins with the number of its first line in the
// file.
func linesOf(t *text) []string {
	var lines []string
	for _, p := range t.paragraphs {
		lines = append(lines, strings.TrimSpace(strings.Join([]string{strconv.Itoa(p.lineAt(0)), p.text}, " ")))
	}
	return lines
}

func TestLongLines(t *testing.T) {
	t.Parallel()
	words := strings.Repeat("word ", 25)
	for name, test := range map[string]struct {
		line string
		want bool
	}{
		"100 characters":       {words[:100], false},
		"101 characters":       {"x" + words[:100], true},
		"tabs count as four":   {"\t" + words[:97], true},
		"a link is not broken": {"See https://example.com/" + strings.Repeat("x", 90), false},
	} {
		if got := tooLong(test.line); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func TestUnits(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"internal/core/fair.go":   "internal/core",
		"docs/queues.md":          "docs/queues.md",
		"changelog/fast.added.md": "changelog",
		"CHANGELOG.md":            "CHANGELOG.md",
	} {
		if got := unitOf(file); got != want {
			t.Errorf("%s counts for %q, want %q", file, got, want)
		}
	}
}

// TestRatchet checks for which counts refuseRise returns an error.
func TestRatchet(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		granted, now counts
		want         []rise
		moved        int
	}{
		"the same":          {counts{"a": {"What": 2}}, counts{"a": {"What": 2}}, nil, 0},
		"fewer":             {counts{"a": {"What": 2}}, counts{"a": {"What": 1}}, nil, 0},
		"more":              {counts{"a": {"What": 2}}, counts{"a": {"What": 3}}, []rise{{"a", "What", 3, 2}}, 1},
		"another rule":      {counts{"a": {"What": 2}}, counts{"a": {"Have": 1}}, []rise{{"a", "Have", 1, 0}}, 1},
		"a new package":     {counts{}, counts{"b": {"What": 1}}, []rise{{"b", "What", 1, 0}}, 1},
		"a package moved":   {counts{"a": {"What": 2}}, counts{"b": {"What": 2}}, []rise{{"b", "What", 2, 0}}, 0},
		"clean and unknown": {counts{}, counts{}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := risen(test.granted, test.now); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
			var out bytes.Buffer
			if err := refuseRise(&out, test.granted, test.now, false); (err != nil) != (test.want != nil) {
				t.Errorf("lowering the baseline: %v", err)
			}
			if err := refuseRise(&out, test.granted, test.now, true); (err != nil) != (test.moved > 0) {
				t.Errorf("lowering the baseline with code that moved: %v", err)
			}
		})
	}
}

// TestMergedBaseline checks the counts of a baseline with two lines for one package. Merging two
// branches produces these lines.
func TestMergedBaseline(t *testing.T) {
	t.Parallel()
	got, err := parseBaseline("# a comment\na What=3 Have=1\nb Line=2\na What=2 Have=2\na What=4\n")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "baseline.txt")
	if err := writeBaseline(file, got); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := baselineHead + "a What=2\nb Line=2\n"; string(written) != want {
		t.Errorf("got %q, want %q", written, want)
	}
	if _, err := parseBaseline("<<<<<<< a\n"); err == nil {
		t.Error("the mark of a conflict was read as a line of the baseline")
	}
}

// TestLower checks that lower keeps the granted count where the current count is higher.
func TestLower(t *testing.T) {
	t.Parallel()
	got := lower(counts{"a": {"What": 2, "Have": 1}, "b": {"Line": 3}, "gone": {"Line": 1}},
		counts{"a": {"What": 1, "Have": 2}, "b": {"What": 1}, "new": {"Line": 1}})
	if want := (counts{"a": {"What": 1, "Have": 1}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestChangedLines(t *testing.T) {
	t.Parallel()
	set := parseDiff("+++ b/a.go\n@@ -1 +2,2 @@ func\n+x\n+y\n@@ -9,2 +7,0 @@\n+++ b/b.md\n@@ -0,0 +5 @@\n")
	found := []finding{{file: "a.go", line: 1}, {file: "a.go", line: 3}, {file: "b.md", line: 5}, {file: "a.go", line: 7}}
	if got := set.prefer(found); !slices.Equal(got, found[1:3]) {
		t.Errorf("got %v, want %v", got, found[1:3])
	}
	if got := set.prefer(found[:1]); len(got) != 1 {
		t.Errorf("without findings on changed lines got %v, want all", got)
	}
}

func TestSubjects(t *testing.T) {
	t.Parallel()
	for subject, want := range map[string]int{
		"core: retry members on other nodes":                          0,
		"core, scheduler: release reservations on every exit":         0,
		"api/v1alpha1: process the status":                            0,
		`Revert "Fix it"`:                                             0,
		"Look on where members do not stand":                          1,
		"core: Retry members":                                         1,
		"core: retries members":                                       1,
		"core: retried members":                                       1,
		"core: retrying members":                                      1,
		"core: retry members.":                                        1,
		"core: embed the page":                                        0,
		"core: feed the queue":                                        0,
		"core: retry members on " + strings.Repeat("x", maxSubject):   1,
		"core: " + strings.Repeat("x", maxSubject-len("core: ")) + "": 0,
	} {
		if got := subjectFaults(subject); len(got) != want {
			t.Errorf("%q: got %q, want %d faults", subject, got, want)
		}
	}
}

// TestCommits checks the results of commits for a branch, and for a checkout without the base
// commit.
func TestCommits(t *testing.T) {
	folder := t.TempDir()
	command := func(args ...string) {
		t.Helper()
		git := exec.CommandContext(t.Context(), "git", args...)
		git.Dir = folder
		git.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		if output, err := git.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, output)
		}
	}
	command("init", "-q", "-b", "main")
	command("commit", "-q", "--allow-empty", "-m", "An old one")
	command("checkout", "-q", "-b", "work")
	command("commit", "-q", "--allow-empty", "-m", "core: add a test")
	t.Chdir(folder)
	var out bytes.Buffer
	if err := commits(t.Context(), &out, ""); err != nil || out.Len() > 0 {
		t.Errorf("sound subjects: %v, %s", err, &out)
	}
	command("commit", "-q", "--allow-empty", "-m", "Add a test")
	if err := commits(t.Context(), &out, "main"); err == nil || !strings.Contains(out.String(), "Add a test") {
		t.Errorf("a subject without a package: %v, %s", err, &out)
	}
	command("branch", "-q", "-D", "main")
	if err := commits(t.Context(), &out, ""); err != nil {
		t.Errorf("without the base: %v", err)
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	lines := commentLines("// What is it of which it has a lease be taken?\n\tcode() // what\n//go:build what\n//nolint:what\n//\n" +
		"// one\n\t\t// " + strings.Repeat("x", 110) + "\n")
	got := tallyOf(lines)
	want := tally{words: 13, what: 1, which: 1, have: 1, lines: 3, long: 1}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := got.row("x"), "x                                                 13 words  what  76.9  which 76.9  have 76.92  long 33.3 %"; got != want {
		t.Errorf("got row %q, want %q", got, want)
	}
	page := tallyOf(pageLines("what\n```\nwhat\n```\n| what |\n    what\n<!-- what -->\n"))
	if page.what != 1 {
		t.Errorf("got %d times \"what\" in a page, want 1", page.what)
	}
}

func TestExamples(t *testing.T) {
	t.Parallel()
	wanted, text := readExamples("# a comment: of the file\nWhat: one\nok: two\n")
	if len(text.paragraphs) != 2 {
		t.Fatalf("got %d examples, want 2", len(text.paragraphs))
	}
	if err := checkExamples(wanted, []finding{{line: 2, rule: "What"}}); err != nil {
		t.Error(err)
	}
	if err := checkExamples(wanted, nil); err == nil {
		t.Error("a rule that finds nothing passed")
	}
	if err := checkExamples(wanted, []finding{{line: 2, rule: "What"}, {line: 3, rule: "Have"}}); err == nil {
		t.Error("a finding in a sound sentence passed")
	}
}

// TestSample draws excerpts from a directory. One seed must always give the same excerpts, and the
// drawn comments must be long ones. The excerpts also show the code below a comment.
func TestSample(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source := "// Copyright the authors of these books. All of them keep their rights.\n\npackage books\n\n// Short words.\nvar a int\n"
	for i := range 40 {
		source += "\n// Counter " + strconv.Itoa(i) + " holds one of the many numbers that this file needs.\nvar n" + strconv.Itoa(i) + " int\n"
	}
	for name, content := range map[string]string{
		"books.go": source,
		"page.md":  strings.Repeat("A line.\n", screen) + "Below the first screen.\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	draw := func(seed uint64, comments int) string {
		var out bytes.Buffer
		if err := sample(&out, seed, comments, 1, []string{dir}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	first := draw(1, 5)
	if again := draw(1, 5); again != first {
		t.Errorf("the same seed gave:\n%s\nand then:\n%s", first, again)
	}
	if other := draw(2, 5); other == first {
		t.Errorf("two seeds gave the same excerpts:\n%s", first)
	}
	if got := strings.Count(first, "// Counter "); got != 5 {
		t.Errorf("got %d comments, want 5:\n%s", got, first)
	}
	all := draw(1, 100)
	for _, unwanted := range []string{"Copyright", "Short words", "Below the first screen"} {
		if strings.Contains(all, unwanted) {
			t.Errorf("the sample contains %q:\n%s", unwanted, all)
		}
	}
	if !strings.Contains(all, "\nvar n7 int\n") || !strings.Contains(all, "A line.") {
		t.Errorf("the sample misses the code below a comment, or the page:\n%s", all)
	}
}
