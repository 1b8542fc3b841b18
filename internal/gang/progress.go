package gang

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
)

// Progress holds the annotations of a pod or PodGroup about the work that its eviction would lose.
type Progress struct {
	// Saved is the time of the last checkpoint; zero if it is not known.
	Saved time.Time
	// Interval is the time between two checkpoints; 0 without regular checkpoints.
	Interval time.Duration
	// Restart is the run time that a restart costs in addition to the work since the last
	// checkpoint. It is 0 if no annotation sets it, and NoRestart if an annotation sets it to 0.
	Restart time.Duration
}

// NoRestart is the Progress.Restart of work whose annotation sets a restart cost of 0. It is not 0,
// because the value 0 means that the default of the profile applies.
const NoRestart = time.Duration(core.NoRestart)

// longestProgress is the longest duration that an annotation about lost work may have. The bound
// exists because a higher restart cost makes a pod a less likely victim.
const longestProgress = 24 * time.Hour

// ProgressKeys lists the annotations about lost work.
func ProgressKeys() []string {
	return []string{v1alpha1.AnnotationLastCheckpoint, v1alpha1.AnnotationCheckpointInterval, v1alpha1.AnnotationRestartCost}
}

// BadValue is the error of an annotation about lost work whose value has no effect.
type BadValue struct {
	// Key is the annotation.
	Key string
	// Value is the value of the annotation.
	Value string
	// want describes the valid values, for the error message.
	want string
}

func (e *BadValue) Error() string {
	return fmt.Sprintf("annotation %s: got %q, want %s", e.Key, e.Value, e.want)
}

// BadValues lists the annotations about lost work whose values have no effect: invalid values, and
// checkpoints later than now.
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

// ProgressOf reads the annotations about lost work. It skips invalid values and returns an error
// that joins one BadValue for each of them.
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

// durationOf reads a duration with units, or a number of seconds. It returns false for a duration
// that is negative or longer than longestProgress.
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
