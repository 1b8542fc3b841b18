package core

import (
	"cmp"
	"slices"
	"time"
)

// Outcome is the result of a decision for the preemptor.
type Outcome string

const (
	// Fits: there is enough free room now.
	Fits Outcome = "Fits"
	// Waits: there will be enough room when the terminating pods are gone. No unit is evicted.
	Waits Outcome = "Waits"
	// Preempts: there will be enough room when the victims have terminated.
	Preempts Outcome = "Preempts"
	// Infeasible: there is no room for the preemptor, even if all potential victims are evicted.
	Infeasible Outcome = "Infeasible"
)

// Decision is the result of a search, as a value. Other packages apply, display or record it. The
// same input gives the same Decision, byte for byte in JSON.
type Decision struct {
	// Outcome determines which of the fields below are set.
	Outcome Outcome `json:"outcome"`
	// Preemptor is the pod or gang that the decision is for.
	Preemptor Preemptor `json:"preemptor"`
	// Placements has the node of each member, in the order of placement. Each member passes every
	// filter if the victims and all terminating pods are gone and the earlier members are placed.
	// Surplus members without room are omitted.
	Placements []Placement `json:"placements,omitempty"`
	// Victims are the units to evict, most important first.
	Victims []Victim `json:"victims,omitempty"`
	// BrokenGangs are the gangs that fall below minCount because some of their members are victims.
	BrokenGangs []GangRef `json:"brokenGangs,omitempty"`
	// Reprieved counts the potential victims that the decision does not evict.
	Reprieved int `json:"reprieved"`
	// ReprievedUnits names the most important reprieved units on the preemptor's nodes, up to a
	// maximum number.
	ReprievedUnits []UnitRef `json:"reprievedUnits,omitempty"`
	// ElsewhereUnits names the least important reprieved units on other nodes, up to a maximum
	// number. They would have been the first victims on their nodes.
	ElsewhereUnits []ElsewhereUnit `json:"elsewhereUnits,omitempty"`
	// Protected counts the protected units, by the rule that protects them.
	Protected []RuleCount `json:"protected,omitempty"`
	// ProtectedUnits names the least important protected units, up to a maximum number. Without
	// protection, the search would evict these units first.
	ProtectedUnits []ProtectedUnit `json:"protectedUnits,omitempty"`
	// Ceiling is the highest priority among the victims; nil without victims. Units with a higher
	// priority were not at risk of eviction.
	Ceiling *int32 `json:"ceiling,omitempty"`
	// Score is the cost of the victims; nil without victims.
	Score *Score `json:"score,omitempty"`
	// LostWork is the work that is lost, in milli-device-seconds. It is the sum for the victims and
	// for the other members of BrokenGangs. It is set even if the search does not compare lost
	// work.
	LostWork int64 `json:"lostWork,omitempty"`
	// Cascade counts the evictions by the replacements of the victims. It is nil without victims,
	// and if the preemptor does not request the count.
	Cascade *Cascade `json:"cascade,omitempty"`
	// RetryAt is the first time when an infeasible preemptor would fit because protections end, if
	// nothing else changes. It is in nanoseconds since 1970; 0 if waiting does not help.
	RetryAt int64 `json:"retryAt,omitempty"`
	// NodesOut counts, by reason, the nodes that could admit no member even if all potential
	// victims were evicted. If the preemptor has a placement, nodes that the search did not try are
	// omitted.
	NodesOut []ReasonCount `json:"nodesOut,omitempty"`
	// Domain describes the choice of a topology domain, for a gang that requires a domain; nil for
	// others.
	Domain *DomainChoice `json:"domain,omitempty"`
	// Levels describes the choice at each preferred level of a gang, the nearest level first; nil
	// for others.
	Levels []LevelChoice `json:"levels,omitempty"`
	// Message summarizes the decision in one short sentence.
	Message string `json:"message"`
	// Elapsed is the duration of the search, including the calls of the oracle. The caller of
	// Decide sets the field, because package core has no clock.
	Elapsed time.Duration `json:"elapsedNanoseconds,omitempty"`
}

// Placement is the node of one member.
type Placement struct {
	Member string `json:"member"`
	UID    string `json:"uid"`
	Node   string `json:"node"`
}

// Victim is one unit to evict.
type Victim struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Group is true for a whole PodGroup, false for a single pod.
	Group bool `json:"group"`
	// Priority is the priority of the unit as a victim. RaisedBy is the difference between Priority
	// and the unit's scheduling priority.
	Priority int32 `json:"priority"`
	RaisedBy int64 `json:"raisedBy,omitempty"`
	// Rule is the rule that allows the eviction.
	Rule Rule `json:"rule"`
	// Queue is the unit's leaf queue.
	Queue string `json:"queue,omitempty"`
	// LostWork is the work that the pods of this unit lose, in milli-device-seconds.
	LostWork int64 `json:"lostWork,omitempty"`
	// Stops is the number of times that preemptions stopped the unit's group since the group last
	// made progress.
	Stops int32 `json:"stops,omitempty"`
	// Pods are all pods evicted with the unit.
	Pods []VictimPod `json:"pods"`
}

// VictimPod is one pod of a victim.
type VictimPod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Node      string `json:"node,omitempty"`
}

// GangRef names a gang.
type GangRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// MinCount is the number of members that must be able to run together.
	MinCount int `json:"minCount"`
	// LostWork is the work that the members outside of the set of victims lose because the gang
	// stops, in milli-device-seconds.
	LostWork int64 `json:"lostWork,omitempty"`
	// Stops is the number of earlier preemptions that stopped the gang since the gang last made
	// progress.
	Stops int32 `json:"stops,omitempty"`
}

