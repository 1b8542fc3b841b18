package core

import (
	"slices"
	"strings"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// Needed are the pods, by UID, without whose departure the places of a decision on this snapshot have no room for certain: of its
// victims, and of the pods that are leaving, each that occupies more than would be to spare on its node with all of them gone. Of a unit that
// goes whole, some pods may only go because others do. Only what nodes have counts, and no places of the surplus, without which the
// preemptor is served.
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
	victims := make(map[string]bool)
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
	needed := make(map[string]bool)
	for _, pod := range going {
		if rooms[int32(pod.Node)].lacks(pod.Request) {
			needed[pod.UID] = true
		}
	}
	return needed
}

// placeRoom is what a node has to spare beside what is to be placed there, and how much that is.
type placeRoom struct{ spare, wanted []int64 }

// roomsOf are those of the nodes that a decision needs, by index.
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

// lacks reports whether there is too little for what is to be placed while a request stays.
func (r *placeRoom) lacks(request Amounts) bool {
	for i, v := range request {
		if r.wanted[i] > 0 && v > r.spare[i] {
			return true
		}
	}
	return false
}
