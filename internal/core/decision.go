package core

import (
	"cmp"
	"slices"
	"time"
)

// Outcome is the result for the preemptor.
type Outcome string

const (
	// Fits: there is room as things are.
	Fits Outcome = "Fits"
	// Waits: there is room once the terminating pods are gone; nothing more is evicted.
	Waits Outcome = "Waits"
	// Preempts: there is room once the victims have terminated.
	Preempts Outcome = "Preempts"
	// Infeasible: there is no room for the preemptor, even if all potential victims are evicted.
	Infeasible Outcome = "Infeasible"
)

// Decision is the result of a search, as a value that others carry out, show or record. The same
// input gives the same Decision, byte for byte in JSON.
type Decision struct {
	// Outcome determines which of the fields below are set.
	Outcome Outcome `json:"outcome"`
	// Preemptor is the pod or gang that the decision is for.
	Preemptor Preemptor `json:"preemptor"`
	// Placements has the node of each member, in the order of placement. With the victims and all
	// terminating pods gone, each member passes every filter next to the members before it. Surplus
	// members without room are omitted.
	Placements []Placement `json:"placements,omitempty"`
	// Victims are the units to evict, most important first.
	Victims []Victim `json:"victims,omitempty"`
	// BrokenGangs are the gangs that fall below minCount because members of them are victims.
	BrokenGangs []GangRef `json:"brokenGangs,omitempty"`
	// Reprieved counts the potential victims that the decision does not evict.
	Reprieved int `json:"reprieved"`
	// ReprievedUnits names the most important reprieved units on the preemptor's nodes, up to a
	// maximum number.
	ReprievedUnits []UnitRef `json:"reprievedUnits,omitempty"`
	// ElsewhereUnits names the least important reprieved units on other nodes, up to a maximum
	// number. These units would be the first victims there.
	ElsewhereUnits []ElsewhereUnit `json:"elsewhereUnits,omitempty"`
	// Protected counts the units that the policy protects, by rule.
	Protected []RuleCount `json:"protected,omitempty"`
	// ProtectedUnits names the least important protected units, which are the closest to eviction,
	// up to a maximum number.
	ProtectedUnits []ProtectedUnit `json:"protectedUnits,omitempty"`
	// Ceiling is the highest priority of units that were at risk of eviction; nil if none were.
	Ceiling *int32 `json:"ceiling,omitempty"`
	// Score is the cost of the victims; nil without victims.
	Score *Score `json:"score,omitempty"`
	// LostWork is the total lost work, in milli-device-seconds: of the victims, and of the other
	// members of BrokenGangs. It is set even if the order does not count lost work.
	LostWork int64 `json:"lostWork,omitempty"`
	// Cascade counts the evictions by the replacements of the victims. It is nil without victims,
	// or if the preemptor does not request the count.
	Cascade *Cascade `json:"cascade,omitempty"`
	// RetryAt is the first moment when an infeasible preemptor would fit because protections have
	// ended, if nothing else changes. It is in nanoseconds since 1970; 0 if waiting does not help.
	RetryAt int64 `json:"retryAt,omitempty"`
	// NodesOut counts, by reason, the nodes that could not admit a member even if all potential
	// victims were evicted. If the preemptor has a placement, it omits nodes that the search did
	// not ask the filters about.
	NodesOut []ReasonCount `json:"nodesOut,omitempty"`
	// Domain describes the choice between domains, for a gang that requires one; nil for others.
	Domain *DomainChoice `json:"domain,omitempty"`
	// Levels describes the choice at each preferred level of a gang, the nearest level first; nil
	// for others.
	Levels []LevelChoice `json:"levels,omitempty"`
	// Message summarizes the decision in one short sentence.
	Message string `json:"message"`
	// Elapsed is the duration of the search, oracle included. The core has no clock: its caller
	// sets the field.
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
	// Priority is the priority of the unit as a victim. RaisedBy is its excess over the unit's
	// scheduling priority.
	Priority int32 `json:"priority"`
	RaisedBy int64 `json:"raisedBy,omitempty"`
	// Rule is the rule that allows it.
	Rule Rule `json:"rule"`
	// Queue is the unit's leaf queue.
	Queue string `json:"queue,omitempty"`
	// LostWork is the work that the pods of this unit lose, in milli-device-seconds.
	LostWork int64 `json:"lostWork,omitempty"`
	// Stops is how often preemptions stopped the unit's group before, since it last made progress.
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
	// MinCount is how many members the gang needs.
	MinCount int `json:"minCount"`
	// LostWork is the work that the gang's other members lose because the gang stops, in
	// milli-device-seconds.
	LostWork int64 `json:"lostWork,omitempty"`
	// Stops is how often preemptions stopped the gang before, since it last made progress.
	Stops int32 `json:"stops,omitempty"`
}

// RuleCount counts units by the rule that protects them.
type RuleCount struct {
	Rule  Rule `json:"rule"`
	Units int  `json:"units"`
}

// ReasonCount counts nodes by the reason why they admit no member.
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

// ElsewhereUnit is a potential victim that is not evicted because nodes other than its own were
// chosen.
type ElsewhereUnit struct {
	UnitRef
	// Node is the node of the unit. For a group, it is the first of its nodes that the search
	// looked at.
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
	// Rule is the rule that protects it.
	Rule Rule `json:"rule"`
	// Until is the end of the protection, in nanoseconds since 1970; omitted if the protection has
	// no end.
	Until int64 `json:"until,omitempty"`
	// Queue is the queue with the setting that protects the unit; empty if no queue does.
	Queue string `json:"queue,omitempty"`
}

func refOf(u *Unit) UnitRef {
	return UnitRef{Namespace: u.Namespace, Name: u.Name, UID: u.UID, Group: u.Group, Priority: u.OwnPriority(), RaisedBy: u.RaisedBy}
}

// victimsOf returns units as victims, each with its pods by name.
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

// placementsOf assigns a member to each placement of a class. If the oracle is stateful, the result
// keeps an order such that each member fits. Otherwise members are sorted by rank, needed members
// first.
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
// the node of a placement gets that placement. The others follow by rank.
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
