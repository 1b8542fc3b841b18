package report

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
)

// Loss is a sum over evictions.
type Loss struct {
	// Stops is the number of evictions of workloads. Pods is the number of evicted pods.
	Stops int `json:"stops"`
	Pods  int `json:"pods"`
	// GPUHours and CPUHours are the resources that the evicted pods had used since their start, in
	// hours of one GPU or CPU.
	GPUHours float64 `json:"gpuHours"`
	CPUHours float64 `json:"cpuHours"`
	// Unmeasured is the number of evictions whose hours are unknown. They are not in the sums of
	// hours.
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

// Lost has the lost work by queue and priority of the victim, and by preemptor.
type Lost struct {
	ByQueue     []LossRow `json:"byQueue"`
	ByPriority  []LossRow `json:"byPriority"`
	ByPreemptor []LossRow `json:"byPreemptor"`
}

// LossRow is the lost work of one queue, one priority, or one preemptor.
type LossRow struct {
	Name string `json:"name"`
	// Workload is the index of the preemptor. It is -1 in lists by queue or priority.
	Workload int `json:"w"`
	Loss
}

// lost sums up the lost work. The largest loss is first in each list.
func (b *builder) lost() Lost {
	queues, priorities, preemptors := make(map[string]*LossRow), make(map[string]*LossRow), make(map[string]*LossRow)
	count := func(rows map[string]*LossRow, key string, workload int, s *Stop) {
		if rows[key] == nil {
			rows[key] = &LossRow{Name: key, Workload: workload}
		}
		rows[key].add(s)
	}
	for _, s := range b.stops {
		// The name is empty if the queue or priority is unknown.
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

// sumQueues adds each eviction to the queue of the preemptor, the queue of the victim, and all
// ancestors of the two queues.
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

// queueOf returns the index of a workload's queue, or -1.
func (b *builder) queueOf(w int) int { return b.report.Workloads[w].Queue }
