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

// The sides of a comparison, as in the names of the test cases. Rows of queues have unqueued in upstream's place.
const (
	upstream = "upstream"
	reprieve = "reprieve"
	unqueued = "unqueued"
	// callsAlone is no scheduler's: the API calls of a row are made, and nothing decides.
	callsAlone = "calls"
)

// figures are what one side reached on one workload.
type figures struct {
	// Wanted and Bound are how many measured pods there should be, and how many have got a node.
	Wanted, Bound int
	// Total is the time from the creation of the first measured pod until the last one had its node, in seconds.
	Total float64
	// PerSecond is over the number of pods placed in each second. It is empty for runs that take less than two.
	PerSecond quantiles
	// Waits is over the times, in seconds, from a pod's creation until it had its node.
	Waits quantiles
}

type quantiles struct{ Average, P50, P90, P99 float64 }

// finished reports whether every pod got its node.
func (f *figures) finished() bool { return f.Wanted > 0 && f.Bound == f.Wanted }

// waits are how long pods waited, where all of them have got a node: those that have not would have to count.
func (f *figures) waits() quantiles {
	if !f.finished() {
		return quantiles{}
	}
	return f.Waits
}

// dataItem is scheduler_perf's form of a figure.
type dataItem struct {
	Data   map[string]float64 `json:"data"`
	Labels map[string]string  `json:"labels"`
}

func (d *dataItem) quantiles() quantiles {
	return quantiles{d.Data["Average"], d.Data["Perc50"], d.Data["Perc90"], d.Data["Perc99"]}
}

// readFigures reads the data items that a run of a workload has left in a directory. Sides that left none have
// empty figures.
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

// median is the run in the middle, of those that finished if any did.
func median(runs []*figures) *figures {
	finished := slices.DeleteFunc(slices.Clone(runs), func(f *figures) bool { return !f.finished() })
	if len(finished) == 0 {
		// The one that came furthest.
		return slices.MaxFunc(runs, func(a, b *figures) int { return cmp.Compare(a.Bound, b.Bound) })
	}
	slices.SortFunc(finished, func(a, b *figures) int { return cmp.Compare(a.Total, b.Total) })
	return finished[(len(finished)-1)/2]
}

// errNoFigures tells that a side of a run left nothing behind.
var errNoFigures = errors.New("no figures")

// check says what is wrong with a side's run, if anything.
func (f *figures) check() error {
	switch {
	case f.Wanted == 0:
		return errNoFigures
	case !f.finished():
		return fmt.Errorf("%d of %d pods got a node", f.Bound, f.Wanted)
	}
	return nil
}
