package core

import (
	"fmt"
	"slices"
)

// FewNames sorts names for a message and keeps at most the given number. If it drops names, the
// last entry has their number.
func FewNames(names []string, most int) []string {
	out := slices.Sorted(slices.Values(names))
	if n := len(out); n > most {
		out = append(out[:most], fmt.Sprintf("and %d more", n-most))
	}
	return out
}
