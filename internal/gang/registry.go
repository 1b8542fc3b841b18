package gang

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Registry tracks each gang from complete members to members with nodes. One Registry serves all
// profiles of a scheduler. It is safe for concurrent use and never blocks.
//
// A gang without a plan has a leader, the one member that is admitted to the scheduling cycle. So a
// gang of any size needs one planning pass. The plan gives each member a node, in an order such
// that each member passes the filters after the ones before it.
//
// The members go through their own cycles in that order. Each becomes reserved and waits at Permit
// until enough members are through.
type Registry struct {
	mu    sync.Mutex
	gangs map[types.NamespacedName]*standing
	// unresolved holds the verdicts on PodGroups with fields that cannot be filled in.
	unresolved map[types.NamespacedName]Verdict
	// changed is called with every gang whose verdict changes.
	changed func(types.NamespacedName)
}

// standing is the progress of one gang.
type standing struct {
	leader types.UID
	// turnedAway are members that led and were rejected before they could plan.
	turnedAway map[types.UID]struct{}
	// takeover lets the next member that arrives replace the leader.
	takeover bool
	// planned holds the nodes of the members that have not been through their cycle. order lists
	// the same members in the order of the plan.
	planned map[types.UID]string
	order   []types.UID
	// plan is a hash of the nodes of the last plan, and failed the hash of the last plan with a
	// rejected member. stuck is true if two such plans in a row were the same; see Failed.
	plan, failed string
	stuck        bool
	// spare is how many planned members the gang can lack and still be whole.
	spare int
	// reserved members are assumed on their node, and the informer has not shown them there yet.
	reserved map[types.UID]string
	// podSensitive is true if pods that are created, or change their labels, may let the gang fit.
	podSensitive bool
	verdict      Verdict
}

// unplan removes a member from the plan.
func (s *standing) unplan(member types.UID) {
	if _, ok := s.planned[member]; ok {
		delete(s.planned, member)
		s.order = slices.DeleteFunc(s.order, func(uid types.UID) bool { return uid == member })
	}
}

// nothing reports whether a standing can be dropped because it is empty.
func (s *standing) nothing() bool {
	return s.leader == "" && len(s.turnedAway) == 0 && len(s.planned) == 0 && len(s.reserved) == 0 && s.failed == "" && s.verdict == Verdict{}
}

// NewRegistry returns an empty Registry. It calls the function changed, without any lock held, with
// every gang whose verdict changes. The function must not block.
func NewRegistry(changed func(types.NamespacedName)) *Registry {
	return &Registry{
		gangs:      make(map[types.NamespacedName]*standing),
		unresolved: make(map[types.NamespacedName]Verdict),
		changed:    changed,
	}
}

// update applies a change to the standing of a gang. It creates a missing standing before and drops
// an empty one after.
func (r *Registry) update(key types.NamespacedName, change func(*standing)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.gangs[key]
	if !ok {
		s = &standing{planned: make(map[types.UID]string), reserved: make(map[types.UID]string)}
		r.gangs[key] = s
	}
	change(s)
	if s.nothing() {
		delete(r.gangs, key)
	}
}

// read calls look with the standing of a gang, if there is one.
func (r *Registry) read(key types.NamespacedName, look func(*standing)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.gangs[key]; ok {
		look(s)
	}
}

// Admission tells whether a member may go to the scheduling cycle, and if not, the reason.
type Admission string

const (
	// AdmitPlanned means that the plan has a node for the member, and the member is next.
	AdmitPlanned Admission = "planned"
	// HoldForOrder means that the plan has a node for the member, and other members go first.
	HoldForOrder Admission = "the members that go first are being placed"
	// AdmitLeader means that the member plans for the gang.
	AdmitLeader Admission = "leader"
	// HoldForLeader means that another member plans for the gang.
	HoldForLeader Admission = "another member plans for the gang"
	// HoldForPlan means that a plan is in progress and has no node for the member.
	HoldForPlan Admission = "the members that fit are being placed first"
)

// Admit decides whether a member may go to the scheduling cycle. It makes the member the leader if
// the gang has neither a plan nor a leader that can lead.
func (r *Registry) Admit(key types.NamespacedName, member types.UID, canLead func(types.UID) bool) Admission {
	admission := AdmitLeader
	r.update(key, func(s *standing) {
		_, planned := s.planned[member]
		switch {
		case planned && s.order[0] == member:
			admission = AdmitPlanned
		case planned:
			admission = HoldForOrder
		case len(s.planned) > 0:
			admission = HoldForPlan
		case s.leader != member && s.leader != "" && !s.takeover && canLead(s.leader):
			admission = HoldForLeader
		default:
			s.leader, s.takeover = member, false
		}
	})
	return admission
}

