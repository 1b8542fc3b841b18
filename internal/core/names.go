package core

import (
	"fmt"
	"slices"
)

// FewNames sorts names for a message and keeps at most the given number of names. If it removes
// names, it adds an entry such as "and 3 more".
func FewNames(names []string, most int) []string {
	out := slices.Sorted(slices.Values(names))
	if n := len(out); n > most {
		out = append(out[:most], fmt.Sprintf("and %d more", n-most))
	}
	return out
}
