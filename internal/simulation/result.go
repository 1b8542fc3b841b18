package simulation

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Result is the outcome of a simulation.
type Result struct {
	// Policy is the name of the policy.
	Policy string `json:"policy"`
	Rule   Rule   `json:"rule"`
	// Work counts the submitted pods and gangs.
	Work Counts `json:"work"`
	// Pods counts the submitted pods, including the members of gangs.
	Pods Counts `json:"pods"`
	// Evictions is the number of times that work was stopped. EvictedPods is the number of evicted
	// pods. EvictedByReplacements is the number of these pods whose preemptor had itself been
	// evicted before.
	Evictions             int `json:"evictions"`
	EvictedPods           int `json:"evictedPods"`
	EvictedByReplacements int `json:"evictedByReplacements"`
	// GPUHours shows how the GPU time of the nodes was used.
	GPUHours Hours `json:"gpuHours"`
	// Wait has the waiting times of all work.
	Wait Waits `json:"wait"`
	// Priorities has the results of each priority.
	Priorities []Group `json:"priorities"`
	// Groups has the results of each pair of queue and priority.
	Groups []Group `json:"groups"`
	// PreemptorWait has the waiting times of work that preempted, from its arrival to its start.
	// Its field Never is the number of waits that had not ended.
	PreemptorWait Waits `json:"preemptorWait"`
	// Decisions is the number of decisions of Reprieve's core. Steps is the number of steps of
	// their searches. Both measure the effort independently of the machine.
	Decisions int `json:"decisions"`
	Steps     int `json:"searchSteps"`
}

// Counts is the number of items in each state. All submitted items are done, running or waiting.
type Counts struct {
	Submitted int `json:"submitted"`
	Done      int `json:"done"`
	Running   int `json:"running"`
	Waiting   int `json:"waiting"`
}

// Hours are GPU-hours.
type Hours struct {
	// Capacity is the total GPU time of the nodes.
	Capacity float64 `json:"capacity"`
	// Used is the GPU time of work that is finished, saved or still running.
	Used float64 `json:"used"`
	// Lost is the GPU time of work that was lost by evictions.
	Lost float64 `json:"lost"`
	// Idle is the GPU time of pods that could not work, because they waited for other members of
	// their gang or terminated.
	Idle float64 `json:"idle"`
}

// Waits has statistics of waiting times in seconds. The waiting time of work is the sum of all its
// waits, including the waits after evictions. A wait that has not ended counts with its length so
// far.
type Waits struct {
	P50 float64 `json:"p50Seconds"`
	P99 float64 `json:"p99Seconds"`
	// Never is the number of workloads that never started.
	Never int `json:"neverStarted"`
	// Percentiles has the percentiles 0 to 100, so it has 101 values.
	Percentiles []float64 `json:"percentiles,omitempty"`
}

// Group has the results of one priority. In Result.Groups, it has the results of one priority in
// one queue. Queue is empty in Result.Priorities, and for work without a queue.
type Group struct {
	Queue       string `json:"queue,omitempty"`
	Priority    int32  `json:"priority"`
	Work        int    `json:"work"`
	Evictions   int    `json:"evictions"`
	EvictedPods int    `json:"evictedPods"`
	GPUHours    Hours  `json:"gpuHours"`
	Wait        Waits  `json:"wait"`
}

