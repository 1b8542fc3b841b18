package core

import (
	"maps"
	"slices"
	"strings"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// mostSizes is the maximum number of sizes of members that Shortages considers, for each resource.
const mostSizes = 8

// Shortages returns the shortages of a decision. The pods in a shortage are victims and terminating
// pods on the members' nodes. Only the capacity of these nodes counts, for each resource
// separately. So the preemptor may have no room although no shortage is left. As long as any
// shortage is left, the preemptor certainly has no room for minCount members on these nodes, even
// if members exchange their nodes.
//
// For each size of a member, the check counts the members that are at least as large. The preemptor
// may start without its surplus, and any member may be part of the surplus. All other members of
// that size must have places.
func (s *Snapshot) Shortages(d *Decision) []workload.Shortage {
	c := s.columns
	if c == nil {
		c = newColumns(s)
	}
	var requests []Amounts
	for i := range d.Preemptor.Classes {
		class := &d.Preemptor.Classes[i]
		requests = append(requests, slices.Repeat([]Amounts{class.Request}, len(class.Members))...)
	}
	// A retry is useless if it places no member at all.
	surplus := len(requests) - max(d.Preemptor.MinCount, 1)
	rooms := s.emptiedRooms(c, d)
	var out []workload.Shortage
	for r := range s.Resources {
		sizes := make([]int64, len(requests))
		for m, request := range requests {
			sizes[m] = fairshare.Used(request[r])
		}
		slices.Sort(sizes)
		for _, size := range someOf(slices.Compact(slices.Clone(sizes))) {
			at, _ := slices.BinarySearch(sizes, size)
			if members := len(sizes) - at; size > 0 && members > surplus {
				short := shortageOf(rooms, r, size, members, members-surplus)
				if short.Lasts() && !slices.ContainsFunc(out, equalTo(&short)) {
					out = append(out, short)
				}
			}
		}
	}
	return out
}

// someOf returns up to mostSizes of the sizes, at equal distances. The first and the last are among
// them.
func someOf(sizes []int64) []int64 {
	if len(sizes) <= mostSizes {
		return sizes
	}
	out := make([]int64, mostSizes)
	for i := range out {
		out[i] = sizes[i*(len(sizes)-1)/(mostSizes-1)]
	}
	return out
}

// emptiedRoom is a node that a decision places members on. free is the room that is left if all
// victims and terminating pods are gone. These pods are in going.
type emptiedRoom struct {
	node  string
	free  Amounts
	going []*Pod
}

func (e *emptiedRoom) goes(pod *Pod) {
	e.going = append(e.going, pod)
	for r, v := range pod.Request {
		e.free[r] = fairshare.Add(e.free[r], fairshare.Used(v))
	}
}

// emptiedRooms returns the emptiedRoom of each node that a decision places a member on.
func (s *Snapshot) emptiedRooms(c *columns, d *Decision) []*emptiedRoom {
	rooms := make(map[int32]*emptiedRoom)
	for _, p := range d.Placements {
		at, ok := slices.BinarySearchFunc(c.byName, p.Node, func(n int32, name string) int { return strings.Compare(s.Nodes[n].Name, name) })
		if !ok {
			continue
		}
		if node := c.byName[at]; rooms[node] == nil {
			rooms[node] = &emptiedRoom{node: p.Node, free: slices.Clone(s.Nodes[node].Free)}
		}
	}
	for i := range s.Leaving {
		if room := rooms[int32(s.Leaving[i].Node)]; room != nil {
			room.goes(&s.Leaving[i])
		}
	}
	victims := make(map[string]bool, len(d.Victims))
	for i := range d.Victims {
		victims[d.Victims[i].UID] = true
	}
	for node, room := range rooms {
		for _, u := range c.nodes[node].units {
			unit := &s.Units[u]
			for i := range unit.Pods {
				if pod := &unit.Pods[i]; victims[unit.UID] && pod.Node == int(node) {
					room.goes(pod)
				}
			}
		}
	}
	return slices.Collect(maps.Values(rooms))
}

// shortageOf returns the shortage of places of a size, for one resource. members is the number of
// members that are at least as large, and needed is the number of them that must have a place.
func shortageOf(rooms []*emptiedRoom, r int, size int64, members, needed int) workload.Shortage {
	short, sum := workload.Shortage{Pods: make(map[string]workload.Occupied)}, 0
	places := func(free int64) int { return int(min(max(free, 0)/size, int64(members))) }
	for _, room := range rooms {
		all := places(room.free[r])
		sum += all
		for _, pod := range room.going {
			if n := all - places(fairshare.Add(room.free[r], -fairshare.Used(pod.Request[r]))); n > 0 {
				short.Pods[pod.UID] = workload.Occupied{Node: room.node, Places: n}
			}
		}
	}
	short.Spare = max(sum-needed, 0)
	return short
}

func equalTo(short *workload.Shortage) func(workload.Shortage) bool {
	return func(other workload.Shortage) bool {
		return other.Spare == short.Spare && maps.Equal(other.Pods, short.Pods)
	}
}
