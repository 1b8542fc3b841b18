package gang

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
)

// Progress describes the work that the eviction of a pod or PodGroup would lose, according to its
// annotations.
type Progress struct {
	// Saved is the time when the work was last saved; zero if that is not known.
	Saved time.Time
	// Interval is the time between two saves of the work; 0 for no saves.
	Interval time.Duration
	// Restart is the run time that a restart loses in addition to the unsaved work. 0 means that no
	// annotation sets it. NoRestart means that a restart loses no run time.
	Restart time.Duration
}

// NoRestart is the Progress.Restart of work whose annotation sets a restart cost of 0. The
// profile's default for work without the annotation does not apply to it.
const NoRestart = time.Duration(core.NoRestart)

// longestProgress is the longest duration that an annotation about work may have. A pod with a high
// restart cost is a less likely victim.
const longestProgress = 24 * time.Hour

// ProgressKeys lists the annotations about lost work.
func ProgressKeys() []string {
	return []string{v1alpha1.AnnotationLastCheckpoint, v1alpha1.AnnotationCheckpointInterval, v1alpha1.AnnotationRestartCost}
}

// BadValue is a value of an annotation about lost work that has no effect.
type BadValue struct {
	// Key is the annotation, and Value its value.
	Key, Value string
	// want describes valid values.
	want string
}

func (e *BadValue) Error() string {
	return fmt.Sprintf("annotation %s: got %q, want %s", e.Key, e.Value, e.want)
}

// BadValues lists the values of annotations about lost work that have no effect at a time: invalid
// values, and checkpoints in the future.
func BadValues(annotations map[string]string, now time.Time) (bad []*BadValue) {
	p, err := ProgressOf(annotations)
	if p.Saved.After(now.Add(time.Duration(core.ClockSkew))) {
		bad = append(bad, &BadValue{
			Key: v1alpha1.AnnotationLastCheckpoint, Value: annotations[v1alpha1.AnnotationLastCheckpoint],
			want: "a time that is not in the future; the scheduler has " + now.UTC().Format(time.RFC3339),
		})
	}
	if invalid, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range invalid.Unwrap() {
			if value, ok := errors.AsType[*BadValue](one); ok {
				bad = append(bad, value)
			}
		}
	}
	return bad
}

// ProgressOf reads the annotations about lost work. It leaves out invalid values, and returns an
// error that joins a BadValue for each.
func ProgressOf(annotations map[string]string) (Progress, error) {
	var p Progress
	var errs []error
	if v, ok := annotations[v1alpha1.AnnotationLastCheckpoint]; ok {
		at, err := time.Parse(time.RFC3339, v)
		if err != nil || at.Unix() <= 0 {
			errs = append(errs, &BadValue{Key: v1alpha1.AnnotationLastCheckpoint, Value: v, want: "a time such as 2026-01-31T15:04:05Z"})
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
			errs = append(errs, &BadValue{Key: d.key, Value: v, want: "a duration such as 30m, or whole seconds, up to 24 hours"})
		}
		*d.to = length
		if ok && length == 0 && d.key == v1alpha1.AnnotationRestartCost {
			p.Restart = NoRestart
		}
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
