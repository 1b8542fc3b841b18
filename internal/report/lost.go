package report

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
)

// Loss is work that was stopped.
type Loss struct {
	// Stops counts the workloads, each as often as it was stopped, and Pods their pods.
	Stops int `json:"stops"`
	Pods  int `json:"pods"`
	// GPUHours and CPUHours are what they had been given since they started.
	GPUHours float64 `json:"gpuHours"`
	CPUHours float64 `json:"cpuHours"`
	// Unmeasured counts the stops of which that is not known.
	Unmeasured int `json:"unmeasured,omitempty"`
}

// add adds one stop.
func (l *Loss) add(s *Stop) {
	l.Stops++
	l.Pods += len(s.Pods)
	l.GPUHours += s.GPUHours
	l.CPUHours += s.CPUHours
	if !s.Measured {
		l.Unmeasured++
	}
}

// Lost is the lost work by who lost it, and by who took it.
type Lost struct {
	ByQueue     []LossRow `json:"byQueue"`
	ByPriority  []LossRow `json:"byPriority"`
	ByPreemptor []LossRow `json:"byPreemptor"`
}

// LossRow is the lost work of one queue, one priority, or one preemptor.
type LossRow struct {
	Name string `json:"name"`
	// Workload is the preemptor; -1 in the other lists.
	Workload int `json:"w"`
	Loss
}

// lost sums what was lost, the most first.
func (b *builder) lost() Lost {
	queues, priorities, preemptors := make(map[string]*LossRow), make(map[string]*LossRow), make(map[string]*LossRow)
	count := func(rows map[string]*LossRow, key string, workload int, s *Stop) {
		if rows[key] == nil {
			rows[key] = &LossRow{Name: key, Workload: workload}
		}
		rows[key].add(s)
	}
	for _, s := range b.stops {
		// A queue that is not told is the empty name, and so is a priority.
		priority := ""
		if s.stop.Priority != nil {
			priority = strconv.Itoa(int(*s.stop.Priority))
		}
		count(queues, s.stop.Queue, -1, s.stop)
		count(priorities, priority, -1, s.stop)
		w := &b.report.Workloads[s.preemptor]
		kind := "pod "
		if w.Group {
			kind = "podgroup "
		}
		count(preemptors, kind+w.Namespace+"/"+w.Name, s.preemptor, s.stop)
	}
	return Lost{ByQueue: byLoss(queues), ByPriority: byLoss(priorities), ByPreemptor: byLoss(preemptors)}
}

func byLoss(rows map[string]*LossRow) []LossRow {
	out := make([]LossRow, 0, len(rows))
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		out = append(out, *rows[key])
	}
	slices.SortStableFunc(out, func(x, y LossRow) int {
		return cmp.Or(cmp.Compare(y.GPUHours, x.GPUHours), cmp.Compare(y.Pods, x.Pods), cmp.Compare(y.Stops, x.Stops))
	})
	return out
}

// sumQueues tells each queue what it took and lost, with all below it.
func (b *builder) sumQueues() {
	rows := b.report.Queues
	for _, s := range b.stops {
		for at := b.queueOf(s.preemptor); at >= 0; at = rows[at].Parent {
			rows[at].Took.add(s.stop)
		}
		at, ok := b.queues[s.stop.Queue]
		for ; ok && at >= 0; at = rows[at].Parent {
			rows[at].Lost.add(s.stop)
		}
	}
}

// queueOf is the queue of a workload, or -1.
func (b *builder) queueOf(w int) int { return b.report.Workloads[w].Queue }
