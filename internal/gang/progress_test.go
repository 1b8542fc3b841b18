package gang

import (
	"strings"
	"testing"
	"time"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestProgress checks which values of the annotations about lost work are valid. The error must
// name each invalid value.
func TestProgress(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	const last, interval, restart = v1alpha1.AnnotationLastCheckpoint, v1alpha1.AnnotationCheckpointInterval, v1alpha1.AnnotationRestartCost
	for name, c := range map[string]struct {
		annotations map[string]string
		want        Progress
		// wrong lists the values that the error must name.
		wrong []string
	}{
		"nothing":           {},
		"all":               {annotations: map[string]string{last: "2026-01-31T13:00:00+01:00", interval: "30m", restart: "90"}, want: Progress{noon, 30 * time.Minute, 90 * time.Second}},
		"zero":              {annotations: map[string]string{interval: "0", restart: "0s"}, want: Progress{Restart: NoRestart}},
		"no time":           {annotations: map[string]string{last: "12:00", restart: "1s"}, want: Progress{Restart: time.Second}, wrong: []string{last, `"12:00"`}},
		"a time before":     {annotations: map[string]string{last: "1492-10-12T00:00:00Z"}, wrong: []string{"1492"}},
		"a negative cost":   {annotations: map[string]string{restart: "-1"}, wrong: []string{restart, `"-1"`}},
		"negative units":    {annotations: map[string]string{restart: "-1h"}, wrong: []string{`"-1h"`}},
		"centuries":         {annotations: map[string]string{interval: "9223372036854775807"}, wrong: []string{interval}},
		"centuries of time": {annotations: map[string]string{interval: "2000000h"}, wrong: []string{interval}},
		"a day":             {annotations: map[string]string{restart: "24h"}, want: Progress{Restart: 24 * time.Hour}},
		"more than a day":   {annotations: map[string]string{restart: "86401"}, wrong: []string{restart}},
		"two mistakes":      {annotations: map[string]string{last: "", interval: "often"}, wrong: []string{last, interval, `"often"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ProgressOf(c.annotations)
			if !got.Saved.Equal(c.want.Saved) || got.Interval != c.want.Interval || got.Restart != c.want.Restart {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if (err != nil) != (len(c.wrong) > 0) {
				t.Fatalf("error %v, want one that names %q", err, c.wrong)
			}
			for _, words := range c.wrong {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("error %q does not name %s", err, words)
				}
			}
		})
	}
}
