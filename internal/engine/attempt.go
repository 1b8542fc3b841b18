package engine

import "github.com/reprieve-dev/reprieve/internal/workload"

// Begins records that an attempt to schedule a pod begins. as is the workload of the attempt: the
// pod or its gang.
func (ps *Pods) Begins(uid UID, as workload.Key) {
	ps.change(uid, func(p *pod) {
		p.attempt = Attempt{As: as, Hidden: p.attempt.Hidden, HiddenOn: p.attempt.HiddenOn}
	})
}

// attemptAs returns the attempt of a pod. If another plugin ended the attempt before Begins was
// called, the attempt has no workload. attemptAs then sets the given workload.
func (p *pod) attemptAs(as workload.Key) *Attempt {
	if p.attempt.As == (workload.Key{}) {
		p.attempt.As = as
	}
	return &p.attempt
}

// Recalls records that package admission recalled the turn of a pod after the pod had passed
// PreEnqueue.
func (ps *Pods) Recalls(uid UID) { ps.change(uid, func(p *pod) { p.attempt.Recalled = true }) }

// TakesTurn records that a pod has its turn, or leads its gang.
func (ps *Pods) TakesTurn(uid UID) { ps.change(uid, func(p *pod) { p.attempt.Turn = true }) }

// HasReservation records that the pod of an attempt has a reservation.
func (ps *Pods) HasReservation(uid UID) { ps.change(uid, func(p *pod) { p.attempt.Reserved = true }) }

// HasTurn reports whether a pod has its turn in its current attempt. [Pods.Hears] ends the turn. as
// is the workload of the attempt.
func (ps *Pods) HasTurn(uid UID) (as workload.Key, ok bool) {
	ps.read(uid, func(p *pod) { as, ok = p.attempt.As, p.attempt.Turn })
	return as, ok
}

// Hears records that an extension point has learned the outcome of an attempt. It ends the effects
// of [Pods.TakesTurn] and [Pods.HasReservation]. It returns the workload of the attempt, and
// whether the pod had its turn.
func (ps *Pods) Hears(uid UID) (as workload.Key, turn bool) {
	ps.change(uid, func(p *pod) {
		as, turn = p.attempt.As, p.attempt.Turn
		p.attempt.Reserved, p.attempt.Turn = false, false
	})
	return as, turn
}

// HearsReservation ends the effect of [Pods.HasReservation]. The pod keeps its turn.
func (ps *Pods) HearsReservation(uid UID) {
	ps.change(uid, func(p *pod) { p.attempt.Reserved = false })
}

// Shows records that the framework will nominate a pod to a node at the end of its attempt. key is
// the pod's current workload. It becomes the workload of the attempt if the attempt has none.
func (ps *Pods) Shows(uid UID, key workload.Key) {
	ps.change(uid, func(p *pod) { p.attemptAs(key).Shown = true })
}

// Hides records that the attempt of a pod ignores the nomination of the pod other to a node.
func (ps *Pods) Hides(uid UID, node string, other UID) {
	ps.change(uid, func(p *pod) {
		p.attempt.Hidden, p.attempt.HiddenOn = append(p.attempt.Hidden, other), node
	})
}

// Reveals ends the effect of [Pods.Hides]. It returns the node, and the pods whose nominations to
// this node were hidden.
func (ps *Pods) Reveals(uid UID) (node string, others []UID) {
	ps.change(uid, func(p *pod) {
		node, others = p.attempt.HiddenOn, p.attempt.Hidden
		p.attempt.Hidden, p.attempt.HiddenOn = nil, ""
	})
	return node, others
}

// Cancels records that the scheduler itself is about to cancel the binding of a pod and return the
// pod to the scheduler's queue.
func (ps *Pods) Cancels(uid UID) { ps.change(uid, func(p *pod) { p.attempt.Canceled = true }) }

// KeepsBinding undoes [Pods.Cancels]: the pod could not be returned to the scheduler's queue.
func (ps *Pods) KeepsBinding(uid UID) { ps.change(uid, func(p *pod) { p.attempt.Canceled = false }) }

// Ends ends an attempt that did not place the pod, and returns the state of the attempt. By then,
// the framework has forgotten the pod's node. So Ends deletes the record of a pod that no longer
// exists. returned is the gang that waited for the pod to give up its node. It is the zero Key if
// there is none, or if the gang waits for other pods too.
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

// LooksElsewhere records that the node with a pod's reservation rejected the pod. The pod's next
// attempt considers the other nodes.
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
