package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxSubject is the greatest length of a commit's subject, in characters.
const maxSubject = 72

var (
	// subjectForm matches "package: verb …". Several packages may precede the colon, separated by
	// commas.
	subjectForm = regexp.MustCompile(`^[A-Za-z0-9_./-]+(?:, [A-Za-z0-9_./-]+)*: ([a-z][a-z-]*)\b`)
	// otherMood matches the endings of verbs that are not imperative, such as "adds", "added" and
	// "adding".
	otherMood = regexp.MustCompile(`(?:[^s]s|[^e]ed|ing)$`)
	// imperative matches imperative verbs that otherMood matches by mistake.
	imperative = regexp.MustCompile(`^(?:bring|string|embed|shed|bias|focus|alias)$`)
)

// commits checks the subject of each commit since the base, and returns an error if a subject
// breaks a rule. If the checkout lacks the base commit, it returns nil.
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

// subjectFaults returns a description of each rule that a commit's subject breaks.
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
