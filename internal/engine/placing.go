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
// the scheduler plans a gang of any size once. The plan gives each member a node, and orders the
// members so that each passes the filters once the previous members have their nodes. The members
// go through their own cycles in this order. After its cycle, a member is reserved and waits at
// Permit until enough members are reserved.
type placing struct {
	leader UID
	// rejected has the members that became leader and were rejected before they could plan.
	rejected map[UID]struct{}
	// takeover is true if the leader gave up its role. The next member that arrives then becomes
	// the leader.
	takeover bool
	// planned maps members to their nodes in the plan. It has only the members whose cycle is still
	// to come.
	planned map[UID]string
	// order lists the keys of planned in the order of the plan.
	order []UID
	// plan is a hash of the nodes of the last plan.
	// failed is the hash of the last plan with a rejected member. stuck is true if two such plans
	// in a row had the same hash; see [Gangs.Failed].
	plan, failed string
	stuck        bool
	// came is true if a member has arrived since the last call of [Gangs.ListsMembers].
	came bool
	// spare is the number of planned members that the gang does not need to be whole.
	spare int
	// reserved maps assumed members to their nodes, until the informer shows them on a node.
	reserved map[UID]string
	// podSensitive is true if filters about other pods rejected the gang. Then a new pod, or a
	// change of a pod's labels, may make the gang fit.
	podSensitive bool
	verdict      workload.Verdict
}

// isEmpty reports whether no member is being placed and there is no verdict.
func (p *placing) isEmpty() bool {
	return p.isIdle() && len(p.rejected) == 0 && len(p.reserved) == 0 && p.failed == "" && p.verdict == workload.Verdict{}
}

// isIdle reports whether the gang has neither a leader nor a planned member.
func (p *placing) isIdle() bool { return p.leader == "" && len(p.planned) == 0 }

// unplan removes a member from the plan.
func (p *placing) unplan(member UID) {
	if _, ok := p.planned[member]; ok {
		delete(p.planned, member)
		p.order = slices.DeleteFunc(p.order, func(uid UID) bool { return uid == member })
	}
}

// unlead ends the leadership of a member. It does nothing if another member leads.
func (p *placing) unlead(member UID) {
	if p.leader == member {
		p.leader = ""
	}
}

// Admission is the result of [Gangs.Admit]. It says whether a member may enter the scheduling
// cycle, and why not.
type Admission string

const (
	// AdmitPlanned: the plan has a node for the member, and the member is the next in the order.
	AdmitPlanned Admission = "planned"
	// HoldForOrder: the plan has a node for the member, but other members come first in the order.
	HoldForOrder Admission = "the members that go first are being placed"
	// AdmitLeader: the member is the leader, and plans for the gang.
	AdmitLeader Admission = "leader"
	// HoldForLeader: another member is the leader, and plans for the gang.
	HoldForLeader Admission = "another member plans for the gang"
	// HoldForPlan: other members of the gang are being placed by a plan that has no node for this
	// member.
	HoldForPlan Admission = "the members that fit are being placed first"
)

// Admit decides whether a member may enter the scheduling cycle. If the gang has neither a plan nor
// a leader, the member becomes the leader. canLead reports whether the present leader can still
// plan. If the leader cannot, Admit makes the member the leader.
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

// Leader returns the member that leads the gang and plans for it, or "".
func (gs *Gangs) Leader(key workload.Key) (leader UID) {
	gs.read(key, func(g *gang) { leader = g.placing.leader })
	return leader
}

// Yield gives up the leadership of a member: the next member that arrives replaces it. If the
// member does not lead, Yield does nothing.
func (gs *Gangs) Yield(key workload.Key, member UID) {
	gs.changeKnown(key, func(g *gang) { g.placing.takeover = g.placing.takeover || g.placing.leader == member })
}

