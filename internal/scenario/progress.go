package scenario

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/simulation"
)

// ahead is the maximum time that a pod's clock may be ahead of the scheduler's clock. Decisions use
// the same limit.
const ahead = time.Minute

// takeProgress sets the data for computing the work that evictions lose. The data come from
// annotations of the pods and of their gang. The latest checkpoint of any member applies to all
// members of a gang. The simulation has one checkpoint interval and one restart cost for a gang.
// takeProgress uses the values of the members that lose the most.
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
