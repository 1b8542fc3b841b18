package heap

// Heap is a binary heap. The top item is the first in the order of Before. A Heap is not safe for
// concurrent use.
type Heap[T any] struct {
	// Items holds the items; the top item has index 0. Call Init after changing Items directly.
	Items  []T
	Before func(a, b *T) bool
	// Moved is called with the index of each item that is added or moved; it may be nil. Callers
	// can keep the index to pass it to Remove.
	Moved func(item *T, at int)
}

// Init establishes the heap order after a direct change of Items.
func (h *Heap[T]) Init() {
	for i := len(h.Items)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
	if h.Moved != nil {
		for i := range h.Items {
			h.Moved(&h.Items[i], i)
		}
	}
}

// Push adds an item.
func (h *Heap[T]) Push(item T) {
	h.Items = append(h.Items, item)
	h.moved(len(h.Items) - 1)
	h.up(len(h.Items) - 1)
}

// Pop removes and returns the top item. The heap must not be empty.
func (h *Heap[T]) Pop() T { return h.Remove(0) }

// Replace replaces the top item by another. The heap must not be empty.
func (h *Heap[T]) Replace(item T) {
	h.Items[0] = item
	h.moved(0)
	h.down(0)
}

// Remove removes and returns the item at an index.
func (h *Heap[T]) Remove(at int) T {
	var none T
	item, last := h.Items[at], len(h.Items)-1
	h.Items[at], h.Items[last] = h.Items[last], none
	h.Items = h.Items[:last]
	if at < last {
		h.moved(at)
		h.down(at)
		h.up(at)
	}
	return item
}

func (h *Heap[T]) moved(at int) {
	if h.Moved != nil {
		h.Moved(&h.Items[at], at)
	}
}

func (h *Heap[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.Before(&h.Items[i], &h.Items[parent]) {
			return
		}
		h.Items[i], h.Items[parent] = h.Items[parent], h.Items[i]
		h.moved(i)
		h.moved(parent)
		i = parent
	}
}

func (h *Heap[T]) down(i int) {
	for {
		first := 2*i + 1
		if first >= len(h.Items) {
			return
		}
		if second := first + 1; second < len(h.Items) && h.Before(&h.Items[second], &h.Items[first]) {
			first = second
		}
		if !h.Before(&h.Items[first], &h.Items[i]) {
			return
		}
		h.Items[i], h.Items[first] = h.Items[first], h.Items[i]
		h.moved(i)
		h.moved(first)
		i = first
	}
}
