package report

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
)

// Loss sums up work that was evicted.
type Loss struct {
	// Stops counts evictions of workloads, and Pods the pods of these workloads.
	Stops int `json:"stops"`
	Pods  int `json:"pods"`
	// GPUHours and CPUHours are the hours that the pods had been given since they started.
	GPUHours float64 `json:"gpuHours"`
	CPUHours float64 `json:"cpuHours"`
	// Unmeasured counts the stops with unknown hours.
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

// Lost is the lost work by the victim's queue and priority, and by preemptor.
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

// lost sums up the lost work, the largest loss first.
func (b *builder) lost() Lost {
	queues, priorities, preemptors := make(map[string]*LossRow), make(map[string]*LossRow), make(map[string]*LossRow)
	count := func(rows map[string]*LossRow, key string, workload int, s *Stop) {
		if rows[key] == nil {
			rows[key] = &LossRow{Name: key, Workload: workload}
		}
		rows[key].add(s)
	}
	for _, s := range b.stops {
		// An unknown queue or priority has the empty name.
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

// sumQueues adds each stop to the queue of its preemptor, to the queue of its victim, and to all
// ancestors of these queues.
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

// queueOf returns the queue of a workload, or -1.
func (b *builder) queueOf(w int) int { return b.report.Workloads[w].Queue }
