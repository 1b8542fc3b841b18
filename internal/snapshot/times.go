package snapshot

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// Nanos is the core's form of a time, in nanoseconds since 1970; zero stays zero. A time past what can be counted is
// [core.Forever].
func Nanos(t time.Time) int64 {
	switch {
	case t.IsZero():
		return 0
	case t.After(time.Unix(0, math.MaxInt64)):
		return core.Forever
	default:
		return t.UnixNano()
	}
}

// startOf is when a pod's node took it on; zero where it has not.
func startOf(pod *corev1.Pod) time.Time {
	if pod.Status.StartTime == nil {
		return time.Time{}
	}
	return pod.Status.StartTime.Time
}
