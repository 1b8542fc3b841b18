package engine

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// placing is the state of a gang's members between PreEnqueue and a node.
//
// A gang without a plan has a leader: the only member that is admitted to the scheduling cycle. So
// a gang of any size needs one planning pass. The plan gives each member a node. Its order is such
// that each member passes the filters after the previous members. The members go through their own
// cycles in this order. Each then becomes reserved and waits at Permit until enough members are
// reserved.
type placing struct {
	leader UID
	// rejected has the members that became leader and were rejected before they could plan.
	rejected map[UID]struct{}
	// takeover lets the next member that arrives replace the leader.
	takeover bool
	// planned has the nodes of the members whose cycle is still to come. order lists the same
	// members in the order of the plan.
	planned map[UID]string
	order   []UID
	// plan is a hash of the nodes of the last plan. failed is the hash of the last plan with a
	// rejected member. stuck is true if two such plans in a row had the same nodes; see
	// [Gangs.Failed].
	plan, failed string
	stuck        bool
	// came is true if a member has arrived since the members were last listed for a decision.
	came bool
	// spare is the number of planned members that the gang can lose and still be whole.
	spare int
	// reserved has the nodes of the members that are assumed, but that the informer has not shown
	// on a node yet.
	reserved map[UID]string
	// podSensitive is true if the gang may fit after a pod was created, or after labels of a pod
	// changed.
	podSensitive bool
	verdict      workload.Verdict
}

// isEmpty reports whether no member is being placed and there is no verdict.
func (p *placing) isEmpty() bool {
	return p.isIdle() && len(p.rejected) == 0 && len(p.reserved) == 0 && p.failed == "" && p.verdict == workload.Verdict{}
}

// isIdle reports whether the gang has no leader and no planned member.
func (p *placing) isIdle() bool { return p.leader == "" && len(p.planned) == 0 }

// unplan removes a member from the plan.
func (p *placing) unplan(member UID) {
	if _, ok := p.planned[member]; ok {
		delete(p.planned, member)
		p.order = slices.DeleteFunc(p.order, func(uid UID) bool { return uid == member })
	}
}

// unlead removes a member from the lead.
func (p *placing) unlead(member UID) {
	if p.leader == member {
		p.leader = ""
	}
}

// Admission is the result of [Gangs.Admit]: whether a member may enter the scheduling cycle, and
// the reason if not.
type Admission string

const (
	// AdmitPlanned: the plan has a node for the member, and the member is next.
	AdmitPlanned Admission = "planned"
	// HoldForOrder: the plan has a node for the member, but other members come first.
	HoldForOrder Admission = "the members that go first are being placed"
	// AdmitLeader: the member plans for the gang.
	AdmitLeader Admission = "leader"
	// HoldForLeader: another member plans for the gang.
	HoldForLeader Admission = "another member plans for the gang"
	// HoldForPlan: the members of a plan are being placed, and the plan has no node for this
	// member.
	HoldForPlan Admission = "the members that fit are being placed first"
)

// Admit decides whether a member may enter the scheduling cycle. If the gang has neither a plan nor
// a leader, the member becomes the leader. canLead reports whether a leader can lead, from the
// caller's view; Admit replaces a leader that cannot.
func (gs *Gangs) Admit(key workload.Key, member UID, canLead func(leader UID) bool) Admission {
	leader := gs.Leader(key)
	replace := leader != "" && leader != member && !canLead(leader)
	admission := AdmitLeader
	gs.change(key, func(g *gang) {
		p := &g.placing
		_, planned := p.planned[member]
		switch {
		case planned && p.order[0] == member:
			admission = AdmitPlanned
		case planned:
			admission = HoldForOrder
		case len(p.planned) > 0:
			admission = HoldForPlan
		case p.leader != member && p.leader != "" && !p.takeover && (p.leader != leader || !replace):
			admission = HoldForLeader
		default:
			p.leader, p.takeover = member, false
		}
	})
	return admission
}

// Leader returns the member that plans for the gang, or "".
func (gs *Gangs) Leader(key workload.Key) (leader UID) {
	gs.read(key, func(g *gang) { leader = g.placing.leader })
	return leader
}

// Yield gives up the leadership of a member: the next member that arrives replaces it. If the
// member does not lead, Yield does nothing.
func (gs *Gangs) Yield(key workload.Key, member UID) {
	gs.changeKnown(key, func(g *gang) { g.placing.takeover = g.placing.takeover || g.placing.leader == member })
}

// PassOn removes a leader that was rejected before it could plan. The returned function reports
// whether a member may lead next. A member may not if it was rejected since the last call of
// Planning.
func (gs *Gangs) PassOn(key workload.Key, leader UID) (mayLead func(UID) bool) {
	tried := map[UID]struct{}{}
	gs.change(key, func(g *gang) {
		p := &g.placing
		if p.leader == leader {
			p.leader, p.takeover = "", false
		}
		if p.rejected == nil {
			p.rejected = make(map[UID]struct{})
		}
		p.rejected[leader] = struct{}{}
		tried = maps.Clone(p.rejected)
	})
	return func(uid UID) bool {
		_, was := tried[uid]
		return !was
	}
}