// RuleCount is the number of units that one rule protects.
type RuleCount struct {
	Rule  Rule `json:"rule"`
	Units int  `json:"units"`
}

// ReasonCount is the number of nodes that admit no member for one reason.
type ReasonCount struct {
	Reason string `json:"reason"`
	Nodes  int    `json:"nodes"`
}

// UnitRef names a unit that is not evicted.
type UnitRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Group is true for a whole PodGroup, false for a single pod.
	Group bool `json:"group"`
	// Priority and RaisedBy have the same meaning as in a Victim.
	Priority int32 `json:"priority"`
	RaisedBy int64 `json:"raisedBy,omitempty"`
}

// ElsewhereUnit is a potential victim that is reprieved because the preemptor uses other nodes.
type ElsewhereUnit struct {
	UnitRef
	// Node is the node of the unit. For a group with several nodes, it is the first of them that
	// the search considered.
	Node string `json:"node"`
	// Pods is the number of pods of the unit.
	Pods int `json:"pods"`
	// Start is the time when the unit started, in nanoseconds since 1970; omitted if it has not
	// started.
	Start int64 `json:"start,omitempty"`
}

// ProtectedUnit is a unit that the policy protects.
type ProtectedUnit struct {
	UnitRef
	// Rule is the rule that protects the unit.
	Rule Rule `json:"rule"`
	// Until is the end of the protection, in nanoseconds since 1970; omitted if the protection has
	// no end.
	Until int64 `json:"until,omitempty"`
	// Queue is the queue whose setting protects the unit; empty if the protection is not a queue's.
	Queue string `json:"queue,omitempty"`
}

func refOf(u *Unit) UnitRef {
	return UnitRef{Namespace: u.Namespace, Name: u.Name, UID: u.UID, Group: u.Group, Priority: u.OwnPriority(), RaisedBy: u.RaisedBy}
}

// victimsOf converts units to victims. The pods of each are sorted by namespace and name.
func (sr *search) victimsOf(units []int32, lost *losses) []Victim {
	s, count := sr.s, 0
	for _, i := range units {
		count += len(s.Units[i].Pods)
	}
	out, pods := make([]Victim, 0, len(units)), make([]VictimPod, 0, count)
	for _, i := range units {
		u, verdict := &s.Units[i], judge(sr.policy, i)
		from := len(pods)
		for j := range u.Pods {
			pod := VictimPod{Namespace: u.Pods[j].Namespace, Name: u.Pods[j].Name, UID: u.Pods[j].UID}
			if n := u.Pods[j].Node; n >= 0 {
				pod.Node = s.Nodes[n].Name
			}
			pods = append(pods, pod)
		}
		v := Victim{
			Namespace: u.Namespace, Name: u.Name, UID: u.UID, Group: u.Group,
			Priority: u.OwnPriority(), RaisedBy: u.RaisedBy, Rule: verdict.Rule, Queue: u.queue(), LostWork: lost.of(i), Stops: lost.stopsOf(i),
			Pods: pods[from:len(pods):len(pods)],
		}
		slices.SortFunc(v.Pods, func(a, b VictimPod) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
		})
		out = append(out, v)
	}
	return out
}

// placementsOf assigns a member to each placement of its class. With a stateful oracle, the result
// keeps the order of placement: each member fits after the members before it. Otherwise it is
// sorted: needed members first, then by rank.
func placementsOf(v *problem, placements []placement) []Placement {
	if !v.anyStateful {
		placements = slices.Clone(placements)
		slices.SortStableFunc(placements, func(a, b placement) int { return cmp.Compare(v.c.rank[a.node], v.c.rank[b.node]) })
	}
	members := v.handOut(placements)
	out := make([]Placement, len(placements))
	order := make([]int, len(placements))
	for i, st := range placements {
		out[i] = Placement{Member: members[i].Name, UID: members[i].UID, Node: v.s.Nodes[st.node].Name}
		order[i] = i
	}
	if v.anyStateful {
		return out
	}
	slices.SortFunc(order, func(a, b int) int { return byRank(members[a], members[b]) })
	order = v.p.neededFirst(order, placements)
	sorted := make([]Placement, len(out))
	for i, at := range order {
		sorted[i] = out[at]
	}
	return sorted
}

// handOut returns a member of the right class for each placement. A member that was nominated to
// the node of a placement gets this placement. The other members follow by rank.
func (v *problem) handOut(placements []placement) []*Member {
	nominated := make(map[string]string, len(v.p.Nominated))
	for _, p := range v.p.Nominated {
		nominated[p.UID] = p.Node
	}
	type slots struct {
		class int
		node  string
	}
	keep := make(map[slots][]*Member)
	waiting := make([][]*Member, len(v.p.Classes))
	for c := range v.p.Classes {
		ms := v.p.Classes[c].Members
		for i := range ms {
			waiting[c] = append(waiting[c], &ms[i])
		}
		slices.SortFunc(waiting[c], byRank)
		for _, m := range waiting[c] {
			if node, ok := nominated[m.UID]; ok {
				keep[slots{c, node}] = append(keep[slots{c, node}], m)
			}
		}
	}
	out := make([]*Member, len(placements))
	kept := make(map[*Member]bool)
	for i, st := range placements {
		at := slots{st.class, v.s.Nodes[st.node].Name}
		if ms := keep[at]; len(ms) > 0 {
			out[i], keep[at] = ms[0], ms[1:]
			kept[ms[0]] = true
		}
	}
	for i, st := range placements {
		for out[i] == nil {
			m := waiting[st.class][0]
			waiting[st.class] = waiting[st.class][1:]
			if !kept[m] {
				out[i] = m
			}
		}
	}
	return out
}
