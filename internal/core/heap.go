package core

// heap is a binary heap: the item that comes before all others is on top.
type heap[T any] struct {
	items  []T
	before func(a, b *T) bool
}

// init orders items that have been put in without regard to order.
func (h *heap[T]) init() {
	for i := len(h.items)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *heap[T]) push(item T) {
	h.items = append(h.items, item)
	for i := len(h.items) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h.before(&h.items[i], &h.items[parent]) {
			return
		}
		h.items[i], h.items[parent] = h.items[parent], h.items[i]
		i = parent
	}
}

// pop drops the item on top.
func (h *heap[T]) pop() {
	last := len(h.items) - 1
	h.items[0] = h.items[last]
	h.items = h.items[:last]
	h.down(0)
}

// replace puts another item in the place of the one on top.
func (h *heap[T]) replace(item T) {
	h.items[0] = item
	h.down(0)
}

func (h *heap[T]) down(i int) {
	for {
		first := 2*i + 1
		if first >= len(h.items) {
			return
		}
		if second := first + 1; second < len(h.items) && h.before(&h.items[second], &h.items[first]) {
			first = second
		}
		if !h.before(&h.items[first], &h.items[i]) {
			return
		}
		h.items[i], h.items[first] = h.items[first], h.items[i]
		i = first
	}
}
