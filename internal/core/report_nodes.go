package core

import (
	"cmp"
	"slices"
)

// ShortOf counts, by resource, the nodes that have too little of this resource for a single pod.
// Only room that is free now counts, without the room of terminating pods. It returns false if any
// node has room, or if the preemptor is not a single pod.
func (s *Snapshot) ShortOf(p *Preemptor) (nodes map[string]int, nowhere bool) {
	if p.Gang || len(p.Classes) != 1 || validate(s, p) != nil {
		return nil, false
	}
	v := newView(s, p, Arithmetic{})
	short := make([]int, v.dims)
	for _, n := range v.c.byName {
		if !v.c.sound[n] {
			return nil, false
		}
		room, fits := v.c.free[int(n)*v.dims:][:v.dims], true
		for r, want := range v.wanted[0] {
			if want > 0 && want > room[r] {
				short[r]++
				fits = false
			}
		}
		if fits {
			return nil, false
		}
	}
	nodes = make(map[string]int)
	for r, n := range short {
		if n > 0 {
			nodes[s.Resources[r]] = n
		}
	}
	return nodes, true
}

// outOfRange is the reason in messages for nodes with a quantity out of range, which the search
// ignores.
const outOfRange = "with quantities out of range"

// shortOf returns the reason why a node admits no pod that requests a resource. There are two
// reasons: the node does not have the resource at all (its name may be misspelled), or too little
// of it is free.
func (s *Snapshot) shortOf(node int32, resource int) string {
	if s.Nodes[node].Allocatable[resource] == 0 {
		return "without " + s.Resources[resource]
	}
	return "short of " + s.Resources[resource]
}

// missing returns the index of the first wanted resource that the node does not have at all. If the
// node has all of them, it returns the argument short.
func (s *Snapshot) missing(node int32, wanted []int64, short int) int {
	for r, amount := range wanted {
		if amount > 0 && s.Nodes[node].Allocatable[r] == 0 {
			return r
		}
	}
	return short
}

// nodesRuledOut counts, by reason, the nodes that a preemptor with a placement could not use. The
// reasons are quantities out of range, rejections by the oracle during the search, and too little
// room even with all potential victims evicted. It does not ask the oracle about nodes that the
// search has not tried, because most of these were skipped only for their cost.
func (sr *search) nodesRuledOut() []ReasonCount {
	v, counts := sr.whole.v, make(map[string]int)
	for _, n := range v.c.byName {
		if !v.c.sound[n] {
			counts[outOfRange]++
			continue
		}
		switch r, refusal := v.lacks(n, sr.policy.roomOn(n)); {
		case refusal != "":
			counts[refusal]++
		case r >= 0:
			counts[sr.whole.s.shortOf(n, r)]++
		}
	}
	return reasonCounts(counts)
}

// lacks returns the reason why a node admits no member of any class if more is added to its free
// room. The reason is a rejection of a class (refusal), or a resource with too little room. If the
// node admits a member, lacks returns -1 and "". If the classes have different reasons, the result
// does not depend on the order of the classes.
func (v *problem) lacks(n int32, more []int64) (resource int, refusal string) {
	resource = -1
	room := v.freeLater(n)
	for c, wanted := range v.wanted {
		if v.isKnownRefused(c, n) {
			if why := v.refusal(c, n); refusal == "" || why < refusal {
				refusal = why
			}
			continue
		}
		r := shortIn(wanted, room, more)
		if r < 0 {
			return -1, ""
		}
		if resource < 0 || r < resource {
			resource = r
		}
	}
	return resource, refusal
}

// nodesOut returns the number of nodes that admit no member in the state of the simulation t, for
// each reason.
func (sr *search) nodesOut(t *simulation, every []want) []ReasonCount {
	counts := make(map[string]int)
	for _, n := range t.c.byName {
		if reason, out := sr.whyOut(t, n, every); out {
			counts[reason]++
		}
	}
	return reasonCounts(counts)
}

// reasonCounts converts counts to a list, the largest count first.
func reasonCounts(counts map[string]int) []ReasonCount {
	rows := make([]ReasonCount, 0, len(counts))
	for reason, n := range counts {
		rows = append(rows, ReasonCount{Reason: reason, Nodes: n})
	}
	slices.SortFunc(rows, func(a, b ReasonCount) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Reason, b.Reason))
	})
	return rows
}

// ReservedRoom is the reason in messages for nodes whose room is reserved for other pods.
const ReservedRoom = "with room that is reserved for others"

// isReserved reports whether a member of a class would fit on a node if the node had no reserved
// room.
func (t *simulation) isReserved(n int32, class int) bool {
	reserver, ok := t.oracle.(Reserver)
	if !ok {
		return false
	}
	reserved := reserver.Reserved(int(n))
	return len(reserved) >= t.dims && shortIn(t.wanted[class], t.freeOf(n), reserved) < 0
}

// whyOut returns the reason why a node admits no member of any class. It returns false if the node
// admits a member.
func (sr *search) whyOut(t *simulation, n int32, every []want) (string, bool) {
	if !t.c.sound[n] {
		return outOfRange, true
	}
	reason, nothing := "", make([]int64, t.dims)
	for _, w := range every {
		c := w.class
		short := shortIn(t.wanted[c], t.freeOf(n), nothing)
		switch {
		case !t.admitsNode(c, n):
			reason = cmp.Or(reason, t.refusal(c, n))
		case short >= 0 && t.isReserved(n, c):
			reason = cmp.Or(reason, ReservedRoom)
		case short >= 0:
			reason = cmp.Or(reason, sr.s.shortOf(n, sr.s.missing(n, t.wanted[c], short)))
		case t.accepts(c, n):
			return "", false
		default:
			reason = cmp.Or(reason, "refused by filters")
		}
	}
	return reason, true
}
