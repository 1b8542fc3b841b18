package changelog

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// guide is the file in the directory of fragments that explains the format.
const guide = "README.md"

// Fragments parses all fragments in a directory. The error has the faults of all fragments.
func Fragments(dir fs.FS) ([]Entry, error) {
	names, err := FragmentNames(dir)
	if err != nil {
		return nil, err
	}
	var out []Entry
	var wrong []error
	for _, name := range names {
		raw, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, fmt.Errorf("read the fragment: %w", err)
		}
		entry, err := parseFragment(name, string(raw))
		if err != nil {
			wrong = append(wrong, fmt.Errorf("fragment %s: %w", name, err))
			continue
		}
		out = append(out, entry)
	}
	return out, errors.Join(wrong...)
}

// FragmentNames returns the names of the fragments in a directory.
func FragmentNames(dir fs.FS) ([]string, error) {
	files, err := fs.ReadDir(dir, ".")
	if err != nil {
		return nil, fmt.Errorf("list the fragments: %w", err)
	}
	var out []string
	for _, f := range files {
		if f.Name() != guide {
			out = append(out, f.Name())
		}
	}
	return out, nil
}

// parseFragment parses one fragment. The file name ends with the kind, such as "name.added.md", and
// the text becomes the entry.
func parseFragment(name, text string) (Entry, error) {
	stem, isMarkdown := strings.CutSuffix(name, ".md")
	ending := path.Ext(stem)
	at := slices.IndexFunc(kinds(), func(k Kind) bool { return "."+strings.ToLower(string(k)) == ending })
	if !isMarkdown || at < 0 || stem == ending {
		return Entry{}, fmt.Errorf("want a name such as shorter-waits.fixed.md, with one of %v", kinds())
	}
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return Entry{}, errors.New("it is empty")
	case strings.HasPrefix(text, "- "), strings.HasPrefix(text, "* "), strings.HasPrefix(text, "#"):
		return Entry{}, errors.New("it becomes an item of a list by itself: leave out marks and headings")
	case strings.Contains(text, "\n\n"):
		return Entry{}, errors.New("it has more than one paragraph")
	case !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, ".)"):
		return Entry{}, errors.New("it is no sentence: it does not end with a full stop")
	}
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return Entry{Kind: kinds()[at], Text: strings.Join(lines, "\n")}, nil
}
