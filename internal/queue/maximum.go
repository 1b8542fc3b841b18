package queue

import "github.com/reprieve-dev/reprieve/internal/gang"

// MaximumOf returns the highest priority that a queue accepts. The result has no bound if queue is
// "", or if the queue has no maxPriorityClass.
func (b *Ledger) MaximumOf(queue string) gang.Maximum {
	if queue == "" {
		return gang.Maximum{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.accessTo(queue)
	out := gang.Maximum{Queue: queue, Class: a.class}
	if a.highest != nil {
		value := *a.highest
		out.Value = &value
	}
	return out
}