// result returns the result of the simulation up to now.
func (s *simulation) result(in *Input) *Result {
	r := &Result{Policy: s.policy.Name, Rule: s.policy.Rule, Decisions: s.decisions, Steps: s.steps, EvictedByReplacements: s.byReplacements}
	for _, n := range s.nodes {
		for _, p := range n.pods {
			s.closeBooks(p)
		}
	}
	for i := range in.Nodes {
		if in.GPU >= 0 && in.PerGPU > 0 {
			r.GPUHours.Capacity += float64(in.Nodes[i].Allocatable[in.GPU]) / float64(in.PerGPU) * s.opts.Lasts.Hours()
		}
	}
	whole := &tally{}
	byPriority, byGroup := make(map[int32]*tally), make(map[groupKey]*tally)
	for _, w := range s.submissions {
		count(&r.Work, &r.Pods, w)
		priority, group := byPriority[w.work.Priority], byGroup[groupKey{w.work.Queue, w.work.Priority}]
		if priority == nil {
			priority = &tally{}
			byPriority[w.work.Priority] = priority
		}
		if group == nil {
			group = &tally{}
			byGroup[groupKey{w.work.Queue, w.work.Priority}] = group
		}
		for _, t := range []*tally{whole, priority, group} {
			t.add(w, s.now)
		}
	}
	r.PreemptorWait = s.preemptorWait()
	capacity := r.GPUHours.Capacity
	total := whole.group()
	r.Evictions, r.EvictedPods, r.Wait, r.GPUHours = total.Evictions, total.EvictedPods, total.Wait, total.GPUHours
	r.GPUHours.Capacity = capacity
	for priority, t := range byPriority {
		g := t.group()
		g.Priority = priority
		r.Priorities = append(r.Priorities, g)
	}
	for key, t := range byGroup {
		g := t.group()
		g.Queue, g.Priority, g.Wait.Percentiles = key.queue, key.priority, nil
		r.Groups = append(r.Groups, g)
	}
	order := func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(b.Priority, a.Priority))
	}
	slices.SortFunc(r.Priorities, order)
	slices.SortFunc(r.Groups, order)
	return r
}

// preemptorWait returns the waiting times of work that preempted.
func (s *simulation) preemptorWait() (out Waits) {
	var waits []time.Duration
	for _, w := range s.submissions {
		if waits = append(waits, w.preempting...); w.preempted && !w.since.IsZero() {
			waits = append(waits, s.now.Sub(w.since))
			out.Never++
		}
	}
	slices.Sort(waits)
	out.P50, out.P99 = percentile(waits, 50), percentile(waits, 99)
	return out
}

type groupKey struct {
	queue    string
	priority int32
}

// closeBooks adds the GPU time of a pod that is still on its node at the end.
func (s *simulation) closeBooks(p *pod) {
	if c := p.job.crew; p.terminating || c != nil && c.began.IsZero() {
		p.job.of.idles(p, s.now.Sub(p.since))
	} else {
		p.job.of.works(p, s.now.Sub(p.since))
	}
	p.since = s.now
}

// count adds a submission and its pods to the counts.
func count(work, pods *Counts, w *submission) {
	members := len(w.work.Requests)
	work.Submitted++
	pods.Submitted += members
	switch {
	case w.over:
		work.Done++
		pods.Done += members
	case w.since.IsZero():
		work.Running++
		pods.Running += members
	default:
		work.Waiting++
		pods.Waiting += members
	}
}

// tally collects the results of a set of submissions.
type tally struct {
	g     Group
	waits []time.Duration
}

func (t *tally) add(w *submission, now time.Time) {
	t.g.Work++
	t.g.Evictions += w.evictions
	t.g.EvictedPods += w.evictedPods
	t.g.GPUHours.Used += w.used
	t.g.GPUHours.Lost += w.lost
	t.g.GPUHours.Idle += w.idle
	waited := w.waited
	if !w.since.IsZero() {
		waited += now.Sub(w.since)
	}
	if !w.started {
		t.g.Wait.Never++
	}
	// For work that runs at the start, the wait before that is unknown, so only waits after
	// evictions count.
	if w.work.On == nil || waited > 0 {
		t.waits = append(t.waits, waited)
	}
}

// group returns the results of the collected submissions.
func (t *tally) group() Group {
	slices.Sort(t.waits)
	t.g.Wait.P50, t.g.Wait.P99 = percentile(t.waits, 50), percentile(t.waits, 99)
	for p := range 101 {
		t.g.Wait.Percentiles = append(t.g.Wait.Percentiles, percentile(t.waits, p))
	}
	hours := &t.g.GPUHours
	hours.Used, hours.Lost, hours.Idle = rounded(hours.Used), rounded(hours.Lost), rounded(hours.Idle)
	return t.g
}

// percentile returns the p-th percentile of sorted waiting times, in seconds. It returns 0 if there
// are none.
func percentile(sorted []time.Duration, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := (len(sorted)*p + 99) / 100
	return sorted[max(at-1, 0)].Round(time.Millisecond).Seconds()
}

// rounded rounds to three digits, because further digits depend on the order of additions.
func rounded(v float64) float64 { return math.Round(v*1000) / 1000 }
