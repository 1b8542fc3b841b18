package core

import (
	"slices"
	"testing"
)

func TestFewNames(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		names, want []string
	}{
		"none":        {},
		"as many":     {names: []string{"b", "a"}, want: []string{"a", "b"}},
		"one more":    {names: []string{"c", "b", "a"}, want: []string{"a", "b", "and 1 more"}},
		"some others": {names: []string{"d", "c", "b", "a"}, want: []string{"a", "b", "and 2 more"}},
	} {
		given := slices.Clone(c.names)
		if got := FewNames(c.names, 2); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if !slices.Equal(c.names, given) {
			t.Errorf("%s: the names that were given are %q now", name, c.names)
		}
	}
}