// Planning allows every member to lead again. Call it when a leader starts to plan, or when all
// members were tried.
func (gs *Gangs) Planning(key workload.Key) {
	gs.changeKnown(key, func(g *gang) { g.placing.rejected = nil })
}

// ListsMembers records that the members are about to be listed for a decision.
func (gs *Gangs) ListsMembers(key workload.Key) {
	gs.changeKnown(key, func(g *gang) { g.placing.came = false })
}

// MemberComes records that a member has become ready for scheduling.
func (gs *Gangs) MemberComes(key workload.Key) {
	gs.changeKnown(key, func(g *gang) { g.placing.came = true })
}

// HasNewMember reports whether a member has arrived since the last ListsMembers. The decision since
// then does not count it. The leader is only admitted while the gang has a record, so a gang
// without one has no such decision.
func (gs *Gangs) HasNewMember(key workload.Key) (came bool) {
	gs.read(key, func(g *gang) { came = g.placing.came })
	return came
}

// Idle reports whether the gang has no leader and no planned member.
func (gs *Gangs) Idle(key workload.Key) bool {
	idle := true
	gs.read(key, func(g *gang) { idle = g.placing.isIdle() })
	return idle
}

// Unled lists the gangs with facts about their placement that have no leader and no planned member.
func (gs *Gangs) Unled() []workload.Key {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	var out []workload.Key
	for key := range gs.placing {
		if gs.records[key].gang.placing.isIdle() {
			out = append(out, key)
		}
	}
	return out
}

// Lead is the leader of a gang without a plan.
type Lead struct {
	Gang   workload.Key
	Leader UID
	// Yielded is true if too few members could be scheduled when the leader was about to plan.
	Yielded bool
}

// Leads lists the leaders of all gangs without a plan.
func (gs *Gangs) Leads() []Lead {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	var out []Lead
	for key := range gs.placing {
		if p := &gs.records[key].gang.placing; p.leader != "" && len(p.planned) == 0 {
			out = append(out, Lead{Gang: key, Leader: p.leader, Yielded: p.takeover})
		}
	}
	return out
}

// PlannedNode returns the node that the plan has for a member.
func (gs *Gangs) PlannedNode(key workload.Key, member UID) (node string, ok bool) {
	gs.read(key, func(g *gang) { node, ok = g.placing.planned[member] })
	return node, ok
}

// Assignment is the node of one member in a plan.
type Assignment struct {
	Member UID
	Node   string
}

// SetPlan records the plan of a gang, in the given order, and ends the role of the leader. Until
// SetNeeded is called, no planned member counts as needed.
func (gs *Gangs) SetPlan(key workload.Key, seats []Assignment) {
	gs.change(key, func(g *gang) {
		p := &g.placing
		p.planned, p.order, p.stuck = make(map[UID]string, len(seats)), make([]UID, 0, len(seats)), false
		p.plan, p.spare = nodesOf(seats), len(seats)
		for _, seat := range seats {
			p.planned[seat.Member] = seat.Node
			p.order = append(p.order, seat.Member)
		}
		p.leader, p.takeover = "", false
	})
}

// SetNeeded records how many planned members must still become reserved for the gang to be whole.
func (gs *Gangs) SetNeeded(key workload.Key, members int) {
	gs.change(key, func(g *gang) { g.placing.spare = max(len(g.placing.order)-members, 0) })
}

// Lacks reports whether further planned members must become reserved for the gang to be whole.
func (gs *Gangs) Lacks(key workload.Key) (lacks bool) {
	gs.read(key, func(g *gang) { lacks = len(g.placing.order) > g.placing.spare })
	return lacks
}

// nodesOf returns a hash of the nodes of a plan. It is the same for plans that put the same number
// of members on each node.
func nodesOf(seats []Assignment) string {
	nodes := make([]string, len(seats))
	for i, seat := range seats {
		nodes[i] = seat.Node
	}
	slices.Sort(nodes)
	sum := sha256.New()
	for _, node := range nodes {
		fmt.Fprintln(sum, node)
	}
	return string(sum.Sum(nil))
}

// Stuck reports whether two plans in a row with the same nodes had a rejected member, and there is
// no newer plan. Planning again is pointless before something changes.
func (gs *Gangs) Stuck(key workload.Key) (stuck bool) {
	gs.read(key, func(g *gang) { stuck = g.placing.stuck })
	return stuck
}

// Next returns the planned member that goes next, or "".
func (gs *Gangs) Next(key workload.Key) (member UID) {
	gs.read(key, func(g *gang) {
		if len(g.placing.order) > 0 {
			member = g.placing.order[0]
		}
	})
	return member
}

