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

// These are the sides of a comparison, as in the names of the test cases. In a row about queues,
// the other side is unqueued instead of upstream.
const (
	upstream = "upstream"
	reprieve = "reprieve"
	unqueued = "unqueued"
	// callsAlone is a side without a scheduler. It makes the API calls that the workload needs, and
	// decides nothing.
	callsAlone = "calls"
)

// figures are the results of one side of a row.
type figures struct {
	// Wanted is the number of measured pods. Bound is the number of measured pods that got a node.
	Wanted, Bound int
	// Total is the time from the creation of the first measured pod until the last measured pod has
	// a node, in seconds.
	Total float64
	// PerSecond has quantiles of the number of pods that were placed within a second. It is empty
	// if the run took less than two seconds.
	PerSecond quantiles
	// Waits has quantiles of the time from the creation of a pod until it has a node, in seconds.
	Waits quantiles
}

type quantiles struct{ Average, P50, P90, P99 float64 }

// finished reports whether all measured pods got a node.
func (f *figures) finished() bool { return f.Wanted > 0 && f.Bound == f.Wanted }

// waits returns Waits if all measured pods got a node. Otherwise it returns no quantiles, because
// they would not include the pods without a node.
func (f *figures) waits() quantiles {
	if !f.finished() {
		return quantiles{}
	}
	return f.Waits
}

// dataItem is a result in the JSON format of scheduler_perf.
type dataItem struct {
	Data   map[string]float64 `json:"data"`
	Labels map[string]string  `json:"labels"`
}

func (d *dataItem) quantiles() quantiles {
	return quantiles{d.Data["Average"], d.Data["Perc50"], d.Data["Perc90"], d.Data["Perc99"]}
}

// readFigures reads the results that the runs of a workload have written to a directory. It returns
// the figures by side. They are empty for sides without results.
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

// median returns the finished run with the median of the total times. If no run finished, it
// returns the run that placed the most pods.
func median(runs []*figures) *figures {
	finished := slices.DeleteFunc(slices.Clone(runs), func(f *figures) bool { return !f.finished() })
	if len(finished) == 0 {
		return slices.MaxFunc(runs, func(a, b *figures) int { return cmp.Compare(a.Bound, b.Bound) })
	}
	slices.SortFunc(finished, func(a, b *figures) int { return cmp.Compare(a.Total, b.Total) })
	return finished[(len(finished)-1)/2]
}

// errNoFigures is the error for a side without results.
var errNoFigures = errors.New("no figures")

// check returns an error unless all measured pods got a node.
func (f *figures) check() error {
	switch {
	case f.Wanted == 0:
		return errNoFigures
	case !f.finished():
		return fmt.Errorf("%d of %d pods got a node", f.Bound, f.Wanted)
	}
	return nil
}
