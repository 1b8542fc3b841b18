package simulation

import "time"

// submission is one piece of submitted work with its history.
type submission struct {
	work *Work
	jobs []*job
	// perGPU converts amounts to GPUs.
	perGPU gpus
	// since is the start of the current wait; zero while the work is not waiting. waited is the sum
	// of the earlier waits.
	since  time.Time
	waited time.Duration
	// started is true once the work has run, and over once it has ended.
	started, over bool
	// preempted is true if the work has preempted during the current wait. preempting are the
	// earlier waits with a preemption.
	preempted  bool
	preempting []time.Duration
	// evictions counts how often the work was stopped, and evictedPods how many of its pods were
	// evicted.
	evictions, evictedPods int
	// used, lost and idle are GPU-hours: work that counts, work that evictions discarded, and time
	// spent waiting for other members or terminating.
	used, lost, idle float64
}

// gpus converts amounts to numbers of GPUs.
type gpus struct {
	resource int
	per      int64
}

func (g gpus) of(p *pod) float64 {
	if g.resource < 0 || g.per == 0 {
		return 0
	}
	return float64(p.request[g.resource]) / float64(g.per)
}

// waits begins a wait. If the work has run before, an eviction ended its run.
func (w *submission) waits(now time.Time) {
	if !w.since.IsZero() || w.over {
		return
	}
	w.since = now
	if w.started {
		w.evictions++
	}
}

// starts ends the wait: the work runs.
func (w *submission) starts(now time.Time) {
	w.halt(now)
	w.started = true
}

// preempts records that the waiting work preempts.
func (w *submission) preempts() { w.preempted = !w.since.IsZero() }

// ends records that the work has ended.
func (w *submission) ends(now time.Time) {
	w.halt(now)
	w.over = true
}

// halt ends a wait.
func (w *submission) halt(now time.Time) {
	if !w.since.IsZero() {
		w.waited += now.Sub(w.since)
		if w.preempted {
			w.preempting = append(w.preempting, now.Sub(w.since))
		}
		w.since, w.preempted = time.Time{}, false
	}
}

func (w *submission) works(p *pod, d time.Duration) { w.used += w.perGPU.of(p) * d.Hours() }

func (w *submission) idles(p *pod, d time.Duration) { w.idle += w.perGPU.of(p) * d.Hours() }

// stopped accounts for a pod that ends after running for some time. The time kept is not lost.
func (w *submission) stopped(p *pod, ran, kept time.Duration) {
	w.works(p, kept)
	w.lost += w.perGPU.of(p) * (ran - kept).Hours()
}
