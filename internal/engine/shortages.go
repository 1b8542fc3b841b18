package engine

import "github.com/reprieve-dev/reprieve/internal/workload"

// shortage follows a [workload.Shortage] while its pods terminate. Each departure takes time for
// the pods of one node only.
type shortage struct {
	// spare is the number of places that the workload does not need. places is the number of places
	// that the remaining pods occupy.
	spare, places int
	// pods has the remaining pods by UID. nodes has the places that they occupy on each node.
	pods  map[string]workload.Occupied
	nodes map[string]map[string]int
}

// newShortages returns the shortages that last while the pods in left exist.
func newShortages(of []workload.Shortage, left map[string]bool) []*shortage {
	var out []*shortage
	for i := range of {
		s := &shortage{spare: of[i].Spare, pods: make(map[string]workload.Occupied), nodes: make(map[string]map[string]int)}
		for uid, at := range of[i].Pods {
			if !left[uid] {
				continue
			}
			s.pods[uid] = at
			if s.nodes[at.Node] == nil {
				s.nodes[at.Node] = make(map[string]int)
			}
			s.nodes[at.Node][uid] = at.Places
		}
		for _, pods := range s.nodes {
			s.places += largest(pods)
		}
		if s.lasts() {
			out = append(out, s)
		}
	}
	return out
}

// lasts reports whether the remaining pods occupy more places than the workload can spare.
func (s *shortage) lasts() bool { return s.places > s.spare }

// appendNeeded appends the UIDs of the pods that each occupy too many places alone.
func (s *shortage) appendNeeded(needed []string) []string {
	for uid, at := range s.pods {
		if at.Places > s.spare {
			needed = append(needed, uid)
		}
	}
	return needed
}

func (s *shortage) remove(uid string) {
	at, ok := s.pods[uid]
	if !ok {
		return
	}
	delete(s.pods, uid)
	s.places -= largest(s.nodes[at.Node])
	delete(s.nodes[at.Node], uid)
	s.places += largest(s.nodes[at.Node])
}

// largest returns the largest number of places that a pod occupies on a node; 0 without pods.
func largest(pods map[string]int) (places int) {
	for _, n := range pods {
		places = max(places, n)
	}
	return places
}
