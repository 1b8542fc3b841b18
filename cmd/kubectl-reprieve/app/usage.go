package app

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/report"
)

const (
	// noUsageInLog and noUsageOfScheduler explain why a page lacks the usage of queues over time.
	noUsageInLog       = "The log does not have the usage of queues over time: run the scheduler with --decision-log-inputs=redacted."
	noUsageOfScheduler = "The scheduler's latest decisions do not have the usage of queues. Give kubectl reprieve ui a decision log with --decision-log-inputs, or no file, to see the queues of the cluster."
)

// queueHistory collects the states of Queues from the lines of decision logs.
type queueHistory struct {
	lines []queueLine
	// told is true if some line has the inputs of decisions, which contain the Queues.
	told bool
}

// queueLine is the information about Queues in one line of a decision log.
type queueLine struct {
	process string
	number  uint64
	whole   bool
	at      time.Time
	set     []*v1alpha1.Queue
	gone    []string
}

// add records the Queues in a line of a log.
func (h *queueHistory) add(in *decisionlog.Inputs) {
	h.told = true
	line := queueLine{process: in.Process, number: in.Number, whole: in.Whole != nil, at: in.Time}
	for _, raw := range in.Objects[inventory.Queues] {
		object, err := inventory.Parse(raw)
		if err != nil {
			continue
		}
		q := &v1alpha1.Queue{}
		if object.Into(q) == nil {
			line.set = append(line.set, q)
		}
	}
	for _, name := range in.Gone[inventory.Queues] {
		line.gone = append(line.gone, strings.TrimPrefix(name, "/"))
	}
	if len(line.set)+len(line.gone) > 0 || line.whole {
		h.lines = append(h.lines, line)
	}
}

// mostSamples is the approximate maximum number of samples, because a page cannot show more.
const mostSamples = 400

// samples returns the states of all queues at points in time. It divides the time of the logs into
// mostSamples intervals. For each interval and each process, it returns the last state.
func (h *queueHistory) samples() []report.Sample {
	if len(h.lines) == 0 {
		return nil
	}
	slices.SortStableFunc(h.lines, func(a, b queueLine) int {
		return cmp.Or(cmp.Compare(a.process, b.process), cmp.Compare(a.number, b.number))
	})
	byTime := func(a, b queueLine) int { return a.at.Compare(b.at) }
	first, last := slices.MinFunc(h.lines, byTime).at, slices.MaxFunc(h.lines, byTime).at
	stretch := max(last.Sub(first)/mostSamples, time.Millisecond)
	stretchOf := func(line *queueLine) time.Duration { return line.at.Sub(first) / stretch }
	var out []report.Sample
	known, process := make(map[string]report.QueueState), ""
	for i := range h.lines {
		line := &h.lines[i]
		if line.whole || line.process != process {
			known, process = make(map[string]report.QueueState), line.process
		}
		for _, q := range line.set {
			known[q.Name] = standingOf(q)
		}
		for _, name := range line.gone {
			delete(known, name)
		}
		if i+1 < len(h.lines) && h.lines[i+1].process == process && stretchOf(&h.lines[i+1]) == stretchOf(line) {
			continue
		}
		if len(known) > 0 {
			out = append(out, sampleOf(line.at, known))
		}
	}
	return out
}

func sampleOf(at time.Time, known map[string]report.QueueState) report.Sample {
	s := report.Sample{At: at, Queues: make(map[string]report.QueueState, len(known))}
	for name, standing := range known {
		s.Queues[name] = standing
	}
	return s
}

func standingOf(q *v1alpha1.Queue) report.QueueState {
	amounts := func(list corev1.ResourceList) map[string]float64 {
		out := make(map[string]float64, len(list))
		for name, quantity := range list {
			out[string(name)] = quantity.AsApproximateFloat64()
		}
		return out
	}
	return report.QueueState{Used: amounts(q.Status.Allocated), Quota: amounts(q.Spec.Quota), FairShare: amounts(q.Status.FairShare)}
}

// standingNow returns the states of the queues in an inventory.
func standingNow(objects *inventory.Inventory) (report.Sample, error) {
	queues, err := inventory.Decode[*v1alpha1.Queue](objects, inventory.Queues)
	if err != nil {
		return report.Sample{}, err
	}
	known := make(map[string]report.QueueState, len(queues))
	for _, q := range queues {
		known[q.Name] = standingOf(q)
	}
	return sampleOf(objects.Taken, known), nil
}
