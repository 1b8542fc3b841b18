package simulation

import "time"

// submission is submitted work with its history. Its GPU time and waiting time are part of the
// Result.
type submission struct {
	work *Work
	jobs []*job
	// perGPU converts amounts of the pods' requests to numbers of GPUs.
	perGPU gpus
	// since is the start of the current wait. It is zero while the work does not wait. waited is
	// the total length of earlier waits.
	since  time.Time
	waited time.Duration
	// started is true after the first start of the work. over is true after its end.
	started, over bool
	// preempted is true if the work has preempted during its current wait.
	preempted bool
	// preempting has the lengths of earlier waits with a preemption.
	preempting []time.Duration
	// evictions is the number of times that the work was stopped. evictedPods is the number of its
	// pods that were evicted.
	evictions, evictedPods int
	// used, lost and idle are GPU-hours. used is the time of work that is finished, saved or still
	// running. lost is the time of work that evictions discarded. idle is the time of pods that
	// waited for other members or terminated.
	used, lost, idle float64
}

// gpus converts amounts to numbers of GPUs. resource is the index of the GPU resource, and per is
// its amount in one GPU.
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

// waits begins a wait. If the work has run before, waits counts an eviction.
func (w *submission) waits(now time.Time) {
	if !w.since.IsZero() || w.over {
		return
	}
	w.since = now
	if w.started {
		w.evictions++
	}
}

// starts ends the current wait, because the work runs.
func (w *submission) starts(now time.Time) {
	w.halt(now)
	w.started = true
}

// preempts records that the work preempts during its current wait.
func (w *submission) preempts() { w.preempted = !w.since.IsZero() }

func (w *submission) ends(now time.Time) {
	w.halt(now)
	w.over = true
}

// halt ends the current wait, if there is one.
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

// stopped counts the GPU time of a pod that was stopped. ran is its running time, and kept is the
// part of it that is not lost.
func (w *submission) stopped(p *pod, ran, kept time.Duration) {
	w.works(p, kept)
	w.lost += w.perGPU.of(p) * (ran - kept).Hours()
}
