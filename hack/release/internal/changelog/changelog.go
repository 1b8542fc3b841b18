package changelog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Unreleased is the title of the section of unreleased changes.
const Unreleased = "Unreleased"

// Kind is the kind of a change, as defined by Keep a Changelog.
type Kind string

// These are the kinds of changes.
const (
	Added      Kind = "Added"
	Changed    Kind = "Changed"
	Deprecated Kind = "Deprecated"
	Removed    Kind = "Removed"
	Fixed      Kind = "Fixed"
	Security   Kind = "Security"
)

// kinds returns all kinds, in their order within a section.
func kinds() []Kind { return []Kind{Added, Changed, Deprecated, Removed, Fixed, Security} }

// Entry is one change in the changelog.
type Entry struct {
	Kind Kind
	// Text is a paragraph in Markdown.
	Text string
}

// Section has the changes of one release, or the unreleased changes.
type Section struct {
	// Title is the constant Unreleased, or a version without the leading v.
	Title string
	// Date is the day of the release, such as 2026-12-01. It is empty for unreleased changes.
	Date string
	// Intro is the text before the entries.
	Intro   string
	Entries []Entry
}

// Log is a parsed changelog file.
type Log struct {
	// Head is the text before the first section.
	Head     string
	Sections []Section
}

// ErrReleased is the error for a release whose version is already in the changelog.
var ErrReleased = errors.New("the changelog has that version already")

// Parse parses a changelog file. It returns an error for a line that is no part of a Log.
func Parse(text string) (*Log, error) {
	log := &Log{}
	var section *Section
	var kind Kind
	for number, line := range strings.Split(text, "\n") {
		wrong := func(what string) error { return fmt.Errorf("line %d: %s: %q", number+1, what, line) }
		title, isTitle := strings.CutPrefix(line, "## ")
		name, isKind := strings.CutPrefix(line, "### ")
		item, isItem := strings.CutPrefix(line, "- ")
		more, isMore := strings.CutPrefix(line, "  ")
		switch {
		case isTitle:
			s, err := parseTitle(title)
			if err != nil {
				return nil, wrong(err.Error())
			}
			log.Sections = append(log.Sections, s)
			section, kind = &log.Sections[len(log.Sections)-1], ""
		case section == nil:
			log.Head += line + "\n"
		case isKind:
			if kind = Kind(name); !slices.Contains(kinds(), kind) {
				return nil, wrong("no kind of change")
			}
		case kind == "":
			section.Intro += line + "\n"
		case isItem:
			section.Entries = append(section.Entries, Entry{Kind: kind, Text: item})
		case isMore && len(section.Entries) > 0 && section.Entries[len(section.Entries)-1].Kind == kind:
			section.Entries[len(section.Entries)-1].Text += "\n" + more
		case line != "":
			return nil, wrong("neither a change nor part of one")
		}
	}
	log.Head = strings.TrimSpace(log.Head)
	for i := range log.Sections {
		log.Sections[i].Intro = strings.TrimSpace(log.Sections[i].Intro)
	}
	return log, nil
}

// parseTitle parses the title of a section: "[Unreleased]", or "[0.2.0] - 2026-12-01".
func parseTitle(title string) (Section, error) {
	name, date, dated := strings.Cut(title, " - ")
	inner, ok := strings.CutPrefix(name, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if !ok || !closed || inner == "" || dated == (inner == Unreleased) || dated && len(date) != len("2006-01-02") {
		return Section{}, errors.New("no title such as [0.2.0] - 2026-12-01")
	}
	return Section{Title: inner, Date: date}, nil
}

// String returns the text of the changelog file.
func (l *Log) String() string {
	var b strings.Builder
	b.WriteString(l.Head + "\n")
	for i := range l.Sections {
		s := &l.Sections[i]
		b.WriteString("\n## [" + s.Title + "]")
		if s.Date != "" {
			b.WriteString(" - " + s.Date)
		}
		b.WriteString("\n")
		if body := s.Body("###"); body != "" {
			b.WriteString("\n" + body)
		}
	}
	return b.String()
}

// Body returns the text of the section below its title. A heading precedes the changes of each
// kind.
func (s *Section) Body(heading string) string {
	var parts []string
	if s.Intro != "" {
		parts = append(parts, s.Intro+"\n")
	}
	for _, kind := range kinds() {
		var b strings.Builder
		for _, e := range s.Entries {
			if e.Kind == kind {
				b.WriteString("- " + strings.ReplaceAll(e.Text, "\n", "\n  ") + "\n")
			}
		}
		if b.Len() > 0 {
			parts = append(parts, heading+" "+string(kind)+"\n\n"+b.String())
		}
	}
	return strings.Join(parts, "\n")
}

// Of returns the changes of a version. If the changelog has a section for the version, Of returns
// this section. Otherwise it returns the unreleased changes and the fragments.
func (l *Log) Of(version string, fragments []Entry) Section {
	if s := l.find(version); s != nil {
		return *s
	}
	out := Section{Title: version}
	if s := l.find(Unreleased); s != nil {
		out.Intro, out.Entries = s.Intro, slices.Clone(s.Entries)
	}
	out.Entries = append(out.Entries, fragments...)
	return out
}

// Release moves the unreleased changes and the fragments to a new section for a version. It returns
// ErrReleased if the version already has a section, and another error if there are no changes.
func (l *Log) Release(version, date string, fragments []Entry) error {
	if l.find(version) != nil {
		return fmt.Errorf("%s: %w", version, ErrReleased)
	}
	released := l.Of(version, fragments)
	if len(released.Entries) == 0 {
		return fmt.Errorf("%s changes nothing", version)
	}
	released.Date = date
	older := slices.DeleteFunc(l.Sections, func(s Section) bool { return s.Title == Unreleased })
	l.Sections = append([]Section{{Title: Unreleased}, released}, older...)
	return nil
}

func (l *Log) find(title string) *Section {
	for i := range l.Sections {
		if l.Sections[i].Title == title {
			return &l.Sections[i]
		}
	}
	return nil
}
