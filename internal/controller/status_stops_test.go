package controller

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// TestForgetStops checks that the record of stops is removed once the group has made progress. The
// last stop was two hours ago.
func TestForgetStops(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// started is the time since the group started, and saved is the time since it last saved
		// its work; 0 for never.
		started, saved time.Duration
		want           int32
	}{
		"it does not run":              {want: 2},
		"it has run for less":          {started: 59 * time.Minute, want: 2},
		"it has run for an hour":       {started: time.Hour},
		"its start is before the stop": {started: 3 * time.Hour, want: 2},
		"a checkpoint":                 {saved: time.Minute},
		"an earlier checkpoint":        {saved: 3 * time.Hour, want: 2},
		"a checkpoint of the future":   {saved: -time.Hour, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := newBench(t).status
			ago := func(d time.Duration) *metav1.Time {
				at := metav1.NewTime(status.clock.Now().Add(-d))
				return &at
			}
			st := v1alpha1.PodGroupStatus{LastDisruption: &v1alpha1.LastDisruption{Count: 5, Stops: 2, StopTime: ago(2 * time.Hour)}}
			var g gang.Group
			if c.started != 0 {
				st.StartTime = ago(c.started)
			}
			if c.saved != 0 {
				g.Progress.Saved = ago(c.saved).Time
			}
			status.forgetStops(&st, &g)
			if last := st.LastDisruption; last.Stops != c.want || last.Count != 5 || (last.StopTime == nil) != (c.want == 0) {
				t.Errorf("the last disruption is %+v, want %d stops", last, c.want)
			}
		})
	}
}
