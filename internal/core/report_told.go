package core

import (
	"fmt"
	"strings"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// mostTold is the maximum number of victims in the message of Taking.
const mostTold = 5

// WhyTaken returns the message for a victim, with the preemptor and the rule. Conditions, events
// and commands contain this message.
func (d *Decision) WhyTaken(v *Victim) string {
	kind, name := "Pod", d.Preemptor.Name
	if d.Preemptor.Gang {
		kind, name = workload.GroupKind(name)
	}
	said := fmt.Sprintf("preempted by %s %s/%s (priority %d): %s, the victim's priority is %s",
		kind, d.Preemptor.Namespace, name, d.Preemptor.Priority, v.Rule, ToldPriority(v.Priority, v.RaisedBy))
	switch {
	case v.Rule == RuleStaleGang:
		said += "; it has had fewer members than it needs for too long, and gives up the room of the others"
		if v.Queue != "" {
			said += toldQueue + v.Queue
		}
	case v.Rule == RuleReclaim:
		// Reclaim does not depend on priority.
		said += fmt.Sprintf("; queue %s%s%s%s", d.Preemptor.Queue, takesBack, v.Queue, beyondShare)
	case v.Queue != "":
		said += toldQueue + v.Queue
	}
	return said
}

// ToldPriority returns the priority of a potential victim as a phrase. raisedBy is the difference
// between this priority and the unit's scheduling priority.
func ToldPriority(priority int32, raisedBy int64) string {
	if raisedBy == 0 {
		return fmt.Sprint(priority)
	}
	return fmt.Sprintf("%d, raised from %d by its preemptionPriorityClassName", priority, int64(priority)-raisedBy)
}

// The parts of WhyTaken's message before and after the name of the victim's queue. QueueTold uses
// them to find the name.
const (
	takesBack   = " takes back what queue "
	beyondShare = " has beyond its fair share or its quota"
	toldQueue   = "; the victim is in queue "
)

// QueueTold extracts the name of the victim's leaf queue from a message of WhyTaken or ToldMember.
// It returns "" if the message contains no queue.
func QueueTold(message string) string {
	_, rest, found := strings.Cut(message, takesBack)
	if !found {
		_, rest, _ = strings.Cut(message, toldQueue)
	}
	// The name of a queue contains none of these characters.
	if end := strings.IndexAny(rest, " ;,"); end >= 0 {
		rest = rest[:end]
	}
	return rest
}

// goesWith separates the two parts of a message of ToldMember.
const goesWith = "; it goes with "

// ToldMember returns the message for a pod of a group that is evicted as a whole. It is the group's
// message from WhyTaken, with the kind and name of the group appended.
func ToldMember(whyTaken, namespace, name string) string {
	kind, name := workload.GroupKind(name)
	return whyTaken + goesWith + kind + " " + namespace + "/" + name
}

// GroupTold extracts the kind and the NAMESPACE/NAME of the group from a message of ToldMember. It
// returns empty strings for other messages.
func GroupTold(message string) (kind, group string) {
	_, rest, _ := strings.Cut(message, goesWith)
	rest, _, _ = strings.Cut(rest, ",")
	kind, group, _ = strings.Cut(rest, " ")
	return kind, group
}

// Taking returns the message for the preemptor: the nodes where it fits, and the units that are
// evicted.
func (d *Decision) Taking() string {
	names := make([]string, len(d.Victims))
	for i := range d.Victims {
		names[i] = d.Victims[i].Namespace + "/" + d.Victims[i].Name
	}
	return fmt.Sprintf("%s: %v", d.Message, FewNames(names, mostTold))
}
