package heap

// Heap has the item on top that comes before all others.
type Heap[T any] struct {
	// Items are those in the heap, the one on top first. Call Init after changing them.
	Items  []T
	Before func(a, b *T) bool
	// Moved is told where an item stands, each time that it comes or moves; nil where nothing has to know. With it, any item can be
	// taken out by Remove.
	Moved func(item *T, at int)
}

// Init orders items that have been put in without regard to order.
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

// Push puts an item in.
func (h *Heap[T]) Push(item T) {
	h.Items = append(h.Items, item)
	h.moved(len(h.Items) - 1)
	h.up(len(h.Items) - 1)
}

// Pop takes the item on top out.
func (h *Heap[T]) Pop() T { return h.Remove(0) }

// Replace puts another item in the place of the one on top.
func (h *Heap[T]) Replace(item T) {
	h.Items[0] = item
	h.moved(0)
	h.down(0)
}

// Remove takes out the item that stands at a place.
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
