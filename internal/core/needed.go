package core

import (
	"slices"
	"strings"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// Needed returns the UIDs of the pods that must terminate before the decision's placements
// certainly have room. They are pods of its victims, and terminating pods, that request more than
// their node would have to spare. Only the capacity of nodes counts, so some pods of a group that
// is evicted whole may be missing. Placements of surplus members do not count, because the
// preemptor runs without them.
func (s *Snapshot) Needed(d *Decision) map[string]bool {
	c := s.columns
	if c == nil {
		c = newColumns(s)
	}
	rooms := s.roomsOf(c, d)
	var going []*Pod
	goes := func(pod *Pod) {
		if room := rooms[int32(pod.Node)]; room != nil {
			addTo(room.spare, pod.Request)
			going = append(going, pod)
		}
	}
	for i := range s.Leaving {
		goes(&s.Leaving[i])
	}
	victims := make(map[string]bool, len(d.Victims))
	for i := range d.Victims {
		victims[d.Victims[i].UID] = true
	}
	for node := range rooms {
		for _, u := range c.nodes[node].units {
			unit := &s.Units[u]
			if !victims[unit.UID] {
				continue
			}
			for i := range unit.Pods {
				if pod := &unit.Pods[i]; pod.Node == int(node) {
					goes(pod)
				}
			}
		}
	}
	needed := make(map[string]bool, len(going))
	for _, pod := range going {
		if rooms[int32(pod.Node)].lacks(pod.Request) {
			needed[pod.UID] = true
		}
	}
	return needed
}

// placeRoom is the room that the placements on a node need, and the room that is left beside them.
type placeRoom struct{ spare, wanted []int64 }

// roomsOf returns the placeRoom of each node that a decision places a member on, by node index.
func (s *Snapshot) roomsOf(c *columns, d *Decision) map[int32]*placeRoom {
	requests := make(map[string]Amounts)
	for _, class := range d.Preemptor.Classes {
		for _, member := range class.Members {
			requests[member.UID] = class.Request
		}
	}
	rooms := make(map[int32]*placeRoom)
	for _, p := range d.Placements[:min(len(d.Placements), d.Preemptor.MinCount)] {
		at, ok := slices.BinarySearchFunc(c.byName, p.Node, func(n int32, name string) int { return strings.Compare(s.Nodes[n].Name, name) })
		if !ok {
			continue
		}
		node := c.byName[at]
		if rooms[node] == nil {
			rooms[node] = &placeRoom{spare: slices.Clone(s.Nodes[node].Free), wanted: make([]int64, len(s.Resources))}
		}
		addTo(rooms[node].wanted, requests[p.UID])
	}
	for _, room := range rooms {
		for r, v := range room.wanted {
			room.spare[r] = fairshare.Add(room.spare[r], -v)
		}
	}
	return rooms
}

// lacks reports whether the placements have too little room as long as a pod with this request
// stays.
func (r *placeRoom) lacks(request Amounts) bool {
	for i, v := range request {
		if r.wanted[i] > 0 && v > r.spare[i] {
			return true
		}
	}
	return false
}
