package engine

import (
	"maps"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// UID identifies a pod.
type UID = string

// Attempt is the state of one attempt to schedule a pod, across the extension points.
type Attempt struct {
	// As is the workload of the attempt: the pod, or the gang that it was in when the attempt
	// began. By the end of the attempt, the pod may be in another group.
	As workload.Key
	// Reserved is true if the pod had a reservation when the attempt began. Turn is true if the pod
	// had its turn, or led its gang. Both become false when an extension point learns the outcome
	// of the attempt.
	Reserved, Turn bool
	// Recalled is true if admission revoked the turn of the pod before the attempt began.
	Recalled bool
	// Shown is true if the framework will nominate the pod at the end of the attempt.
	Shown bool
	// Failed is true if a step after the decision failed. Canceled is true if the scheduler itself
	// canceled the binding and returned the pod to the scheduler's queue.
	Failed, Canceled bool
	// Hidden lists the pods whose nominations to the node HiddenOn are hidden from this attempt.
	Hidden   []UID
	HiddenOn string
}

// pod is the record of one pod.
type pod struct {
	// key names the pod. It is set if the pod is seated or assumed.
	key     workload.Key
	attempt Attempt
	// seated is true if the plan of a gang has a node for the pod, and the pod's own attempt is
	// still to come.
	seated bool
	// elsewhere is true if the node with the pod's reservation has rejected the pod. The next
	// attempt then also considers other nodes, and elsewhere becomes false after it.
	elsewhere bool
	// node is the node that the pod is assumed on; "" for none. seal is the text of the pod's
	// [Terms].
	node, seal string
	// rejected is true if the pod was rejected at Permit and still has its node.
	rejected bool
	// returns is the node that the pod has given up; nil for none.
	returns *givenUp
	// nominated is the pod's nomination in the API.
	nominated Nomination
	// report is the report about a queue that the pod may not use.
	report podReport
}

// isEmpty reports whether a record has no facts.
func (p *pod) isEmpty() bool {
	a := &p.attempt
	return a.As == (workload.Key{}) && !a.Reserved && !a.Turn && !a.Recalled && !a.Shown && !a.Failed && !a.Canceled && len(a.Hidden) == 0 &&
		!p.seated && !p.elsewhere && p.node == "" && p.seal == "" && !p.rejected && p.returns == nil && p.nominated == (Nomination{}) && p.report == (podReport{})
}

// Pods has the records of pods in their attempts. It is a part of an [Engine].
type Pods struct {
	*store
	records map[UID]*pod
	// assumed has the pods that are assumed on a node. shared is true if a caller of Assumed may
	// hold the set. In this case, the next change copies the set first.
	assumed Set
	shared  bool
	// nominated, inflated and unreported have the pods with a nomination, with an inflated
	// nomination, and with a report that is due.
	nominated, inflated, unreported Set
}

// change applies a transition to the record of a pod, and creates the record if the pod is present.
// It deletes the record if no facts are left afterwards.
func (ps *Pods) change(uid UID, transition func(*pod)) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.changeLocked(uid, transition)
}

// changeLocked is [Pods.change] for callers that hold the lock.
func (ps *Pods) changeLocked(uid UID, transition func(*pod)) {
	p, ok := ps.records[uid]
	if !ok {
		p = &pod{}
	}
	if _, present := ps.pods[uid]; !ok && !present {
		transition(p)
		return
	}
	ps.transit(uid, p, transition)
}

// changeKnown applies a transition to the record of a pod if there is a record. Use it for
// transitions that have no effect on an empty record.
func (ps *Pods) changeKnown(uid UID, transition func(*pod)) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p, ok := ps.records[uid]; ok {
		ps.transit(uid, p, transition)
	}
}

// transit applies a transition to a record and updates the sets. The caller holds the lock.
func (ps *Pods) transit(uid UID, p *pod, transition func(*pod)) {
	transition(p)
	ps.index(uid, p)
	if p.isEmpty() {
		delete(ps.records, uid)
		return
	}
	ps.records[uid] = p
}

// read calls look with the record of a pod. It does nothing if there is no record.
func (ps *Pods) read(uid UID, look func(*pod)) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p, ok := ps.records[uid]; ok {
		look(p)
	}
}

// index updates the sets nominated, inflated, unreported and assumed from the record of a pod.
func (ps *Pods) index(uid UID, p *pod) {
	ps.nominated = ps.nominated.with(uid, p.nominated != Nomination{})
	ps.inflated = ps.inflated.with(uid, p.nominated.Inflated)
	ps.unreported = ps.unreported.with(uid, p.report.isDue())
	assumed := p.node != ""
	if ps.assumed.Has(uid) == assumed {
		return
	}
	if ps.shared || ps.assumed == nil {
		ps.assumed, ps.shared = maps.Clone(ps.assumed), false
		if ps.assumed == nil {
			ps.assumed = make(Set)
		}
	}
	if assumed {
		ps.assumed[uid] = struct{}{}
	} else {
		delete(ps.assumed, uid)
	}
}

// leaves drops the record of a pod that the scheduler will not schedule any more. If the framework
// has not forgotten the node that the pod gave up, that fact stays until [Pods.Ends]. The caller
// holds the lock.
func (ps *Pods) leaves(uid UID) {
	p, ok := ps.records[uid]
	if !ok {
		return
	}
	left := &pod{}
	if p.returns != nil && !p.returns.forgotten {
		left.returns = p.returns
	}
	*p = *left
	ps.index(uid, p)
	if p.isEmpty() {
		delete(ps.records, uid)
	}
}

// Len counts the records, for tests that look for leaks.
func (ps *Pods) Len() int {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return len(ps.records)
}
