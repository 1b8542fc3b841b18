package engine

import "github.com/reprieve-dev/reprieve/internal/workload"

// Begins begins an attempt for a workload.
func (ps *Pods) Begins(uid UID, as workload.Key) {
	ps.change(uid, func(p *pod) {
		p.attempt = Attempt{As: as, Hidden: p.attempt.Hidden, HiddenOn: p.attempt.HiddenOn}
	})
}

// attemptAs returns the attempt of a pod. If another plugin ended the attempt before Begins, the
// new attempt is for the given workload.
func (p *pod) attemptAs(as workload.Key) *Attempt {
	if p.attempt.As == (workload.Key{}) {
		p.attempt.As = as
	}
	return &p.attempt
}

// Recalls records that admission took the turn of a pod back after the pod had passed PreEnqueue.
func (ps *Pods) Recalls(uid UID) { ps.change(uid, func(p *pod) { p.attempt.Recalled = true }) }

// TakesTurn records that a pod has its turn, or leads its gang.
func (ps *Pods) TakesTurn(uid UID) { ps.change(uid, func(p *pod) { p.attempt.Turn = true }) }

// HasReservation records that a pod in its attempt has a reservation.
func (ps *Pods) HasReservation(uid UID) { ps.change(uid, func(p *pod) { p.attempt.Reserved = true }) }

// HasTurn reports whether a pod has its turn, and no extension point has learned the outcome yet.
// as is the workload of the attempt.
func (ps *Pods) HasTurn(uid UID) (as workload.Key, ok bool) {
	ps.read(uid, func(p *pod) { as, ok = p.attempt.As, p.attempt.Turn })
	return as, ok
}

// Hears records that an extension point has learned the outcome of an attempt. It returns the
// workload of the attempt, and whether the pod had its turn.
func (ps *Pods) Hears(uid UID) (as workload.Key, turn bool) {
	ps.change(uid, func(p *pod) {
		as, turn = p.attempt.As, p.attempt.Turn
		p.attempt.Reserved, p.attempt.Turn = false, false
	})
	return as, turn
}

// HearsReservation is like Hears, for the reservation only.
func (ps *Pods) HearsReservation(uid UID) {
	ps.change(uid, func(p *pod) { p.attempt.Reserved = false })
}

// Shows records that the framework will nominate a pod to a node at the end of its attempt. key is
// the pod's current workload.
func (ps *Pods) Shows(uid UID, key workload.Key) {
	ps.change(uid, func(p *pod) { p.attemptAs(key).Shown = true })
}

// Hides records that an attempt ignores the nomination of another pod to a node.
func (ps *Pods) Hides(uid UID, node string, other UID) {
	ps.change(uid, func(p *pod) {
		p.attempt.Hidden, p.attempt.HiddenOn = append(p.attempt.Hidden, other), node
	})
}

// Reveals ends [Pods.Hides]: it returns the node and the pods whose nominations were hidden.
func (ps *Pods) Reveals(uid UID) (node string, others []UID) {
	ps.change(uid, func(p *pod) {
		node, others = p.attempt.HiddenOn, p.attempt.Hidden
		p.attempt.Hidden, p.attempt.HiddenOn = nil, ""
	})
	return node, others
}

// Cancels records that the scheduler itself is about to return a pod to its queue while the pod is
// being bound.
func (ps *Pods) Cancels(uid UID) { ps.change(uid, func(p *pod) { p.attempt.Canceled = true }) }

// KeepsBinding records that the pod of [Pods.Cancels] could not be returned to the queue.
func (ps *Pods) KeepsBinding(uid UID) { ps.change(uid, func(p *pod) { p.attempt.Canceled = false }) }

// Ends ends an attempt that did not place the pod, and returns the state of the attempt. By then
// the framework has forgotten the pod's node, so Ends deletes the record of a pod that no longer
// exists. returned is the gang that waited for the pod to give up its node, if it waits for no
// other pod.
func (ps *Pods) Ends(uid UID) (ended Attempt, returned workload.Key) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p, ok := ps.records[uid]
	if !ok {
		return Attempt{}, workload.Key{}
	}
	ended, p.attempt = p.attempt, Attempt{}
	if p.returns != nil {
		returned = ps.forgets(p.returns)
	}
	if _, present := ps.pods[uid]; !present || p.isEmpty() {
		*p = pod{}
		ps.index(uid, p)
		delete(ps.records, uid)
	}
	return ended, returned
}

// LooksElsewhere records that a pod was rejected on the node with its reservation. Its next attempt
// considers the other nodes.
func (ps *Pods) LooksElsewhere(uid UID) { ps.change(uid, func(p *pod) { p.elsewhere = true }) }

// HasLookedElsewhere ends [Pods.LooksElsewhere]. It reports whether LooksElsewhere was in effect.
func (ps *Pods) HasLookedElsewhere(uid UID) (did bool) {
	ps.change(uid, func(p *pod) { did, p.elsewhere = p.elsewhere, false })
	return did
}

// IsElsewhere reports whether the next attempt of a pod considers nodes other than the node with
// its reservation.
func (ps *Pods) IsElsewhere(uid UID) (is bool) {
	ps.read(uid, func(p *pod) { is = p.elsewhere })
	return is
}
