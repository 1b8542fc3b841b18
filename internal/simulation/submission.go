package simulation

import "time"

// submission is one piece of work with what became of it.
type submission struct {
	work *Work
	jobs []*job
	// perGPU says how GPUs are counted.
	perGPU gpus
	// since is when it began to wait; zero while it works. waited is what came before.
	since  time.Time
	waited time.Duration
	// started is true once it has worked, over when there is nothing more to do.
	started, over bool
	// evictions counts how often it was stopped, evictedPods its pods that were told to go.
	evictions, evictedPods int
	// used, lost and idle are GPU time that counts, that was thrown away, and that was spent waiting for others or ending.
	used, lost, idle float64
}

// gpus are how many GPUs amounts stand for.
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

// waits has the work wait from now on.
func (w *submission) waits(now time.Time) {
	if !w.since.IsZero() || w.over {
		return
	}
	w.since = now
	if w.started {
		w.evictions++
	}
}

// starts has the work go on.
func (w *submission) starts(now time.Time) {
	w.halt(now)
	w.started = true
}

// ends has the work be over.
func (w *submission) ends(now time.Time) {
	w.halt(now)
	w.over = true
}

// halt ends a wait.
func (w *submission) halt(now time.Time) {
	if !w.since.IsZero() {
		w.waited += now.Sub(w.since)
		w.since = time.Time{}
	}
}

func (w *submission) works(p *pod, d time.Duration) { w.used += w.perGPU.of(p) * d.Hours() }

func (w *submission) idles(p *pod, d time.Duration) { w.idle += w.perGPU.of(p) * d.Hours() }

// stopped has a pod end that has run for some time, of which some is kept.
func (w *submission) stopped(p *pod, ran, kept time.Duration) {
	w.works(p, kept)
	w.lost += w.perGPU.of(p) * (ran - kept).Hours()
}
