package controller

import (
	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// forgetStops removes the record of stops from the status of a group that has made progress since
// its last stop. Decisions check the progress themselves, so a late removal does no harm. But the
// check reads the start time of the present run, so call forgetStops before the start time in the
// status changes.
func (s *Status) forgetStops(st *v1alpha1.PodGroupStatus, g *gang.Group) {
	last := st.LastDisruption
	if last == nil || last.StopTime == nil {
		return
	}
	ran := st.StartTime != nil && st.StartTime.After(last.StopTime.Time) && s.clock.Since(st.StartTime.Time).Nanoseconds() >= core.ProgressTime
	if ran || g.Progress.Saved.After(last.StopTime.Time) && !g.Progress.Saved.After(s.clock.Now()) {
		last.Stops, last.StopTime = 0, nil
	}
}
