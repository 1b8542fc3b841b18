package snapshot

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// Nanos converts a time to nanoseconds since 1970. The zero time becomes 0. A time that is too late
// for an int64 becomes [core.Forever].
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

// startOf returns the time when the kubelet accepted a pod; zero if it has not.
func startOf(pod *corev1.Pod) time.Time {
	if pod.Status.StartTime == nil {
		return time.Time{}
	}
	return pod.Status.StartTime.Time
}
