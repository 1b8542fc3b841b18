package whatif

import "strings"

// Nearest returns the candidate that a misspelled word most probably means. It is empty if no
// candidate is similar. A candidate is similar if its distance from the word is at most 1, or at
// most 3 and at most a third of its length. See distance.
func Nearest(word string, candidates []string) string {
	best, least := "", 4
	for _, candidate := range candidates {
		if candidate == word {
			continue
		}
		d := distance(strings.ToLower(word), strings.ToLower(candidate))
		if d > max(len(candidate)/3, 1) {
			continue
		}
		if d < least {
			best, least = candidate, d
		}
	}
	return best
}

// distance returns the number of edits that are needed to change one word into the other. An edit
// inserts, deletes or replaces a letter, or exchanges two adjacent letters.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
