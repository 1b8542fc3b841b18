package main

import (
	"fmt"
	"slices"
	"strings"
)

// These are the sizes of a workload.
const (
	sizeSmall  = "small"
	sizeMedium = "medium"
	sizeFull   = "full"
)

// row is a workload of throughput/performance-config.yaml. Each scheduler runs it.
type row struct {
	// name is the label of the workload in performance-config.yaml.
	name string
	// title describes the workload at the size "full".
	title string
	sizes []string
	// gang is true if the result is the time until one gang is placed. Otherwise the result is the
	// number of pods per second.
	gang bool
	// overall is true if the sides are compared by their total time. It is for workloads that place
	// most pods in a burst at the end, because their average number of pods per second is not
	// useful.
	overall bool
	// unqueued is true if the other side is Reprieve without Queues, instead of kube-scheduler.
	unqueued bool
	aim      aim
}

// rows returns all workloads in the order of the table.
func rows() []row {
	all := []string{sizeSmall, sizeMedium, sizeFull}
	return []row{
		{
			name: "scheduling", title: "5,000 nodes, 5,000 pods, no preemption",
			sizes: all, aim: aim{ratio: 0.98},
		},
		{
			name: "scheduling-occupied", title: "5,000 nodes, 20,000 low pods, 5,000 pods that fit, no preemption",
			sizes: all, aim: aim{ratio: 0.98},
		},
		{
			name: "preemption-async", title: "5,000 nodes, 20,000 low pods, a preemptor every 200 ms, 5,000 pods that fit",
			sizes: all, aim: aim{ratio: 0.9, of: "scheduling-occupied"},
		},
		{
			name: "preemption", title: "5,000 nodes, 20,000 low pods, 5,000 preemptors",
			sizes: all, overall: true, aim: aim{calls: 1.5},
		},
		{
			name: "gangs", title: "5,000 nodes, 1,000 gangs of 3, no preemption",
			sizes: all, aim: aim{ratio: 2},
		},
		queued("queues-6", "5,000 nodes, 5,000 pods in 6 queues, no preemption", all),
		queued("queues-100", "5,000 nodes, 5,000 pods in 100 queues, no preemption", all[2:]),
		queued("queues-1000", "5,000 nodes, 5,000 pods in 1,000 queues, no preemption", all[2:]),
		queued("gangs-queues-6", "5,000 nodes, 1,000 gangs of 3 in 6 queues, no preemption", all),
		queued("gangs-queues-100", "5,000 nodes, 1,000 gangs of 3 in 100 queues, no preemption", all[2:]),
		queued("gangs-queues-1000", "5,000 nodes, 1,000 gangs of 3 in 1,000 queues, no preemption", all[2:]),
		{
			name: "gang-10", title: "gang of 10 preempts 40 pods on 10 nodes",
			sizes: []string{sizeSmall}, gang: true,
		},
		{
			name: "gang-100", title: "gang of 100 preempts 400 pods on 100 nodes",
			sizes: []string{sizeMedium, sizeFull}, gang: true, aim: aim{calls: 1.2},
		},
		{
			name: "gang-200", title: "gang of 200 preempts 800 pods on 200 nodes",
			sizes: []string{sizeFull}, gang: true, aim: aim{calls: 1.2},
		},
		{
			name: "gang-500", title: "gang of 500 preempts 2,000 pods on 500 nodes",
			sizes: []string{sizeFull}, gang: true, aim: aim{calls: 1.2},
		},
	}
}

// queued returns a row for a workload with Queues. The other side runs the same workload without
// Queues.
func queued(name, title string, sizes []string) row {
	return row{name: name, title: title, sizes: sizes, unqueued: true, aim: aim{ratio: 0.95}}
}

// rival returns the name of the side that Reprieve is compared with.
func (r *row) rival() string {
	if r.unqueued {
		return unqueued
	}
	return upstream
}

