package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxSubject is the number of characters that the subject of a commit may have.
const maxSubject = 72

var (
	// subjectForm is "package: verb …", or several packages with commas.
	subjectForm = regexp.MustCompile(`^[A-Za-z0-9_./-]+(?:, [A-Za-z0-9_./-]+)*: ([a-z][a-z-]*)\b`)
	// otherMood is a verb that is not imperative: "adds", "added", "adding".
	otherMood = regexp.MustCompile(`(?:[^s]s|[^e]ed|ing)$`)
	// imperative matches verbs that are imperative although they have such an ending.
	imperative = regexp.MustCompile(`^(?:bring|string|embed|shed|bias|focus|alias)$`)
)

// commits fails if the subject of a commit since the base breaks the rules.
// A checkout without the base passes.
func commits(ctx context.Context, out io.Writer, base string) error {
	from := baseOf(ctx, base)
	if from == "" {
		fmt.Fprintln(out, "The checkout does not have the base of this branch: no subjects of commits are checked.")
		return nil
	}
	log, err := git(ctx, "log", "--no-merges", "--format=%h %s", from+"..HEAD")
	if err != nil {
		return fmt.Errorf("cannot list the commits since %s: %w", from, err)
	}
	wrong := 0
	for line := range strings.Lines(log) {
		hash, subject, _ := strings.Cut(strings.TrimSpace(line), " ")
		for _, fault := range subjectFaults(subject) {
			fmt.Fprintf(out, "%s: Subject: %s: %s\n", hash, fault, subject)
			wrong++
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d subjects of commits break the rules; docs/writing.md has them", wrong)
	}
	return nil
}

// subjectFaults returns the faults of the subject of a commit.
func subjectFaults(subject string) []string {
	if strings.HasPrefix(subject, `Revert "`) {
		return nil
	}
	var faults []string
	if length := utf8.RuneCountInString(subject); length > maxSubject {
		faults = append(faults, fmt.Sprintf("shorten it from %d to at most %d characters", length, maxSubject))
	}
	match := subjectForm.FindStringSubmatch(subject)
	switch {
	case match == nil:
		faults = append(faults, `write "package: verb …", with a small letter after the colon`)
	case otherMood.MatchString(match[1]) && !imperative.MatchString(match[1]):
		faults = append(faults, fmt.Sprintf("write the imperative instead of %q", match[1]))
	}
	if strings.HasSuffix(subject, ".") {
		faults = append(faults, "end it without a period")
	}
	return faults
}
