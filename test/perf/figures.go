package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// These are the sides of a comparison, as in the names of the test cases. Rows of queues have
// unqueued in place of upstream.
const (
	upstream = "upstream"
	reprieve = "reprieve"
	unqueued = "unqueued"
	// callsAlone is the side without a scheduler. It makes the API calls of a row without
	// decisions.
	callsAlone = "calls"
)

// figures are the results of one side on one workload.
type figures struct {
	// Wanted is the number of measured pods. Bound is how many of them got a node.
	Wanted, Bound int
	// Total is the time from the creation of the first measured pod until the last one had its
	// node, in seconds.
	Total float64
	// PerSecond has the quantiles of the number of pods placed in each second. It is empty for runs
	// shorter than two seconds.
	PerSecond quantiles
	// Waits has the quantiles of the time from a pod's creation until it had its node, in seconds.
	Waits quantiles
}

type quantiles struct{ Average, P50, P90, P99 float64 }

// finished reports whether every pod got its node.
func (f *figures) finished() bool { return f.Wanted > 0 && f.Bound == f.Wanted }

// waits returns Waits if all pods got a node. Otherwise the quantiles would lack the pods that
// still wait.
func (f *figures) waits() quantiles {
	if !f.finished() {
		return quantiles{}
	}
	return f.Waits
}

// dataItem is scheduler_perf's format of a figure.
type dataItem struct {
	Data   map[string]float64 `json:"data"`
	Labels map[string]string  `json:"labels"`
}

func (d *dataItem) quantiles() quantiles {
	return quantiles{d.Data["Average"], d.Data["Perc50"], d.Data["Perc90"], d.Data["Perc99"]}
}

// readFigures reads the data items that a run of a workload has written to a directory. Sides
// without data items have empty figures.
func readFigures(dir, workload string) (map[string]*figures, error) {
	out := map[string]*figures{upstream: {}, reprieve: {}, unqueued: {}, callsAlone: {}}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var items struct{ DataItems []dataItem }
		if err := json.Unmarshal(raw, &items); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for i := range items.DataItems {
			item := &items.DataItems[i]
			for side, f := range out {
				if strings.Contains("/"+item.Labels["Name"], "/"+workload+"/"+side+"/") {
					f.take(item)
				}
			}
		}
	}
	return out, nil
}

func (f *figures) take(item *dataItem) {
	switch item.Labels["Metric"] {
	case "SchedulingThroughput":
		f.PerSecond = item.quantiles()
	case "Stopwatch":
		f.Wanted, f.Bound = int(item.Data["Wanted"]), int(item.Data["Bound"])
		f.Total = item.Data["Total"]
		f.Waits = item.quantiles()
	}
}

// median returns the median of the finished runs by their total time. If no run finished, it
// returns the run that placed the most pods.
func median(runs []*figures) *figures {
	finished := slices.DeleteFunc(slices.Clone(runs), func(f *figures) bool { return !f.finished() })
	if len(finished) == 0 {
		return slices.MaxFunc(runs, func(a, b *figures) int { return cmp.Compare(a.Bound, b.Bound) })
	}
	slices.SortFunc(finished, func(a, b *figures) int { return cmp.Compare(a.Total, b.Total) })
	return finished[(len(finished)-1)/2]
}

// errNoFigures is the error of a side without figures.
var errNoFigures = errors.New("no figures")

// check returns an error if the run did not finish.
func (f *figures) check() error {
	switch {
	case f.Wanted == 0:
		return errNoFigures
	case !f.finished():
		return fmt.Errorf("%d of %d pods got a node", f.Bound, f.Wanted)
	}
	return nil
}
