package core

import (
	"cmp"
	"slices"
	"time"
)

// Outcome says what becomes of the preemptor.
type Outcome string

const (
	// Fits: there is room as things are.
	Fits Outcome = "Fits"
	// Waits: there is room once the pods that are leaving have left; nothing more has to go.
	Waits Outcome = "Waits"
	// Preempts: there is room once the victims have left.
	Preempts Outcome = "Preempts"
	// Infeasible: there is no room, whatever may be taken.
	Infeasible Outcome = "Infeasible"
)

// Decision is the one result of a search: a value, which others carry out, show or record. The same input
// gives the same Decision, byte for byte in JSON.
type Decision struct {
	// Outcome says which of the fields below are set.
	Outcome Outcome `json:"outcome"`
	// Preemptor is who asked.
	Preemptor Preemptor `json:"preemptor"`
	// Placements say where each member goes, in an order of placement: each passes every filter given those before it,
	// with the victims and all leaving pods gone. Members of the surplus that found no room are left out.
	Placements []Placement `json:"placements,omitempty"`
	// Victims are the units that have to go, most important first.
	Victims []Victim `json:"victims,omitempty"`
	// BrokenGangs are the gangs that fall below minCount because members of them are victims.
	BrokenGangs []GangRef `json:"brokenGangs,omitempty"`
	// Reprieved counts the units that the policy would have let go and that stay.
	Reprieved int `json:"reprieved"`
	// ReprievedUnits name the most important of them on the nodes that the preemptor gets, up to a cap.
	ReprievedUnits []UnitRef `json:"reprievedUnits,omitempty"`
	// ElsewhereUnits name the least important of them on other nodes, up to a cap: those that would have gone first there.
	ElsewhereUnits []ElsewhereUnit `json:"elsewhereUnits,omitempty"`
	// Protected counts the units that the policy protects, by rule.
	Protected []RuleCount `json:"protected,omitempty"`
	// ProtectedUnits name the least important of them, the ones closest to being taken, up to a cap.
	ProtectedUnits []ProtectedUnit `json:"protectedUnits,omitempty"`
	// Ceiling is the priority above which no unit was at risk; nil unless units were.
	Ceiling *int32 `json:"ceiling,omitempty"`
	// Score is what the victims cost; nil unless there are any.
	Score *Score `json:"score,omitempty"`
	// RetryAt is the first moment at which there would be room for an infeasible preemptor, because protections
	// have ended by then and nothing else stands in the way, in nanoseconds since 1970; 0 where time is no help.
	RetryAt int64 `json:"retryAt,omitempty"`
	// NodesOut counts, by reason, the nodes that could not take a member even with everything eligible gone. Where
	// there is a place, nodes that filters would refuse are counted as far as the search has asked about them.
	NodesOut []ReasonCount `json:"nodesOut,omitempty"`
	// Message is the whole in one short sentence.
	Message string `json:"message"`
	// Elapsed is the time that it took, oracle and all. The core has no clock: its caller fills this in.
	Elapsed time.Duration `json:"elapsedNanoseconds,omitempty"`
}

// Placement puts one member on one node.
type Placement struct {
	Member string `json:"member"`
	UID    string `json:"uid"`
	Node   string `json:"node"`
}

// Victim is one unit that has to go.
type Victim struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Group tells a whole PodGroup from a single pod.
	Group    bool  `json:"group"`
	Priority int32 `json:"priority"`
	// Rule is what allowed it.
	Rule Rule `json:"rule"`
	// Queue is the unit's leaf queue.
	Queue string `json:"queue,omitempty"`
	// Pods are all that go with the unit.
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
}

// RuleCount counts units by the rule that protects them.
type RuleCount struct {
	Rule  Rule `json:"rule"`
	Units int  `json:"units"`
}

// ReasonCount counts nodes by the reason they are out.
type ReasonCount struct {
	Reason string `json:"reason"`
	Nodes  int    `json:"nodes"`
}

// UnitRef names a unit that stays.
type UnitRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Group tells a whole PodGroup from a single pod.
	Group    bool  `json:"group"`
	Priority int32 `json:"priority"`
}

// ElsewhereUnit is a unit that might have been taken, and stays because other nodes than its own were chosen.
type ElsewhereUnit struct {
	UnitRef
	// Node is where it runs; of a group, the first of its nodes that was looked at.
	Node string `json:"node"`
	// Pods is how many would go with it.
	Pods int `json:"pods"`
	// Start is when it started, in nanoseconds since 1970; left out where it has not.
	Start int64 `json:"start,omitempty"`
}

// ProtectedUnit is a unit that the policy protects.
type ProtectedUnit struct {
	UnitRef
	// Rule is what protects it.
	Rule Rule `json:"rule"`
	// Until is the last moment of the protection, in nanoseconds since 1970; left out where it has no end.
	Until int64 `json:"until,omitempty"`
	// Queue is the queue whose setting it is, where it is one's.
	Queue string `json:"queue,omitempty"`
}

func refOf(u *Unit) UnitRef {
	return UnitRef{Namespace: u.Namespace, Name: u.Name, UID: u.UID, Group: u.Group, Priority: u.OwnPriority()}
}

// victimsOf describes units as victims, each with its pods by name.
func (sr *search) victimsOf(units []int32) []Victim {
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
			Priority: u.OwnPriority(), Rule: verdict.Rule, Queue: u.queue(), Pods: pods[from:len(pods):len(pods)],
		}
		slices.SortFunc(v.Pods, func(a, b VictimPod) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
		})
		out = append(out, v)
	}
	return out
}

// placementsOf hands the placements of each class to its members. Where other pods matter, they stay in the order in which
// the members pass; where only room does, any order will do, and they are by rank, as far as they are needed first.
func placementsOf(v *view, placements []placement) []Placement {
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

// handOut gives each placement a member of its class: those that have been nominated to that node before keep it, the
// others are taken by rank.
func (v *view) handOut(placements []placement) []*Member {
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
