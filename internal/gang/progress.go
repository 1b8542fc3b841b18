package gang

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// Progress describes the work that the eviction of a pod or PodGroup would lose, as far as its
// annotations tell.
type Progress struct {
	// Saved is when the work was last saved; zero if that is not known.
	Saved time.Time
	// Interval is how often the work saves itself; 0 for never.
	Interval time.Duration
	// Restart is the run time that a restart loses beside the work.
	Restart time.Duration
}

// longestProgress bounds the durations of annotations about work. It is about ten years.
const longestProgress = 10 * 366 * 24 * time.Hour

// ProgressOf reads the annotations about lost work. It leaves out invalid values, and returns an
// error that names them.
func ProgressOf(annotations map[string]string) (Progress, error) {
	var p Progress
	var errs []error
	if v, ok := annotations[v1alpha1.AnnotationLastCheckpoint]; ok {
		at, err := time.Parse(time.RFC3339, v)
		if err != nil || at.Unix() <= 0 {
			errs = append(errs, fmt.Errorf("annotation %s: %q is no time such as 2026-01-31T15:04:05Z", v1alpha1.AnnotationLastCheckpoint, v))
		} else {
			p.Saved = at
		}
	}
	for _, d := range []struct {
		key string
		to  *time.Duration
	}{{v1alpha1.AnnotationCheckpointInterval, &p.Interval}, {v1alpha1.AnnotationRestartCost, &p.Restart}} {
		v, ok := annotations[d.key]
		if !ok {
			continue
		}
		length, ok := durationOf(v)
		if !ok {
			errs = append(errs, fmt.Errorf("annotation %s: %q is no duration such as 30m, and no number of seconds, from 0 to ten years", d.key, v))
		}
		*d.to = length
	}
	return p, errors.Join(errs...)
}

// durationOf reads a number of seconds, or a duration with units. It returns false for a negative
// or too long one.
func durationOf(value string) (time.Duration, bool) {
	length, err := time.ParseDuration(value)
	if seconds, failed := strconv.ParseInt(value, 10, 64); failed == nil {
		length, err = time.Duration(min(max(seconds, -1), int64(longestProgress/time.Second)+1))*time.Second, nil
	}
	if err != nil || length < 0 || length > longestProgress {
		return 0, false
	}
	return length, true
}

// Or returns the progress of a member of a group. The member's own values count first, but of the
// last checkpoints the later one.
func (p Progress) Or(group Progress) Progress {
	if group.Saved.After(p.Saved) {
		p.Saved = group.Saved
	}
	p.Interval, p.Restart = cmp.Or(p.Interval, group.Interval), cmp.Or(p.Restart, group.Restart)
	return p
}