// PassOn ends the leadership of a member that was rejected before it could plan. The returned
// function reports whether a given member may lead next. It returns false for each member that has
// been passed to PassOn since the last call of Planning.
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
// members have failed to lead.
func (gs *Gangs) Planning(key workload.Key) {
	gs.changeKnown(key, func(g *gang) { g.placing.rejected = nil })
}

// ListsMembers records that the caller is about to list the members for a decision.
func (gs *Gangs) ListsMembers(key workload.Key) {
	gs.changeKnown(key, func(g *gang) { g.placing.came = false })
}

// MemberComes records that a member has become ready for scheduling.
func (gs *Gangs) MemberComes(key workload.Key) {
	gs.changeKnown(key, func(g *gang) { g.placing.came = true })
}

// HasNewMember reports whether a member has arrived since the last ListsMembers. If so, the
// decision that followed ListsMembers does not include this member.
func (gs *Gangs) HasNewMember(key workload.Key) (came bool) {
	gs.read(key, func(g *gang) { came = g.placing.came })
	return came
}

// Idle reports whether the gang has neither a leader nor a planned member.
func (gs *Gangs) Idle(key workload.Key) bool {
	idle := true
	gs.read(key, func(g *gang) { idle = g.placing.isIdle() })
	return idle
}

// Unled lists the gangs whose placement has facts, such as a verdict, but neither a leader nor a
// planned member.
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
	// Yielded is true if the leader gave up its role ([Gangs.Yield]), because too few members could
	// be scheduled when it was about to plan.
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

// PlannedNode returns the node that the plan has for a member; false for none.
func (gs *Gangs) PlannedNode(key workload.Key, member UID) (node string, ok bool) {
	gs.read(key, func(g *gang) { node, ok = g.placing.planned[member] })
	return node, ok
}

// Assignment is the node of one member in a plan.
type Assignment struct {
	Member UID
	Node   string
}

// SetPlan records the plan of a gang, in the given order of members, and ends the role of the
// leader. No planned member counts as needed until SetNeeded is called.
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

// SetNeeded records how many of the planned members must be reserved before the gang is whole.
func (gs *Gangs) SetNeeded(key workload.Key, members int) {
	gs.change(key, func(g *gang) { g.placing.spare = max(len(g.placing.order)-members, 0) })
}

// Lacks reports whether more planned members must be reserved before the gang is whole.
func (gs *Gangs) Lacks(key workload.Key) (lacks bool) {
	gs.read(key, func(g *gang) { lacks = len(g.placing.order) > g.placing.spare })
	return lacks
}

// nodesOf returns a hash of the nodes of a plan. Two plans have the same hash if they put the same
// number of members on each node.
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

// Stuck reports whether the last two plans put the same numbers of members on the same nodes, and a
// node rejected a member of each plan. Until something changes, the next plan would fail too.
func (gs *Gangs) Stuck(key workload.Key) (stuck bool) {
	gs.read(key, func(g *gang) { stuck = g.placing.stuck })
	return stuck
}

// Next returns the first member in the order of the plan whose cycle is still to come; "" for none.
func (gs *Gangs) Next(key workload.Key) (member UID) {
	gs.read(key, func(g *gang) {
		if len(g.placing.order) > 0 {
			member = g.placing.order[0]
		}
	})
	return member
}

// Reserve records that a member is assumed on a node, and removes the member from the plan. It
// reports whether the plan is complete: no planned member is left.
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
		// A member that is assumed cannot lead the gang.
		p.unlead(member)
	})
	return complete
}

// Reserved returns the members that are assumed on a node, and that the informer has not shown on a
// node yet.
func (gs *Gangs) Reserved(key workload.Key) (members []UID) {
	gs.read(key, func(g *gang) { members = slices.Collect(maps.Keys(g.placing.reserved)) })
	return members
}

// Planned returns the number of members that have a node in the plan and have not had their cycle.
func (gs *Gangs) Planned(key workload.Key) (count int) {
	gs.read(key, func(g *gang) { count = len(g.placing.planned) })
	return count
}

