package core

import (
	"fmt"
	"slices"
)

// FewNames sorts names for a message and cuts them down to at most so many, with a word on how many more there are.
func FewNames(names []string, most int) []string {
	out := slices.Sorted(slices.Values(names))
	if n := len(out); n > most {
		out = append(out[:most], fmt.Sprintf("and %d more", n-most))
	}
	return out
}
