package changelog

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const before = `# Changelog

What changes.

## [Unreleased]

It is built on something.

### Added

- A thing, of which
  more is said.
- Another ([docs/it.md](docs/it.md)).

### Fixed

- What was wrong.

## [0.1.0] - 2026-01-02

### Added

- The first.
`

func parsed(t *testing.T, text string) *Log {
	t.Helper()
	log, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func TestWrittenAsRead(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(before, parsed(t, before).String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOfThisRepository checks that the committed changelog and fragments can be parsed.
func TestOfThisRepository(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	log := parsed(t, string(raw))
	if diff := cmp.Diff(string(raw), log.String()); diff != "" {
		t.Errorf("CHANGELOG.md would be written otherwise (-is +would be):\n%s", diff)
	}
	if _, err := Fragments(os.DirFS("../../../../changelog")); err != nil {
		t.Error(err)
	}
}

func TestRelease(t *testing.T) {
	t.Parallel()
	log := parsed(t, before)
	fragments := []Entry{{Fixed, "A fragment,\nof two lines."}, {Security, "A hole."}}
	if err := log.Release("0.2.0", "2026-03-04", fragments); err != nil {
		t.Fatal(err)
	}
	const want = `# Changelog

What changes.

## [Unreleased]

## [0.2.0] - 2026-03-04

It is built on something.

### Added

- A thing, of which
  more is said.
- Another ([docs/it.md](docs/it.md)).

### Fixed

- What was wrong.
- A fragment,
  of two lines.

### Security

- A hole.

## [0.1.0] - 2026-01-02

### Added

- The first.
`
	if diff := cmp.Diff(want, log.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, parsed(t, want).String()); diff != "" {
		t.Errorf("what is written is read otherwise (-want +got):\n%s", diff)
	}
	if err := log.Release("0.2.0", "2026-03-05", fragments); !errors.Is(err, ErrReleased) {
		t.Errorf("a second time: got %v, want %v", err, ErrReleased)
	}
	if err := log.Release("0.3.0", "2026-03-05", nil); err == nil {
		t.Error("a release that changes nothing is taken")
	}
	if diff := cmp.Diff(log.Sections[1], log.Of("0.2.0", []Entry{{Added, "Later."}})); diff != "" {
		t.Errorf("the notes of a version are not its section (-want +got):\n%s", diff)
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"## Unreleased":                       "line 1: no title such as",
		"## [0.2.0]":                          "line 1: no title such as",
		"## [0.2.0] - today":                  "line 1: no title such as",
		"## [Unreleased] - 2026-01-01":        "line 1: no title such as",
		"## [Unreleased]\n### Improved":       "line 2: no kind of change",
		"## [Unreleased]\n### Added\nA thing": "line 3: neither a change nor part of one",
		"## [Unreleased]\n### Added\n  more":  "line 3: neither a change nor part of one",
	} {
		if _, err := Parse(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func TestFragments(t *testing.T) {
	t.Parallel()
	dir := fstest.MapFS{
		"README.md":     {Data: []byte("how they are written")},
		"b.added.md":    {Data: []byte("Something\n  new.\n")},
		"a.b.fixed.md":  {Data: []byte("What was wrong (for long.)")},
		"c.security.md": {Data: []byte("A hole.")},
	}
	got, err := Fragments(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []Entry{{Fixed, "What was wrong (for long.)"}, {Added, "Something\nnew."}, {Security, "A hole."}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFragmentsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ file, text, want string }{
		"no kind":        {"thing.md", "It.", "want a name such as"},
		"unknown kind":   {"thing.improved.md", "It.", "want a name such as"},
		"no name":        {".added.md", "It.", "want a name such as"},
		"no Markdown":    {"thing.added.txt", "It.", "want a name such as"},
		"empty":          {"thing.added.md", " \n", "it is empty"},
		"a list":         {"thing.added.md", "- It.", "leave out marks"},
		"a heading":      {"thing.added.md", "# It\n\nIs.", "leave out marks"},
		"two paragraphs": {"thing.added.md", "It.\n\nIs.", "more than one paragraph"},
		"no sentence":    {"thing.added.md", "It", "full stop"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Fragments(fstest.MapFS{tc.file: {Data: []byte(tc.text)}, "good.fixed.md": {Data: []byte("Good.")}})
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), tc.file) {
				t.Errorf("got %v, want %q of %s", err, tc.want, tc.file)
			}
		})
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	const markdown = "See [docs/it.md](docs/it.md#part), [this](https://example.com/) and **`that`**,\n  ([here](#here))."
	page := func(path string) string { return "https://example.org/v1/" + path }
	for got, want := range map[string]string{
		Absolute(markdown, page): "See [docs/it.md](https://example.org/v1/docs/it.md#part), [this](https://example.com/) and **`that`**,\n  ([here](#here)).",
		Plain(markdown):          "See docs/it.md, this and that, (here).",
	} {
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