// Leader returns the member that plans for the gang, or "".
func (r *Registry) Leader(key types.NamespacedName) (leader types.UID) {
	r.read(key, func(s *standing) { leader = s.leader })
	return leader
}

// Yield lets the next member that arrives replace the given one, if that is the leader.
func (r *Registry) Yield(key types.NamespacedName, member types.UID) {
	r.update(key, func(s *standing) { s.takeover = s.takeover || s.leader == member })
}

// PassOn removes a leader that was rejected before it could plan. It returns a function that
// reports whether a member may lead next: it was not rejected since the last call of Planning.
func (r *Registry) PassOn(key types.NamespacedName, leader types.UID) (mayLead func(types.UID) bool) {
	tried := map[types.UID]struct{}{}
	r.update(key, func(s *standing) {
		if s.leader == leader {
			s.leader, s.takeover = "", false
		}
		if s.turnedAway == nil {
			s.turnedAway = make(map[types.UID]struct{})
		}
		s.turnedAway[leader] = struct{}{}
		tried = maps.Clone(s.turnedAway)
	})
	return func(uid types.UID) bool {
		_, was := tried[uid]
		return !was
	}
}

// Planning lets every member lead again. Call it once a leader has reached planning, or all members
// have been tried.
func (r *Registry) Planning(key types.NamespacedName) {
	r.update(key, func(s *standing) { s.turnedAway = nil })
}

// Idle reports whether the gang has no leader and no planned member.
func (r *Registry) Idle(key types.NamespacedName) bool {
	idle := true
	r.read(key, func(s *standing) { idle = s.leader == "" && len(s.planned) == 0 })
	return idle
}

// Unled lists the gangs without a leader and without planned members.
func (r *Registry) Unled() []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []types.NamespacedName
	for key, s := range r.gangs {
		if s.leader == "" && len(s.planned) == 0 {
			out = append(out, key)
		}
	}
	return out
}

// Judged returns the gangs with a verdict, each with the verdict's reason.
func (r *Registry) Judged() map[types.NamespacedName]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[types.NamespacedName]string)
	for key, s := range r.gangs {
		if s.verdict.Reason != "" {
			out[key] = s.verdict.Reason
		}
	}
	return out
}

// PlannedNode returns the node that the plan has for a member.
func (r *Registry) PlannedNode(key types.NamespacedName, member types.UID) (node string, ok bool) {
	r.read(key, func(s *standing) { node, ok = s.planned[member] })
	return node, ok
}

// Seat is the node of one member in a plan.
type Seat struct {
	Member types.UID
	Node   string
}

// SetPlan records the plan of a gang, in the given order. A gang with a plan has no leader. Until
// SetNeeded is called, no planned member counts as needed.
func (r *Registry) SetPlan(key types.NamespacedName, seats []Seat) {
	r.update(key, func(s *standing) {
		clear(s.planned)
		s.order, s.stuck = s.order[:0], false
		s.plan, s.spare = nodesOf(seats), len(seats)
		for _, seat := range seats {
			s.planned[seat.Member] = seat.Node
			s.order = append(s.order, seat.Member)
		}
		s.leader, s.takeover = "", false
	})
}

// SetNeeded records how many planned members must still be through for the gang to be whole.
func (r *Registry) SetNeeded(key types.NamespacedName, members int) {
	r.update(key, func(s *standing) { s.spare = max(len(s.order)-members, 0) })
}

// Lacks reports whether more planned members must be through for the gang to be whole.
func (r *Registry) Lacks(key types.NamespacedName) (lacks bool) {
	r.read(key, func(s *standing) { lacks = len(s.order) > s.spare })
	return lacks
}

