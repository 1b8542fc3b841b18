package core

import (
	"iter"

	"github.com/reprieve-dev/reprieve/internal/heap"
)

// tightest returns the order of nodes that keeps the most room usable for other pods.
func (t *simulation) tightest() nodeOrder {
	if t.p.Mix != nil {
		return leastRiseFirst
	}
	return fullestFirst
}

// leastRiseFirst sorts the nodes by the increase of the fragmentation if one member is placed, the
// lowest first. Ties are broken by fewer free devices, then by room for fewer members, then by
// name. A node that got a member is returned again at the position of its new increase.
func leastRiseFirst(t *simulation, class int, nodes []int32) iter.Seq2[int32, int] {
	type candidate struct {
		rise, devices int64
		room, place   int32
	}
	ahead := &heap.Heap[candidate]{Before: func(a, b *candidate) bool {
		if a.rise != b.rise {
			return a.rise < b.rise
		}
		if a.devices != b.devices {
			return a.devices < b.devices
		}
		return a.room < b.room || a.room == b.room && a.place < b.place
	}}
	request := t.wanted[class]
	at := func(place int32) (candidate, bool) {
		free := t.freeOf(nodes[place])
		room := howMany(request, free, roomToCount)
		if room == 0 {
			return candidate{}, false
		}
		return candidate{rise: t.p.Mix.Rise(free, request), devices: free[t.p.Mix.Device], room: int32(room), place: place}, true
	}
	for place, n := range nodes {
		if c, ok := at(int32(place)); ok && t.c.sound[n] {
			ahead.Items = append(ahead.Items, c)
		}
	}
	ahead.Init()
	return func(yield func(int32, int) bool) {
		for len(ahead.Items) > 0 {
			before := ahead.Pop()
			n := nodes[before.place]
			members := t.membersAt(class, n)
			if !yield(n, 1) {
				return
			}
			if t.membersAt(class, n) == members {
				continue
			}
			if after, ok := at(before.place); ok {
				ahead.Push(after)
			}
		}
	}
}

// membersAt returns the number of members of a class that are placed on a node.
func (t *simulation) membersAt(class int, node int32) int32 {
	if t.placed[class] == nil {
		return 0
	}
	return t.placed[class][node]
}