func (r *row) rivalTitle() string {
	if r.unqueued {
		return "Reprieve, no queues"
	}
	return "kube-scheduler"
}

// titleAt returns the title of the row for a size. The numbers in the field title are valid only
// for the size "full". For another size, titleAt returns the name of the row and the size.
func (r *row) titleAt(size string) string {
	if size == sizeFull || len(r.sizes) < 3 {
		return r.title
	}
	return fmt.Sprintf("%s (%s)", r.name, size)
}

// selectRows returns the rows with the given names that have the given size. An empty list of names
// selects all rows of the size.
func selectRows(all []row, size string, names []string) ([]row, error) {
	var out []row
	var have []string
	for _, r := range all {
		if !slices.Contains(r.sizes, size) {
			continue
		}
		have = append(have, r.name)
		if len(names) == 0 || slices.Contains(names, r.name) {
			out = append(out, r)
		}
	}
	for _, name := range names {
		if !slices.Contains(have, name) {
			return nil, fmt.Errorf("no workload %q of size %q; there are: %s", name, size, strings.Join(have, ", "))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no workloads of size %q", size)
	}
	return out, nil
}

// aim is the goal of Reprieve on a row. The zero value means that Reprieve must place all pods.
type aim struct {
	// ratio is the least ratio of Reprieve's pods per second to the pods per second of the other
	// side. If of is the name of a row, the ratio is to Reprieve's pods per second in that row.
	ratio float64
	of    string
	// calls is the greatest ratio of Reprieve's time to the time of the side callsAlone.
	calls float64
}

// judge returns a text with the aim of the row, and whether Reprieve met it. The argument all has
// the results of all rows in this run.
func (r *result) judge(all []result) string {
	text, value, met, ok := r.weigh(all)
	switch {
	case !r.ours.finished():
		return text + ": missed"
	case !ok:
		return text
	case met:
		return text + value + ": met"
	}
	return text + value + ": missed"
}

// weigh compares a result with the aim of its row. text describes the aim, and met is true if
// Reprieve met it. value is the compared number, unless the table has a column for it. ok is false
// if a number is missing.
func (r *result) weigh(all []result) (text, value string, met, ok bool) {
	a := r.row.aim
	switch {
	case a.calls > 0:
		if text = fmt.Sprintf("≤ %g× the calls", a.calls); !r.calls.finished() {
			return text, "", false, false
		}
		x := r.ours.Total / r.calls.Total
		return text, fmt.Sprintf(", %.2f×", x), x <= a.calls, true
	case a.of != "":
		text = fmt.Sprintf("≥ %g× %s", a.ratio, a.of)
		i := slices.IndexFunc(all, func(other result) bool { return other.row.name == a.of && other.ours.finished() })
		if i < 0 {
			return text, "", false, false
		}
		x := r.ours.PerSecond.Average / all[i].ours.PerSecond.Average
		return text, fmt.Sprintf(", %.2f×", x), x >= a.ratio, true
	case a.ratio > 0:
		x, ok := r.row.ratio(r.upstream, r.ours)
		return fmt.Sprintf("≥ %g×", a.ratio), "", x >= a.ratio, ok
	}
	return "finishes", "", true, true
}

// ratio returns the ratio of Reprieve's result to the other side's result. The result is a time for
// a gang, and pods per second for other rows. ratio returns false if a result is missing.
func (r *row) ratio(upstream, ours *figures) (float64, bool) {
	if !upstream.finished() || !ours.finished() {
		return 0, false
	}
	a, b := ours.PerSecond.Average, upstream.PerSecond.Average
	switch {
	case r.gang:
		a, b = ours.Total, upstream.Total
	case r.overall:
		// Both sides place the same number of pods. So the ratio of the rates is the inverse ratio
		// of the times.
		a, b = upstream.Total, ours.Total
	}
	if a == 0 || b == 0 {
		return 0, false
	}
	return a / b, true
}
