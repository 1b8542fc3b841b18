package gang

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Registry keeps, for every gang, where it stands between "its members are complete" and "its members have
// nodes". One Registry serves all profiles of a scheduler. It is safe for concurrent use and never blocks.
//
// A gang without a plan has a leader, the one member that is let through to the scheduling cycle, so that a
// gang costs one planning pass however many members it has. The plan gives each member its node, in an order in which
// each passes the filters given those before it. Members go through their own cycles one after the other in that order,
// become reserved, and wait at Permit until enough of them are through.
type Registry struct {
	mu    sync.Mutex
	gangs map[types.NamespacedName]*standing
	// unresolved says of PodGroups what cannot be filled in.
	unresolved map[types.NamespacedName]Verdict
	// changed is told of every gang whose verdict changes.
	changed func(types.NamespacedName)
}

// standing is where one gang stands.
type standing struct {
	leader types.UID
	// turnedAway are members that led and were turned away before they could plan.
	turnedAway map[types.UID]struct{}
	// takeover lets the next member that comes lead in the leader's place.
	takeover bool
	// planned members have a node in the plan and have not been through their cycle; order has them as they are to go.
	planned map[types.UID]string
	order   []types.UID
	// plan stands for the nodes of the last plan, failed for those of the last one in which a member was refused; stuck is
	// true where that was the same twice; see Failed.
	plan, failed string
	stuck        bool
	// spare is how many of the planned need not be through for the gang to be whole.
	spare int
	// reserved members are assumed on their node; the informer has not shown them there yet.
	reserved map[types.UID]string
	// podSensitive is true where pods that come, or change their labels, may let the gang fit.
	podSensitive bool
	verdict      Verdict
}

// unplan drops a member from the plan.
func (s *standing) unplan(member types.UID) {
	if _, ok := s.planned[member]; ok {
		delete(s.planned, member)
		s.order = slices.DeleteFunc(s.order, func(uid types.UID) bool { return uid == member })
	}
}

// nothing reports that there is nothing to remember of a gang.
func (s *standing) nothing() bool {
	return s.leader == "" && len(s.turnedAway) == 0 && len(s.planned) == 0 && len(s.reserved) == 0 && s.failed == "" && s.verdict == Verdict{}
}

// NewRegistry returns an empty Registry. The function changed is called, without any lock held, with every
// gang whose verdict changes; it must not block.
func NewRegistry(changed func(types.NamespacedName)) *Registry {
	return &Registry{
		gangs:      make(map[types.NamespacedName]*standing),
		unresolved: make(map[types.NamespacedName]Verdict),
		changed:    changed,
	}
}

// update changes the standing of a gang, which starts empty, and forgets it where nothing is left of it.
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

// read looks at the standing of a gang, if there is any.
func (r *Registry) read(key types.NamespacedName, look func(*standing)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.gangs[key]; ok {
		look(s)
	}
}

// Admission says whether a member may go to the scheduling cycle.
type Admission string

const (
	// AdmitPlanned: the plan has a node for the member, and it is the next to go.
	AdmitPlanned Admission = "planned"
	// HoldForOrder: the plan has a node for the member, and others go before it.
	HoldForOrder Admission = "the members that go first are being placed"
	// AdmitLeader: the member goes to plan for all.
	AdmitLeader Admission = "leader"
	// HoldForLeader: another member plans for all.
	HoldForLeader Admission = "another member plans for the gang"
	// HoldForPlan: the plan is being carried out and has no node for the member.
	HoldForPlan Admission = "the members that fit are being placed first"
)

// Admit decides whether a member may go to the scheduling cycle, and makes it the leader where the gang has
// none that can lead.
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

// Yield lets the next member that comes lead in the given one's place, if that is the leader.
func (r *Registry) Yield(key types.NamespacedName, member types.UID) {
	r.update(key, func(s *standing) { s.takeover = s.leader == member })
}

// PassOn takes leadership from a member that was turned away before it could plan, and returns which may try
// next: any member that has not been turned away since Planning was last called.
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

// Planning lets everyone lead again: a leader has come as far as to plan, or all have had their turn.
func (r *Registry) Planning(key types.NamespacedName) {
	r.update(key, func(s *standing) { s.turnedAway = nil })
}

// Idle reports that no member leads the gang, and none is planned.
func (r *Registry) Idle(key types.NamespacedName) bool {
	idle := true
	r.read(key, func(s *standing) { idle = s.leader == "" && len(s.planned) == 0 })
	return idle
}

// Unled lists the gangs of which no member leads and none is planned.
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

