package core

import "github.com/reprieve-dev/reprieve/internal/core/fairshare"

// Needed are the pods, by UID, without whose departure the places of a decision on this snapshot have no room for certain: of its
// victims, and of the pods that are leaving, each that occupies more than would be to spare on its node with all of them gone. Of a unit that
// goes whole, some pods may only go because others do. Only what nodes have counts, and no places of the surplus, without which the
// preemptor is served.
func (s *Snapshot) Needed(d *Decision) map[string]bool {
	rooms := s.roomsOf(d)
	victims := make(map[string]bool)
	for i := range d.Victims {
		for _, pod := range d.Victims[i].Pods {
			victims[pod.UID] = true
		}
	}
	var going []*Pod
	goes := func(pod *Pod) {
		if pod.Node >= 0 && rooms[pod.Node] != nil {
			addTo(rooms[pod.Node].spare, pod.Request)
			going = append(going, pod)
		}
	}
	for i := range s.Leaving {
		goes(&s.Leaving[i])
	}
	for i := range s.Units {
		for j := range s.Units[i].Pods {
			if pod := &s.Units[i].Pods[j]; pod.Node >= 0 && rooms[pod.Node] != nil && victims[pod.UID] {
				goes(pod)
			}
		}
	}
	needed := make(map[string]bool)
	for _, pod := range going {
		if rooms[pod.Node].lacks(pod.Request) {
			needed[pod.UID] = true
		}
	}
	return needed
}

// placeRoom is what a node has to spare beside what is to be placed there, and how much that is.
type placeRoom struct{ spare, wanted []int64 }

// roomsOf are those of the nodes that a decision needs, by index; nil for all others.
func (s *Snapshot) roomsOf(d *Decision) []*placeRoom {
	requests := make(map[string]Amounts)
	for _, class := range d.Preemptor.Classes {
		for _, member := range class.Members {
			requests[member.UID] = class.Request
		}
	}
	wanted := make(map[string][]int64)
	for _, p := range d.Placements[:min(len(d.Placements), d.Preemptor.MinCount)] {
		if wanted[p.Node] == nil {
			wanted[p.Node] = make([]int64, len(s.Resources))
		}
		addTo(wanted[p.Node], requests[p.UID])
	}
	rooms := make([]*placeRoom, len(s.Nodes))
	for i := range s.Nodes {
		node := &s.Nodes[i]
		if of := wanted[node.Name]; of != nil && !node.gone {
			room := &placeRoom{spare: make([]int64, len(of)), wanted: of}
			for r, v := range of {
				room.spare[r] = fairshare.Add(node.Free[r], -v)
			}
			rooms[i] = room
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