// nodesOf returns a hash of the nodes of a plan. It is the same for plans that put the same number
// of members on each node.
func nodesOf(seats []Seat) string {
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
func (r *Registry) Stuck(key types.NamespacedName) (stuck bool) {
	r.read(key, func(s *standing) { stuck = s.stuck })
	return stuck
}

// Next returns the planned member that goes next, or "".
func (r *Registry) Next(key types.NamespacedName) (member types.UID) {
	r.read(key, func(s *standing) {
		if len(s.order) > 0 {
			member = s.order[0]
		}
	})
	return member
}

// Reserve records that a member is assumed on a node. It reports whether that completes the plan:
// no other member is planned.
func (r *Registry) Reserve(key types.NamespacedName, member types.UID, node string) (complete bool) {
	r.update(key, func(s *standing) {
		s.unplan(member)
		s.reserved[member] = node
		if complete = len(s.planned) == 0; complete {
			s.failed = ""
		}
		// A member that is assumed no longer plans.
		if s.leader == member {
			s.leader = ""
		}
	})
	return complete
}

// Reserved returns the members that are assumed on a node, and that the informer has not shown
// there yet.
func (r *Registry) Reserved(key types.NamespacedName) (members []types.UID) {
	r.read(key, func(s *standing) { members = slices.Collect(maps.Keys(s.reserved)) })
	return members
}

// Planned counts the members that have a node in the plan and have not been through their cycle.
func (r *Registry) Planned(key types.NamespacedName) (count int) {
	r.read(key, func(s *standing) { count = len(s.planned) })
	return count
}

// Settled records that the informer has shown a member on its node. It reports whether the member
// was still planned. Its own cycle will not come, so the caller must let the next member go.
func (r *Registry) Settled(key types.NamespacedName, member types.UID) (planned bool) {
	r.update(key, func(s *standing) {
		_, planned = s.planned[member]
		delete(s.reserved, member)
		s.unplan(member)
		if s.leader == member {
			s.leader = ""
		}
	})
	return planned
}

// Forget drops a member that is gone. It reports whether that affects the gang: the member was the
// leader, planned or reserved.
func (r *Registry) Forget(key types.NamespacedName, member types.UID) (disturbed bool) {
	r.update(key, func(s *standing) {
		_, planned := s.planned[member]
		_, reserved := s.reserved[member]
		disturbed = planned || reserved || s.leader == member
		s.unplan(member)
		delete(s.reserved, member)
		if s.leader == member {
			s.leader = ""
		}
	})
	return disturbed
}

// Release drops the rest of a plan, and the reservation of the given member, if any. It returns the
// members that were still planned. Other members that wait at Permit release themselves in turn.
func (r *Registry) Release(key types.NamespacedName, member types.UID) (planned []types.UID) {
	r.update(key, func(s *standing) {
		planned = slices.Clone(s.order)
		clear(s.planned)
		s.order = s.order[:0]
		delete(s.reserved, member)
	})
	return planned
}

// Failed records that a planned member was rejected on its node. It reports whether the last plan
// with a rejected member had the same nodes, in any assignment to members. If so, the gang is
// stuck.
func (r *Registry) Failed(key types.NamespacedName) (again bool) {
	r.update(key, func(s *standing) {
		again = s.failed != "" && s.failed == s.plan
		s.failed, s.stuck = s.plan, again
	})
	return again
}

// Unplanned records that planning found no room for a gang in the current state. The next plan
// counts as different from the last one, even if the nodes are the same.
func (r *Registry) Unplanned(key types.NamespacedName) {
	r.update(key, func(s *standing) { s.failed = "" })
}

// SetPodSensitive records whether pods that are created, or change their labels, may let the gang
// fit.
func (r *Registry) SetPodSensitive(key types.NamespacedName, podSensitive bool) {
	r.update(key, func(s *standing) { s.podSensitive = podSensitive })
}

// PodSensitive returns the value of the last SetPodSensitive.
func (r *Registry) PodSensitive(key types.NamespacedName) (podSensitive bool) {
	r.read(key, func(s *standing) { podSensitive = s.podSensitive })
	return podSensitive
}

// SetVerdict records the verdict of planning on a gang.
func (r *Registry) SetVerdict(key types.NamespacedName, v Verdict) {
	same := true
	r.update(key, func(s *standing) {
		same = s.verdict == v
		s.verdict = v
	})
	if !same {
		r.changed(key)
	}
}

// Verdict returns the last verdict of planning on a gang.
func (r *Registry) Verdict(key types.NamespacedName) (v Verdict) {
	r.read(key, func(s *standing) { v = s.verdict })
	return v
}

// SetUnresolved records why a PodGroup cannot be filled in, even if the group has no members. The
// zero Verdict means that the PodGroup is filled in or gone. It reports whether the verdict
// changed.
func (r *Registry) SetUnresolved(key types.NamespacedName, v Verdict) (news bool) {
	r.mu.Lock()
	news = r.unresolved[key] != v
	if v == (Verdict{}) {
		delete(r.unresolved, key)
	} else {
		r.unresolved[key] = v
	}
	r.mu.Unlock()
	if news {
		r.changed(key)
	}
	return news
}

// Unresolved returns the verdict of the last SetUnresolved.
func (r *Registry) Unresolved(key types.NamespacedName) Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unresolved[key]
}

// Drop removes a gang without members. Its verdict of SetUnresolved stays.
func (r *Registry) Drop(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.gangs, key)
}

// Len returns the number of gangs with a standing that is not empty.
func (r *Registry) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.gangs)
}
