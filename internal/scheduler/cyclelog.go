package scheduler

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// cycleLog has pods in their cycles, of which something may have to be put right once the framework has written what came of
// them: it has the last word, and does not say what it says. It has the last cycle of each pod. The zero value is ready to use,
// and safe for concurrent use.
type cycleLog struct {
	mu     sync.Mutex
	recent []loggedCycle
}

// loggedCycle is one cycle of a pod.
type loggedCycle struct {
	key workload.Key
	pod *corev1.Pod
	// over is closed when the framework has written what came of the cycle.
	over <-chan struct{}
	// marked says that something has happened before that.
	marked bool
	// looks counts the reviews since it was over.
	looks int
}

// add has a pod in the log until its cycle is over, whose context this is.
func (l *cycleLog) add(ctx context.Context, key workload.Key, pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(pod.UID)
	l.recent = append(l.recent, loggedCycle{key: key, pod: pod, over: ctx.Done()})
}

// mark marks the cycle of a pod, if that is not over.
func (l *cycleLog) mark(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.recent {
		if c := &l.recent[i]; c.pod.UID == uid && !c.isOver() {
			c.marked = true
		}
	}
}

// drop takes a pod out of the log.
func (l *cycleLog) drop(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(uid)
}

func (l *cycleLog) remove(uid types.UID) {
	l.recent = slices.DeleteFunc(l.recent, func(c loggedCycle) bool { return c.pod.UID == uid })
}

// review takes out the cycles that have been over at so many reviews.
func (l *cycleLog) review(looks int) []loggedCycle {
	l.mu.Lock()
	defer l.mu.Unlock()
	var over, rest []loggedCycle
	for _, c := range l.recent {
		if c.isOver() {
			c.looks++
		}
		if c.looks >= looks {
			over = append(over, c)
		} else {
			rest = append(rest, c)
		}
	}
	l.recent = rest
	return over
}

func (c *loggedCycle) isOver() bool {
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}
