package core

import (
	"slices"
	"strings"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// Needed returns the UIDs of the pods that must terminate before minCount of the decision's
// placements can have room. They are pods of victims and terminating pods on the members' nodes.
// Each requests more than its node has to spare. Only the capacity of the members' nodes counts, so
// pods of a victim on other nodes may be missing.
//
// The preemptor starts without its surplus, and any member may be part of the surplus. So the check
// removes as many members from each node as the surplus has. Needed leaves out a pod if the
// remaining members have room beside it.
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
	surplus := max(len(d.Placements)-d.Preemptor.MinCount, 0)
	for _, room := range rooms {
		room.dropSurplus(surplus)
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

// placeRoom is the room on a node for placements. members has the members' requests, and wanted is
// their sum. spare is the room that is left if all victims and terminating pods are gone.
type placeRoom struct {
	members       []Amounts
	spare, wanted []int64
}

// roomsOf returns the placeRoom of each node that a decision places a member on, by node index.
func (s *Snapshot) roomsOf(c *columns, d *Decision) map[int32]*placeRoom {
	requests := make(map[string]Amounts)
	for _, class := range d.Preemptor.Classes {
		for _, member := range class.Members {
			requests[member.UID] = class.Request
		}
	}
	rooms := make(map[int32]*placeRoom)
	for _, p := range d.Placements {
		at, ok := slices.BinarySearchFunc(c.byName, p.Node, func(n int32, name string) int { return strings.Compare(s.Nodes[n].Name, name) })
		if !ok {
			continue
		}
		node := c.byName[at]
		if rooms[node] == nil {
			rooms[node] = &placeRoom{spare: slices.Clone(s.Nodes[node].Free), wanted: make([]int64, len(s.Resources))}
		}
		addTo(rooms[node].wanted, requests[p.UID])
		rooms[node].members = append(rooms[node].members, requests[p.UID])
	}
	for _, room := range rooms {
		for r, v := range room.wanted {
			room.spare[r] = fairshare.Add(room.spare[r], -v)
		}
	}
	return rooms
}

// dropSurplus removes the largest requests of a number of members. It chooses these members for
// each resource separately, so the remaining room is a bound: no choice of members leaves more.
func (r *placeRoom) dropSurplus(count int) {
	if count == 0 {
		return
	}
	for i := range r.wanted {
		requests := make([]int64, len(r.members))
		for m, request := range r.members {
			requests[m] = fairshare.Used(request[i])
		}
		slices.Sort(requests)
		for _, v := range requests[max(len(requests)-count, 0):] {
			r.wanted[i] -= v
			r.spare[i] = fairshare.Add(r.spare[i], v)
		}
	}
}

// lacks reports whether the placements do not fit while a pod with this request is still on the
// node.
func (r *placeRoom) lacks(request Amounts) bool {
	for i, v := range request {
		if r.wanted[i] > 0 && v > r.spare[i] {
			return true
		}
	}
	return false
}
