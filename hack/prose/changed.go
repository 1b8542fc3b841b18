package main

import (
	"context"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// lineSet maps the path of a file to the numbers of the lines that a branch changed.
type lineSet map[string]map[int]bool

// hunk matches the head of a hunk in a diff. Its groups are the first line number and the number of
// lines of the hunk, both in the new version of the file.
var hunk = regexp.MustCompile(`^@@ -\S+ \+(\d+)(?:,(\d+))? @@`)

// changedLines returns the lines that differ between the work tree and the commit of baseOf. If the
// checkout does not have that commit, it compares with HEAD. Without git, it returns no lines.
func changedLines(ctx context.Context, base string) lineSet {
	if base = baseOf(ctx, base); base == "" {
		base = "HEAD"
	}
	diff, err := git(ctx, "diff", "--no-color", "--unified=0", "--no-ext-diff", base, "--", "*.go", "*.md")
	if err != nil {
		return nil
	}
	return parseDiff(diff)
}

// parseDiff returns the lines that a diff without context adds or changes.
func parseDiff(diff string) lineSet {
	set, file := lineSet{}, ""
	for line := range strings.SplitSeq(diff, "\n") {
		if name, ok := strings.CutPrefix(line, "+++ b/"); ok {
			file = name
			set[file] = map[int]bool{}
		}
		if match := hunk.FindStringSubmatch(line); match != nil && set[file] != nil {
			first, _ := strconv.Atoi(match[1])
			count := 1
			if match[2] != "" {
				count, _ = strconv.Atoi(match[2])
			}
			for i := range count {
				set[file][first+i] = true
			}
		}
	}
	return set
}

// prefer returns the findings on changed lines. If no finding is on a changed line, it returns all
// findings.
func (s lineSet) prefer(found []finding) []finding {
	var changed []finding
	for _, f := range found {
		if s[f.file][f.line] {
			changed = append(changed, f)
		}
	}
	if len(changed) == 0 {
		return found
	}
	return changed
}

// baseOf returns the commit where the branch left base, or left main if base is "". If the checkout
// does not have this commit, it returns "".
func baseOf(ctx context.Context, base string) string {
	candidates := []string{base}
	if base == "" {
		candidates = []string{"origin/main", "main"}
	}
	for _, candidate := range candidates {
		if commit, err := git(ctx, "merge-base", "HEAD", candidate); err == nil {
			return strings.TrimSpace(commit)
		}
	}
	return ""
}

// git runs git and returns its output.
func git(ctx context.Context, args ...string) (string, error) {
	output, err := exec.CommandContext(ctx, "git", args...).Output()
	return string(output), err
}
