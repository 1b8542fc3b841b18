package workload

// Shortage is a reason why a preemptor has no room yet: pods that have not terminated occupy the
// places of too many members. A place is room for one member of at least a certain size.
type Shortage struct {
	// Spare is the number of places that the preemptor does not need.
	Spare int
	// Pods maps the UIDs of pods to the places that they occupy.
	Pods map[string]Occupied
}

// Occupied has the number of places that a pod occupies on its node. Two pods on one node occupy as
// many places as the pod that occupies more of them.
type Occupied struct {
	Node   string
	Places int
}

// Requires returns the shortage of a preemptor that has no room while any of the pods exists. Each
// pod counts as on a node of its own.
func Requires(pods ...string) []Shortage {
	short := Shortage{Pods: make(map[string]Occupied, len(pods))}
	for _, uid := range pods {
		short.Pods[uid] = Occupied{Node: uid, Places: 1}
	}
	return []Shortage{short}
}

// Lasts reports whether the pods occupy more places than the preemptor can spare.
func (s *Shortage) Lasts() bool {
	nodes := make(map[string]int)
	for _, pod := range s.Pods {
		nodes[pod.Node] = max(nodes[pod.Node], pod.Places)
	}
	sum := 0
	for _, n := range nodes {
		sum += n
	}
	return sum > s.Spare
}
