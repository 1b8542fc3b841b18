package admission

import "container/heap"

// placed is an item of a line that knows where it stands in it.
type placed interface{ setPlace(at int) }

// line is a heap: the item that comes before all others is on top, and any can be taken out.
type line[T placed] struct {
	items  []T
	before func(a, b T) bool
}

func (l *line[T]) push(item T)   { heap.Push((*ordered[T])(l), item) }
func (l *line[T]) remove(at int) { heap.Remove((*ordered[T])(l), at) }
func (l *line[T]) len() int      { return len(l.items) }
func (l *line[T]) first() T      { return l.items[0] }

// ordered is a line as container/heap works on it.
type ordered[T placed] line[T]

var _ heap.Interface = (*ordered[*waiter])(nil)

// Len is part of heap.Interface.
func (o *ordered[T]) Len() int { return len(o.items) }

// Less is part of heap.Interface.
func (o *ordered[T]) Less(i, j int) bool { return o.before(o.items[i], o.items[j]) }

// Swap is part of heap.Interface.
func (o *ordered[T]) Swap(i, j int) {
	o.items[i], o.items[j] = o.items[j], o.items[i]
	o.items[i].setPlace(i)
	o.items[j].setPlace(j)
}

// Push is part of heap.Interface.
func (o *ordered[T]) Push(x any) {
	if item, ok := x.(T); ok {
		item.setPlace(len(o.items))
		o.items = append(o.items, item)
	}
}

// Pop is part of heap.Interface.
func (o *ordered[T]) Pop() any {
	last := len(o.items) - 1
	item := o.items[last]
	var none T
	o.items[last] = none
	o.items = o.items[:last]
	return item
}
