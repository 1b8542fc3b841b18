package core

import (
	"fmt"
	"strings"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// need describes the missing room of an infeasible preemptor, for its message.
type need struct {
	// where is a phrase for the domain that the message describes; "" for the whole cluster.
	where           string
	members, placed int
	// when is a phrase that says whether all potential victims count as evicted.
	when string
	// resource is the scarcest resource for the only class. It is empty if the class does not fail
	// because of a single resource.
	resource string
	amount   int64
	// perNode is true if no node has the capacity for two members.
	perNode bool
	// nodes is the number of nodes.
	nodes int
	// but is the reason why the preemptor must not use the room, although it is enough; empty for
	// none.
	but string
	// unplaceable describes the members that no node admits, regardless of room; "" for none.
	unplaceable string
}

// sentence describes the missing room. Example: "needs 8 nvidia.com/gpu on 4 nodes; 3 nodes have
// them after preemption".
func (m *need) sentence(d *Decision) string {
	var msg string
	switch {
	case m.nodes == 0:
		msg = "there are no nodes"
	case m.but != "":
		msg = "there could be room, but " + m.but
	case m.resource == "" && d.Preemptor.Gang:
		msg = fmt.Sprintf("needs room for %s; %d have it %s", plural(m.members, "member"), m.placed, m.when)
	case m.resource == "":
		msg = "no node has room " + m.when
	case m.perNode || !d.Preemptor.Gang:
		msg = fmt.Sprintf("needs %s %s on %s; %s %s", fairshare.Format(m.resource, m.amount), m.resource,
			plural(m.members, "node"), nodesHave(m.placed), m.when)
	case m.members == 1:
		msg = fmt.Sprintf("needs %s %s for 1 member; no node has them %s", fairshare.Format(m.resource, m.amount), m.resource, m.when)
	default:
		msg = fmt.Sprintf("needs %s %s for each of %s; %d have room %s", fairshare.Format(m.resource, m.amount),
			m.resource, plural(m.members, "member"), m.placed, m.when)
	}
	if m.but == "" {
		msg = m.where + msg + m.unplaceable
	}
	switch {
	case d.Preemptor.FurtherGroup:
		msg += "; nothing is preempted for groups past minGroupCount"
	case d.Preemptor.Never:
		msg += "; preemptionPolicy Never forbids taking any"
	case d.Preemptor.BacksOff:
		msg += "; it backs off from preempting"
	case d.Preemptor.Gang && d.Preemptor.MinCount == 0 && m.nodes > 0:
		msg += "; nothing is preempted for members past minCount"
	}
	if len(d.NodesOut) == 0 {
		return msg
	}
	parts := make([]string, len(d.NodesOut))
	for i, r := range d.NodesOut {
		parts[i] = fmt.Sprintf("%d %s", r.Nodes, r.Reason)
	}
	return fmt.Sprintf("%s (of %s: %s)", msg, plural(m.nodes, "node"), strings.Join(parts, ", "))
}

func nodesHave(n int) string {
	switch n {
	case 0:
		return "no node has them"
	case 1:
		return "1 node has them"
	default:
		return fmt.Sprintf("%d nodes have them", n)
	}
}

// sentence returns the one-line summary of a decision.
func sentence(d *Decision) string {
	who := "pod"
	if d.Preemptor.Gang {
		who = fmt.Sprintf("gang of %d", len(d.Placements))
	}
	nodes := make(map[string]bool)
	for _, p := range d.Placements {
		nodes[p.Node] = true
	}
	where := fmt.Sprintf("%d nodes", len(nodes))
	if len(nodes) == 1 {
		where = d.Placements[0].Node
	}
	where += d.Domain.whereIn()
	switch d.Outcome {
	case Fits:
		return fmt.Sprintf("%s fits on %s", who, where)
	case Waits:
		return fmt.Sprintf("%s fits on %s once leaving pods are gone", who, where)
	default:
		msg := fmt.Sprintf("%s fits on %s once %s gone", who, where, victimPhrase(d.Victims))
		if d.Score != nil && d.Score.BrokenBudgets > 0 {
			msg += fmt.Sprintf("; %s a disruption budget", verb(d.Score.BrokenBudgets, "eviction breaks", "evictions break"))
		}
		if len(d.BrokenGangs) > 0 {
			msg += "; " + brokenPhrase(d.BrokenGangs)
		}
		if d.Preemptor.Order == OrderLostWork && d.LostWork > 0 {
			msg += "; " + hoursPhrase(d.LostWork) + " of work are lost"
		}
		return msg + d.Domain.nextBest()
	}
}

// namedGangs is the maximum number of gangs that a message names.
const namedGangs = 3

// brokenPhrase names gangs, for example "gang ns/a falls below minCount".
func brokenPhrase(gangs []GangRef) string {
	names := make([]string, min(len(gangs), namedGangs))
	for i := range names {
		names[i] = gangs[i].Namespace + "/" + gangs[i].Name
	}
	switch more := len(gangs) - len(names); {
	case len(gangs) == 1:
		return "gang " + names[0] + " falls below minCount"
	case more > 0:
		return fmt.Sprintf("gangs %s and %d more fall below minCount", strings.Join(names, ", "), more)
	default:
		last := len(names) - 1
		return fmt.Sprintf("gangs %s and %s fall below minCount", strings.Join(names[:last], ", "), names[last])
	}
}

// victimPhrase returns the number of victims, for example "1 group (4 pods) and 3 pods are".
func victimPhrase(victims []Victim) string {
	groups, inGroups, pods := 0, 0, 0
	for i := range victims {
		if victims[i].Group {
			groups++
			inGroups += len(victims[i].Pods)
		} else {
			pods += len(victims[i].Pods)
		}
	}
	var parts []string
	if groups > 0 {
		parts = append(parts, fmt.Sprintf("%s (%s)", plural(groups, "group"), plural(inGroups, "pod")))
	}
	if pods > 0 {
		parts = append(parts, plural(pods, "pod"))
	}
	are := "are"
	if groups+pods == 1 {
		are = "is"
	}
	return strings.Join(parts, " and ") + " " + are
}

func plural(n int, noun string) string { return verb(n, noun, noun+"s") }

func verb(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
