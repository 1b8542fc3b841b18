package core

// Exceeds reports whether all nodes together are too small for a preemptor, even if no other pod
// ran on them. Then no deletion of a pod can help. A gang exceeds the nodes if they have room for
// fewer than MinCount of its members. A preemptor that needs no member exceeds them if they have
// room for no member at all. Exceeds checks only resources, and counts each class without the room
// that other classes need. So it may return false for a preemptor that fits nowhere.
func (s *Snapshot) Exceeds(p *Preemptor) bool {
	if validate(s, p) != nil {
		return false
	}
	need := int64(max(p.MinCount, 1))
	for i := range p.Classes {
		c := &p.Classes[i]
		if need -= s.capacityFor(c.Request, min(int64(len(c.Members)), need)); need <= 0 {
			return false
		}
	}
	return true
}

// capacityFor returns how many pods with a request have room on all nodes together if nothing else
// runs there, up to enough.
func (s *Snapshot) capacityFor(request Amounts, enough int64) (count int64) {
	for n := range s.Nodes {
		if count >= enough {
			return enough
		}
		if s.Nodes[n].gone {
			continue
		}
		room := enough - count
		for r, want := range request {
			if want > 0 {
				// Free is larger where DynamicResources serves the resource.
				room = min(room, max(s.Nodes[n].Allocatable[r], s.Nodes[n].Free[r], 0)/want)
			}
		}
		count += room
	}
	return count
}
