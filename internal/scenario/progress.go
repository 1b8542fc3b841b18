package scenario

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/simulation"
)

// ahead is the time that the clock of a pod may be ahead of the scheduler's, as in decisions.
const ahead = time.Minute

// takeProgress sets the work that evictions lose, from the annotations of some pods and of their
// gang. Members of a gang share the latest checkpoint. The simulation has one interval and one
// restart cost for all of them: the values that lose the most.
func (m *maker) takeProgress(work *simulation.Work, pods []*corev1.Pod, of gang.Progress) {
	var saved time.Time
	savesItself := true
	for i := range pods {
		own, _ := gang.ProgressOf(pods[i].Annotations)
		for _, at := range []time.Time{own.Saved, of.Saved} {
			if at.After(saved) && !at.After(m.now.Add(ahead)) {
				saved = at
			}
		}
		interval := cmp.Or(own.Interval, of.Interval)
		savesItself = savesItself && interval > 0
		work.Interval = max(work.Interval, interval)
		work.Restart = max(work.Restart, cmp.Or(own.Restart, of.Restart))
	}
	if !savesItself {
		work.Interval = 0
	}
	if work.On != nil && !saved.IsZero() {
		work.Saved = min(max(work.Ran-m.now.Sub(saved), 0), work.Ran)
	}
}
