package engine

// Nomination is the node in a pending pod's status.nominatedNodeName. Any component may have set
// the field. The zero value means that the field is empty.
type Nomination struct {
	Node string
	// Inflated is true if the framework ranks the nomination too high: by the pod's own priority,
	// which exceeds the priority of the pod's workload.
	Inflated bool
}

// Nominates records the nomination in a pod's status. If it replaces or clears a nomination to
// another node, Nominates returns that node; otherwise "".
func (ps *Pods) Nominates(uid UID, n Nomination) (ended string) {
	note := func(p *pod) {
		if p.nominated.Node != n.Node {
			ended = p.nominated.Node
		}
		p.nominated = n
	}
	if n == (Nomination{}) {
		ps.changeKnown(uid, note)
	} else {
		ps.change(uid, note)
	}
	return ended
}

// Nominated returns the nodes of the pods with a nomination in the API.
func (ps *Pods) Nominated() map[UID]string {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.nodesOf(ps.nominated)
}

// Inflated returns the nodes of the pods with an inflated nomination; see [Nomination].
func (ps *Pods) Inflated() map[UID]string {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.nodesOf(ps.inflated)
}

// nodesOf returns the nominated nodes of pods. The caller holds the lock.
func (ps *Pods) nodesOf(pods Set) map[UID]string {
	if len(pods) == 0 {
		return nil
	}
	out := make(map[UID]string, len(pods))
	for uid := range pods {
		out[uid] = ps.records[uid].nominated.Node
	}
	return out
}
