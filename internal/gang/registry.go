package gang

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Registry keeps, for every gang, where it stands between "its members are complete" and "its members have
// nodes". One Registry serves all profiles of a scheduler. It is safe for concurrent use and never blocks.
//
// A gang without a plan has a leader, the one member that is let through to the scheduling cycle, so that a
// gang costs one planning pass however many members it has. The plan gives each member its node; members
// then go through their own cycles, become reserved, and wait at Permit until enough of them are through.
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
	// planned members have a node in the plan and have not been through their cycle.
	planned map[types.UID]string
	// reserved members are assumed on their node; the informer has not shown them there yet.
	reserved map[types.UID]string
	// evicting is true while calls that make room for the gang are under way.
	evicting bool
	// minding is true where pods that come, or change their labels, may let the gang fit.
	minding bool
	verdict Verdict
}

// nothing reports that there is nothing to remember of a gang.
func (s *standing) nothing() bool {
	return s.leader == "" && len(s.turnedAway) == 0 && len(s.planned) == 0 && len(s.reserved) == 0 &&
		!s.evicting && s.verdict == Verdict{}
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
	// AdmitPlanned: the plan has a node for the member.
	AdmitPlanned Admission = "planned"
	// AdmitLeader: the member goes to plan for all.
	AdmitLeader Admission = "leader"
	// HoldForLeader: another member plans for all.
	HoldForLeader Admission = "another member plans for the gang"
	// HoldForPlan: the plan is being carried out and has no node for the member.
	HoldForPlan Admission = "the members that fit are being placed first"
	// HoldForEviction: room is being made for the gang.
	HoldForEviction Admission = "room is being made for the gang"
)

// Admit decides whether a member may go to the scheduling cycle, and makes it the leader where the gang has
// none that can lead.
func (r *Registry) Admit(key types.NamespacedName, member types.UID, canLead func(types.UID) bool) Admission {
	admission := AdmitLeader
	r.update(key, func(s *standing) {
		_, planned := s.planned[member]
		switch {
		case s.evicting:
			admission = HoldForEviction
		case planned:
			admission = AdmitPlanned
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

// PassOn takes leadership from a member that was turned away before it could plan, and returns who may try
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

// Idle reports that nobody leads the gang and nothing is under way for it.
func (r *Registry) Idle(key types.NamespacedName) bool {
	idle := true
	r.read(key, func(s *standing) { idle = s.leader == "" && len(s.planned) == 0 && !s.evicting })
	return idle
}

// PlannedNode returns the node that the plan has for a member.
func (r *Registry) PlannedNode(key types.NamespacedName, member types.UID) (node string, ok bool) {
	r.read(key, func(s *standing) { node, ok = s.planned[member] })
	return node, ok
}

// SetPlan records where each member goes. Nobody leads a gang that has a plan.
func (r *Registry) SetPlan(key types.NamespacedName, nodes map[types.UID]string) {
	r.update(key, func(s *standing) {
		s.planned = maps.Clone(nodes)
		s.leader, s.takeover = "", false
	})
}

// Reserve records that a member is assumed on a node. It reports whether the plan has been carried out with
// it: nobody else is planned.
func (r *Registry) Reserve(key types.NamespacedName, member types.UID, node string) (complete bool) {
	r.update(key, func(s *standing) {
		delete(s.planned, member)
		s.reserved[member] = node
		complete = len(s.planned) == 0
		// A member that is through plans for nobody.
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

// Settled records that a member has been seen on its node.
func (r *Registry) Settled(key types.NamespacedName, member types.UID) {
	r.update(key, func(s *standing) {
		delete(s.reserved, member)
		delete(s.planned, member)
		if s.leader == member {
			s.leader = ""
		}
	})
}

// Forget drops a member that has gone. It reports whether that takes something from the gang: its leader, or
// a member that was planned or through.
func (r *Registry) Forget(key types.NamespacedName, member types.UID) (disturbed bool) {
	r.update(key, func(s *standing) {
		_, planned := s.planned[member]
		_, reserved := s.reserved[member]
		disturbed = planned || reserved || s.leader == member
		delete(s.planned, member)
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
		planned = slices.Collect(maps.Keys(s.planned))
		clear(s.planned)
		delete(s.reserved, member)
	})
	return planned
}

// StartEviction gates the gang while room is made for it.
func (r *Registry) StartEviction(key types.NamespacedName) {
	r.update(key, func(s *standing) { s.evicting = true })
}

// EndEviction lets the gang through again.
func (r *Registry) EndEviction(key types.NamespacedName) {
	r.update(key, func(s *standing) { s.evicting = false })
}

// Evicting reports whether room is being made for the gang.
func (r *Registry) Evicting(key types.NamespacedName) (evicting bool) {
	r.read(key, func(s *standing) { evicting = s.evicting })
	return evicting
}

// SetMinding records whether pods that come, or change their labels, may let the gang fit.
func (r *Registry) SetMinding(key types.NamespacedName, minding bool) {
	r.update(key, func(s *standing) { s.minding = minding })
}

// Minding returns what SetMinding recorded last.
func (r *Registry) Minding(key types.NamespacedName) (minding bool) {
	r.read(key, func(s *standing) { minding = s.minding })
	return minding
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
