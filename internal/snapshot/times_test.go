package snapshot

import (
	"math"
	"testing"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

func TestNanos(t *testing.T) {
	t.Parallel()
	last := time.Unix(0, math.MaxInt64)
	for name, c := range map[string]struct {
		at   time.Time
		want int64
	}{
		"no time":              {time.Time{}, 0},
		"a time":               {time.Unix(7, 5), 7_000_000_005},
		"the last one":         {last, math.MaxInt64},
		"the one after it":     {last.Add(1), core.Forever},
		"what comes no more":   {preemptiontoleration.Forever(), core.Forever},
		"the end of calendars": {time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), core.Forever},
	} {
		if got := Nanos(c.at); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