// PlannedMembers returns the members that have a node in the plan and have not had their cycle, in
// the order of the plan.
func (gs *Gangs) PlannedMembers(key workload.Key) (members []UID) {
	gs.read(key, func(g *gang) { members = slices.Clone(g.placing.order) })
	return members
}

// Settled records that the informer has shown a member on its node. It reports whether the member
// was still planned. If the member was still planned, no cycle of this member will activate the
// next member, so the caller must activate the next member.
func (gs *Gangs) Settled(key workload.Key, member UID) (planned bool) {
	gs.changeKnown(key, func(g *gang) {
		_, planned = g.placing.planned[member]
		g.drop(member, gs.now)
	})
	return planned
}

// MemberLeaves removes a member that was deleted. It reports whether the member was the leader,
// planned or reserved.
func (gs *Gangs) MemberLeaves(key workload.Key, member UID) (disturbed bool) {
	gs.changeKnown(key, func(g *gang) {
		_, planned := g.placing.planned[member]
		_, reserved := g.placing.reserved[member]
		disturbed = planned || reserved || g.placing.leader == member
		g.drop(member, gs.now)
	})
	return disturbed
}

// drop removes a member from the plan, from the lead and from the reserved members.
func (g *gang) drop(member UID, now func() uint64) {
	g.placing.unplan(member)
	g.placing.unlead(member)
	g.unreserve(member, now)
}

// unreserve makes a member no longer reserved. The members that have nodes then need a look: they
// may have lost the member; see [Group.wasBound].
func (g *gang) unreserve(member UID, now func() uint64) {
	if _, ok := g.placing.reserved[member]; ok {
		delete(g.placing.reserved, member)
		g.touches(now())
	}
}

// release drops the rest of a plan, and makes the given member no longer reserved. It returns the
// members that were still planned. Other reserved members stay: they wait at Permit, and give up
// their nodes themselves. The caller holds the lock.
func (gs *Gangs) release(key workload.Key, member UID) (planned []UID) {
	if r := gs.records[key]; r == nil || r.gang == nil {
		return nil
	}
	gs.transit(key, func(g *gang) {
		planned = g.placing.order
		g.placing.planned, g.placing.order = nil, nil
		g.unreserve(member, gs.now)
	})
	return planned
}

// Failed records that the node of a planned member rejected the member. It reports whether the gang
// is stuck: the previous plan with a rejected member put the same number of members on each node as
// this plan.
func (gs *Gangs) Failed(key workload.Key) (again bool) {
	gs.change(key, func(g *gang) {
		p := &g.placing
		again = p.failed != "" && p.failed == p.plan
		p.failed, p.stuck = p.plan, again
	})
	return again
}

// Unplanned records that planning found no room for a gang in the current state. [Gangs.Failed]
// then does not compare the next plan with the previous one.
func (gs *Gangs) Unplanned(key workload.Key) {
	gs.changeKnown(key, func(g *gang) { g.placing.failed = "" })
}

// SetPodSensitive records whether the gang may fit after a pod is created, or after the labels of a
// pod change.
func (gs *Gangs) SetPodSensitive(key workload.Key, podSensitive bool) {
	gs.change(key, func(g *gang) { g.placing.podSensitive = podSensitive })
}

// PodSensitive returns the value that SetPodSensitive recorded last.
func (gs *Gangs) PodSensitive(key workload.Key) (podSensitive bool) {
	gs.read(key, func(g *gang) { podSensitive = g.placing.podSensitive })
	return podSensitive
}

// SetVerdict records the result of planning a gang.
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

// Verdict returns the result that SetVerdict recorded last.
func (gs *Gangs) Verdict(key workload.Key) (v workload.Verdict) {
	gs.read(key, func(g *gang) { v = g.placing.verdict })
	return v
}

// Judged maps the gangs with a verdict to the reason of that verdict.
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
