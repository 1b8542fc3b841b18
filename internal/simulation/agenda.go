package simulation

import (
	"cmp"
	"time"

	"github.com/reprieve-dev/reprieve/internal/heap"
)

// event is a function to call at a simulated time. Events of one time are called in the order of
// their creation.
type event struct {
	at    time.Time
	order int
	do    func()
}

// agenda is a heap of future events. The next event is on top.
type agenda struct {
	heap.Heap[event]
	count int
}

func newAgenda() agenda {
	return agenda{Heap: heap.Heap[event]{Before: func(a, b *event) bool {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.order, b.order)) < 0
	}}}
}

func (s *simulation) at(when time.Time, do func()) {
	s.agenda.count++
	s.agenda.Push(event{at: when, order: s.agenda.count, do: do})
}

func (s *simulation) after(d time.Duration, do func()) { s.at(s.now.Add(d), do) }
