package simulation

import (
	"cmp"
	"time"

	"github.com/reprieve-dev/reprieve/internal/heap"
)

// event is something that happens at a moment; those of one moment happen in the order in which they were put down.
type event struct {
	at    time.Time
	order int
	do    func()
}

// agenda has the events to come, the next one on top.
type agenda struct {
	heap.Heap[event]
	count int
}

func newAgenda() agenda {
	return agenda{Heap: heap.Heap[event]{Before: func(a, b *event) bool {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.order, b.order)) < 0
	}}}
}

// at puts something on the agenda.
func (s *simulation) at(when time.Time, do func()) {
	s.agenda.count++
	s.agenda.Push(event{at: when, order: s.agenda.count, do: do})
}

func (s *simulation) after(d time.Duration, do func()) { s.at(s.now.Add(d), do) }
