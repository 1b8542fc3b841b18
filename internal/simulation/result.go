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
	// Work counts the submitted pods and gangs. Pods counts their pods.
	Work Counts `json:"work"`
	Pods Counts `json:"pods"`
	// Evictions counts how often work was stopped. EvictedPods counts the pods that were evicted.
	// EvictedByReplacements counts the pods among them that were evicted for work that had been
	// evicted itself before.
	Evictions             int `json:"evictions"`
	EvictedPods           int `json:"evictedPods"`
	EvictedByReplacements int `json:"evictedByReplacements"`
	// GPUHours is the use of the nodes' GPU time.
	GPUHours Hours `json:"gpuHours"`
	// Wait is the time that all work waited. Priorities has the waiting times of each priority, and
	// Groups of each queue and priority.
	Wait       Waits   `json:"wait"`
	Priorities []Group `json:"priorities"`
	Groups     []Group `json:"groups"`
	// PreemptorWait has the waits of work that preempted, each from the arrival of the work to its
	// start. Never counts the waits that have not ended.
	PreemptorWait Waits `json:"preemptorWait"`
	// Decisions counts the decisions of Reprieve's core, and Steps the steps that their searches
	// took. Both measure work independently of the machine.
	Decisions int `json:"decisions"`
	Steps     int `json:"searchSteps"`
}

// Counts is the number of items in each state. Everything submitted is done, running or waiting.
type Counts struct {
	Submitted int `json:"submitted"`
	Done      int `json:"done"`
	Running   int `json:"running"`
	Waiting   int `json:"waiting"`
}

// Hours are GPU-hours.
type Hours struct {
	// Capacity is the GPU time of the nodes.
	Capacity float64 `json:"capacity"`
	// Used is the time of work that is finished, saved or still running.
	Used float64 `json:"used"`
	// Lost is the time of work that evictions discarded.
	Lost float64 `json:"lost"`
	// Idle is the time that pods held and could not use. They waited for the rest of their gang, or
	// terminated.
	Idle float64 `json:"idle"`
}

// Waits are the total waits of work, in seconds, including waits after evictions. A wait that has
// not ended counts with its length so far.
type Waits struct {
	P50 float64 `json:"p50Seconds"`
	P99 float64 `json:"p99Seconds"`
	// Never counts work that did not start before the end.
	Never int `json:"neverStarted"`
	// Percentiles are the percentiles 0 to 100.
	Percentiles []float64 `json:"percentiles,omitempty"`
}

// Group is the work of one priority, and in Result.Groups of one queue. Queue is "" for work
// without a queue, and in Result.Priorities.
type Group struct {
	Queue       string `json:"queue,omitempty"`
	Priority    int32  `json:"priority"`
	Work        int    `json:"work"`
	Evictions   int    `json:"evictions"`
	EvictedPods int    `json:"evictedPods"`
	GPUHours    Hours  `json:"gpuHours"`
	Wait        Waits  `json:"wait"`
}

// result returns the outcome of the simulation so far.
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

// preemptorWait returns the waits of work that preempted.
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

// closeBooks adds up the GPU time of a pod that is still on its node at the end.
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

// tally adds up submissions.
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
	// Work that runs at the start did not wait before that.
	if w.work.On == nil || waited > 0 {
		t.waits = append(t.waits, waited)
	}
}

// group returns the sums.
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

// percentile returns the p-th percentile of sorted waits, in seconds; 0 without waits.
func percentile(sorted []time.Duration, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := (len(sorted)*p + 99) / 100
	return sorted[max(at-1, 0)].Round(time.Millisecond).Seconds()
}

// rounded removes the digits that depend on the order of additions.
func rounded(v float64) float64 { return math.Round(v*1000) / 1000 }
