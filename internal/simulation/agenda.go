package simulation

import (
	"cmp"
	"container/heap"
	"time"
)

// event is something that happens at a moment; those of one moment happen in the order in which they were put down.
type event struct {
	at    time.Time
	order int
	do    func()
}

// agenda is a heap of events.
type agenda struct {
	events []event
	count  int
}

// Len is part of heap.Interface.
func (a *agenda) Len() int { return len(a.events) }

// Less is part of heap.Interface.
func (a *agenda) Less(i, k int) bool {
	x, y := &a.events[i], &a.events[k]
	return cmp.Or(x.at.Compare(y.at), cmp.Compare(x.order, y.order)) < 0
}

// Swap is part of heap.Interface.
func (a *agenda) Swap(i, k int) { a.events[i], a.events[k] = a.events[k], a.events[i] }

// Push is part of heap.Interface.
func (a *agenda) Push(x any) {
	if e, ok := x.(event); ok {
		a.events = append(a.events, e)
	}
}

// Pop is part of heap.Interface.
func (a *agenda) Pop() any {
	last := a.events[len(a.events)-1]
	a.events[len(a.events)-1] = event{}
	a.events = a.events[:len(a.events)-1]
	return last
}

// next takes the first event.
func (a *agenda) next() event {
	e, _ := heap.Pop(a).(event)
	return e
}

// at puts something on the agenda.
func (s *simulation) at(when time.Time, do func()) {
	s.agenda.count++
	heap.Push(&s.agenda, event{at: when, order: s.agenda.count, do: do})
}

func (s *simulation) after(d time.Duration, do func()) { s.at(s.now.Add(d), do) }