// Reserve records that a member is assumed on a node. It reports whether the plan is complete: no
// other member is planned.
func (gs *Gangs) Reserve(key workload.Key, member UID, node string) (complete bool) {
	gs.change(key, func(g *gang) {
		p := &g.placing
		p.unplan(member)
		if p.reserved == nil {
			p.reserved = make(map[UID]string)
		}
		p.reserved[member] = node
		if complete = len(p.planned) == 0; complete {
			p.failed = ""
		}
		// A member that is assumed no longer plans.
		p.unlead(member)
	})
	return complete
}

// Reserved returns the members that are assumed, but that the informer has not shown on a node yet.
func (gs *Gangs) Reserved(key workload.Key) (members []UID) {
	gs.read(key, func(g *gang) { members = slices.Collect(maps.Keys(g.placing.reserved)) })
	return members
}

// Planned returns the number of members that have a node in the plan and whose cycle is still to
// come.
func (gs *Gangs) Planned(key workload.Key) (count int) {
	gs.read(key, func(g *gang) { count = len(g.placing.planned) })
	return count
}

// PlannedMembers returns the members that have a node in the plan and whose cycle is still to come,
// in the order of the plan.
func (gs *Gangs) PlannedMembers(key workload.Key) (members []UID) {
	gs.read(key, func(g *gang) { members = slices.Clone(g.placing.order) })
	return members
}

// Settled records that the informer has shown a member on its node. It reports whether the member
// was still planned. In this case the member's own cycle will not come, so the caller must activate
// the next member.
func (gs *Gangs) Settled(key workload.Key, member UID) (planned bool) {
	gs.changeKnown(key, func(g *gang) {
		_, planned = g.placing.planned[member]
		g.placing.drop(member)
	})
	return planned
}

// MemberLeaves drops a member that was deleted. It reports whether this affects the gang: the
// member was the leader, planned or reserved.
func (gs *Gangs) MemberLeaves(key workload.Key, member UID) (disturbed bool) {
	gs.changeKnown(key, func(g *gang) {
		_, planned := g.placing.planned[member]
		_, reserved := g.placing.reserved[member]
		disturbed = planned || reserved || g.placing.leader == member
		g.placing.drop(member)
	})
	return disturbed
}

// drop removes a member from the plan and the reservations.
func (p *placing) drop(member UID) {
	p.unplan(member)
	p.unlead(member)
	delete(p.reserved, member)
}

// release drops the rest of a plan, and the reservation of the given member if it has one. It
// returns the members that were still planned. Members that wait at Permit release their
// reservations themselves. The caller holds the lock.
func (gs *Gangs) release(key workload.Key, member UID) (planned []UID) {
	if r := gs.records[key]; r == nil || r.gang == nil {
		return nil
	}
	gs.transit(key, func(g *gang) {
		planned = g.placing.order
		g.placing.planned, g.placing.order = nil, nil
		delete(g.placing.reserved, member)
	})
	return planned
}

// Failed records that a planned member was rejected on its node. It reports whether the last plan
// with a rejected member had the same nodes, in any assignment to members. If so, the gang is
// stuck.
func (gs *Gangs) Failed(key workload.Key) (again bool) {
	gs.change(key, func(g *gang) {
		p := &g.placing
		again = p.failed != "" && p.failed == p.plan
		p.failed, p.stuck = p.plan, again
	})
	return again
}

// Unplanned records that planning found no room for a gang in the current state. The next plan
// counts as different from the last one, even if the nodes are the same.
func (gs *Gangs) Unplanned(key workload.Key) {
	gs.changeKnown(key, func(g *gang) { g.placing.failed = "" })
}

// SetPodSensitive records whether the gang may fit after a pod was created, or after labels of a
// pod changed.
func (gs *Gangs) SetPodSensitive(key workload.Key, podSensitive bool) {
	gs.change(key, func(g *gang) { g.placing.podSensitive = podSensitive })
}

// PodSensitive returns the value of the last SetPodSensitive.
func (gs *Gangs) PodSensitive(key workload.Key) (podSensitive bool) {
	gs.read(key, func(g *gang) { podSensitive = g.placing.podSensitive })
	return podSensitive
}

// SetVerdict records the verdict of planning on a gang.
func (gs *Gangs) SetVerdict(key workload.Key, v workload.Verdict) {
	same := true
	gs.change(key, func(g *gang) {
		same = g.placing.verdict == v
		g.placing.verdict = v
	})
	if !same {
		gs.verdictChanged(key)
	}
}

// Verdict returns the last verdict of planning on a gang.
func (gs *Gangs) Verdict(key workload.Key) (v workload.Verdict) {
	gs.read(key, func(g *gang) { v = g.placing.verdict })
	return v
}

// Judged returns the gangs with a verdict, each with the verdict's reason.
func (gs *Gangs) Judged() map[workload.Key]string {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	out := make(map[workload.Key]string)
	for key := range gs.placing {
		if reason := gs.records[key].gang.placing.verdict.Reason; reason != "" {
			out[key] = reason
		}
	}
	return out
}
