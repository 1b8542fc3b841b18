package engine

import "github.com/reprieve-dev/reprieve/internal/workload"

// givenUp is the node that a pod has given up. The record exists until a scheduling cycle has seen
// the node without the pod. That may take a while: the framework forgets the node only after it has
// called all plugins, and a cycle may use an older snapshot.
type givenUp struct {
	// node is the node that was given up. It is "" for a pod that was rejected at Permit and has
	// not given up its node yet.
	node string
	// forgotten is true once the framework has forgotten the node.
	forgotten bool
	// awaitedBy is the gang that could not be planned because the pod had not given up its node;
	// the zero Key for none. The gang waits for the pod.
	awaitedBy workload.Key
}

// JoinsPlan records that the plan of a gang assigns a node to a pod. key names the pod.
func (ps *Pods) JoinsPlan(uid UID, key workload.Key) {
	ps.change(uid, func(p *pod) { p.key, p.seated = key, true })
}

// LeavesPlan records that no gang's plan assigns a node to the pod any more.
func (ps *Pods) LeavesPlan(uid UID) { ps.change(uid, func(p *pod) { p.seated = false }) }

// InPlan returns the key of a pod if the plan of a gang assigns a node to the pod. For all other
// pods it returns false.
func (ps *Pods) InPlan(uid UID) (key workload.Key, ok bool) {
	ps.read(uid, func(p *pod) { key, ok = p.key, p.seated })
	return key, ok
}

// assumes records that a pod is assumed on a node. It clears the earlier states of the pod's place,
// such as a plan. key names the pod. The caller holds the lock.
func (ps *Pods) assumes(uid UID, key workload.Key, node string) {
	ps.changeLocked(uid, func(p *pod) {
		*p = pod{key: key, attempt: p.attempt, node: node, nominated: p.nominated, report: p.report}
	})
}

// GivesUp records that a pod gives up its node because a step after the decision failed. key is the
// pod's current workload. It becomes the workload of the attempt if the attempt has none.
func (ps *Pods) GivesUp(uid UID, key workload.Key, node string) {
	ps.change(uid, func(p *pod) {
		p.attemptAs(key).Failed = true
		p.returning().node = node
		p.node, p.seal, p.rejected = "", "", false
	})
}

// Seals records the text of the [Terms] of a pod. It has no effect if the pod is not assumed on a
// node.
func (ps *Pods) Seals(uid UID, seal string) {
	ps.changeKnown(uid, func(p *pod) {
		if p.node != "" {
			p.seal = seal
		}
	})
}

// SealOf returns the text that Seals recorded for an assumed pod; "" for other pods.
func (ps *Pods) SealOf(uid UID) (seal string) {
	ps.read(uid, func(p *pod) { seal = p.seal })
	return seal
}

func (p *pod) returning() *givenUp {
	if p.returns == nil {
		p.returns = &givenUp{}
	}
	return p.returns
}

// IsAssumed reports whether a pod is assumed on a node.
func (ps *Pods) IsAssumed(uid UID) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.assumed.Has(uid)
}

// NodeOf returns the node that a pod is assumed on; "" for none.
func (ps *Pods) NodeOf(uid UID) (node string) {
	ps.read(uid, func(p *pod) { node = p.node })
	return node
}

// Assumed returns the pods that are assumed on a node. The returned set never changes: later events
// replace it. The caller must not change it.
func (ps *Pods) Assumed() Set {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.shared = true
	return ps.assumed
}

// Set is a set of pods.
type Set map[UID]struct{}

// Has reports whether a pod is in the set.
func (s Set) Has(uid UID) bool {
	_, ok := s[uid]
	return ok
}

// with adds a pod to the set or removes it, and returns the set.
func (s Set) with(uid UID, in bool) Set {
	if !in {
		delete(s, uid)
		return s
	}
	if s == nil {
		s = make(Set)
	}
	s[uid] = struct{}{}
	return s
}

// AssumedOn returns the keys of the pods that are assumed on a node.
func (ps *Pods) AssumedOn(node string) (keys []workload.Key) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for uid := range ps.assumed {
		if p := ps.records[uid]; p.node == node {
			keys = append(keys, p.key)
		}
	}
	return keys
}

// Rejects records that an assumed pod has been rejected at Permit. The pod keeps its node until
// GivesUp.
func (ps *Pods) Rejects(uid UID) { ps.change(uid, func(p *pod) { p.rejected = p.node != "" }) }

// IsRejected reports whether a pod has been rejected at Permit and still has its node.
func (ps *Pods) IsRejected(uid UID) (is bool) {
	ps.read(uid, func(p *pod) { is = p.rejected })
	return is
}

// Awaits records that a gang must wait until a pod has given up its node. If the framework still
// counts the pod on this node, Awaits returns true. [Pods.Ends] then returns the gang when the
// framework has forgotten the node.
func (ps *Pods) Awaits(uid UID, gang workload.Key) (told bool) {
	ps.change(uid, func(p *pod) {
		if p.rejected {
			p.returning()
		}
		if p.returns != nil && !p.returns.forgotten {
			p.returns.awaitedBy, told = gang, true
		}
	})
	return told
}

// ReturnsFrom returns the node that a pod has given up; "" for none.
func (ps *Pods) ReturnsFrom(uid UID) (node string) {
	ps.read(uid, func(p *pod) {
		if p.returns != nil {
			node = p.returns.node
		}
	})
	return node
}

// HasReturned records that a scheduling cycle has seen the node without the pod.
func (ps *Pods) HasReturned(uid UID) { ps.change(uid, func(p *pod) { p.returns = nil }) }

// IsAwaited reports, for tests, whether a gang waits for a pod to give up its node.
func (ps *Pods) IsAwaited(uid UID) (is bool) {
	ps.read(uid, func(p *pod) { is = p.returns != nil && p.returns.awaitedBy != workload.Key{} })
	return is
}

// forgets records that the framework has forgotten the node of a pod. It returns the gang that
// waited for this, if the gang waits for no other pod.
func (ps *Pods) forgets(g *givenUp) (lastOf workload.Key) {
	lastOf, g.awaitedBy, g.forgotten = g.awaitedBy, workload.Key{}, true
	if lastOf == (workload.Key{}) {
		return lastOf
	}
	for _, other := range ps.records {
		if other.returns != nil && other.returns.awaitedBy == lastOf {
			return workload.Key{}
		}
	}
	return lastOf
}