// Judged lists the gangs with a verdict, with its reason.
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

// Seat is a member's place in a plan.
type Seat struct {
	Member types.UID
	Node   string
}

// SetPlan records where each member goes, in the order in which they do. A gang that has a plan has no leader.
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

// SetNeeded records how many of those that are planned have to be through for the gang to be whole. As long as that is not known, it is
// taken for none.
func (r *Registry) SetNeeded(key types.NamespacedName, members int) {
	r.update(key, func(s *standing) { s.spare = max(len(s.order)-members, 0) })
}

// Lacks reports whether more of those that are planned have to be through for the gang to be whole.
func (r *Registry) Lacks(key types.NamespacedName) (lacks bool) {
	r.read(key, func(s *standing) { lacks = len(s.order) > s.spare })
	return lacks
}

// nodesOf is the same for plans that put as many members on the same nodes.
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

// Stuck reports that the same plan has been refused twice, and none has been made since: there is no point in another one
// before something changes.
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

// Reserve records that a member is assumed on a node. It reports whether the plan has been carried out with
// it: no other member is planned.
func (r *Registry) Reserve(key types.NamespacedName, member types.UID, node string) (complete bool) {
	r.update(key, func(s *standing) {
		s.unplan(member)
		s.reserved[member] = node
		if complete = len(s.planned) == 0; complete {
			s.failed = ""
		}
		// A member that is through plans no more.
		if s.leader == member {
			s.leader = ""
		}
	})
	return complete
}

// Reserved returns the members that are assumed on a node and not yet seen there.
func (r *Registry) Reserved(key types.NamespacedName) (members []types.UID) {
	r.read(key, func(s *standing) { members = slices.Collect(maps.Keys(s.reserved)) })
	return members
}

// Planned counts the members that have a node in the plan and have not been through their cycle.
func (r *Registry) Planned(key types.NamespacedName) (count int) {
	r.read(key, func(s *standing) { count = len(s.planned) })
	return count
}

// Settled records that a member has been seen on its node. It reports whether the member was planned, and had not been through its
// cycle: others may go now.
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

// Forget drops a member that has gone. It reports whether that takes something from the gang: its leader, or
// a member that was planned or through.
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

// Release takes a plan back: whatever is left of it, and the reservation of the given member, if any. It
// returns the members that were still planned. Others that wait at Permit release themselves in turn.
func (r *Registry) Release(key types.NamespacedName, member types.UID) (planned []types.UID) {
	r.update(key, func(s *standing) {
		planned = slices.Clone(s.order)
		clear(s.planned)
		s.order = s.order[:0]
		delete(s.reserved, member)
	})
	return planned
}

// Failed records that a member was refused where the plan has it, and reports whether the plan before, for the same nodes,
// was refused as well, whichever member goes where. The gang is stuck then.
func (r *Registry) Failed(key types.NamespacedName) (again bool) {
	r.update(key, func(s *standing) {
		again = s.failed != "" && s.failed == s.plan
		s.failed, s.stuck = s.plan, again
	})
	return again
}

// Unplanned records that a gang was looked at and found no room as things are: what is planned for it next is another plan, even for the
// nodes of the last one.
func (r *Registry) Unplanned(key types.NamespacedName) {
	r.update(key, func(s *standing) { s.failed = "" })
}

// SetPodSensitive records whether pods that come, or change their labels, may let the gang fit.
func (r *Registry) SetPodSensitive(key types.NamespacedName, podSensitive bool) {
	r.update(key, func(s *standing) { s.podSensitive = podSensitive })
}

// PodSensitive returns what SetPodSensitive recorded last.
func (r *Registry) PodSensitive(key types.NamespacedName) (podSensitive bool) {
	r.read(key, func(s *standing) { podSensitive = s.podSensitive })
	return podSensitive
}

// SetVerdict records what planning had to say of a gang.
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

// Verdict returns what planning had to say of a gang last.
func (r *Registry) Verdict(key types.NamespacedName) (v Verdict) {
	r.read(key, func(s *standing) { v = s.verdict })
	return v
}

// SetUnresolved records why a PodGroup cannot be filled in, whether it has members or not; the zero Verdict
// that it has been, or has gone. It reports whether that is news.
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

// Unresolved returns what SetUnresolved recorded last.
func (r *Registry) Unresolved(key types.NamespacedName) Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unresolved[key]
}

// Drop forgets a gang that has no members any more.
func (r *Registry) Drop(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.gangs, key)
}

// Len counts the gangs that there is something to remember of.
func (r *Registry) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.gangs)
}
