package workload

import (
	"slices"
	"testing"
)

func TestKeepsFrom(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		promised, other Standing
		want            bool
	}{
		"the same priority":            {Standing{Priority: 5}, Standing{Priority: 5}, true},
		"a higher one":                 {Standing{Priority: 5}, Standing{Priority: 6}, false},
		"a lower one":                  {Standing{Priority: 5}, Standing{Priority: 4}, true},
		"a higher one of its queue":    {Standing{5, "a"}, Standing{6, "a"}, false},
		"a higher one of another":      {Standing{5, "a"}, Standing{1000, "b"}, true},
		"a lower one of another":       {Standing{5, "a"}, Standing{1, "b"}, true},
		"a higher one of no queue":     {Standing{5, "a"}, Standing{6, ""}, false},
		"a higher one, none of itself": {Standing{5, ""}, Standing{6, "b"}, false},
		"critical to the system":       {Standing{5, "a"}, Standing{SystemCritical, "b"}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tt.promised.KeepsFrom(tt.other); got != tt.want {
				t.Errorf("%+v keeps its room from %+v: %t", tt.promised, tt.other, got)
			}
		})
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	keys := []Key{
		{Namespace: "b", Name: "x"}, {Namespace: "a", Name: "y"}, {Namespace: "a", Name: "x", UID: "2"}, {Namespace: "a", Name: "x", UID: "1"},
		{Gang: true, Namespace: "a", Name: "x"},
	}
	slices.SortFunc(keys, Key.Compare)
	want := []Key{
		{Gang: true, Namespace: "a", Name: "x"}, {Namespace: "a", Name: "x", UID: "1"}, {Namespace: "a", Name: "x", UID: "2"},
		{Namespace: "a", Name: "y"}, {Namespace: "b", Name: "x"},
	}
	if !slices.Equal(keys, want) {
		t.Errorf("the order is %v, want %v", keys, want)
	}
	if got := keys[1].String(); got != "a/x" {
		t.Errorf("a key reads %q", got)
	}
}
