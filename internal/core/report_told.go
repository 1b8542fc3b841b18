package core

import (
	"fmt"
	"strings"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// mostTold bounds how many victims Taking names.
const mostTold = 5

// WhyTaken returns the message for a victim, with its preemptor and the rule. Conditions, events
// and commands use this text.
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
		// Priority does not matter for reclaim.
		said += fmt.Sprintf("; queue %s%s%s%s", d.Preemptor.Queue, takesBack, v.Queue, beyondShare)
	case v.Queue != "":
		said += toldQueue + v.Queue
	}
	return said
}

// ToldPriority returns the priority of a potential victim as a phrase. raisedBy is its excess over
// the unit's scheduling priority.
func ToldPriority(priority int32, raisedBy int64) string {
	if raisedBy == 0 {
		return fmt.Sprint(priority)
	}
	return fmt.Sprintf("%d, raised from %d by its preemptionPriorityClassName", priority, int64(priority)-raisedBy)
}

// Parts of WhyTaken's message around the victim's queue.
const (
	takesBack   = " takes back what queue "
	beyondShare = " has beyond its fair share or its quota"
	toldQueue   = "; the victim is in queue "
)

// QueueTold extracts the victim's leaf queue from a message of WhyTaken or ToldMember. It returns
// "" if the message names no queue.
func QueueTold(message string) string {
	_, rest, found := strings.Cut(message, takesBack)
	if !found {
		_, rest, _ = strings.Cut(message, toldQueue)
	}
	// A name of a queue contains no space and none of the punctuation that can follow it here.
	if end := strings.IndexAny(rest, " ;,"); end >= 0 {
		rest = rest[:end]
	}
	return rest
}

// goesWith precedes the group in the message for a member of a group that is evicted as a whole.
const goesWith = "; it goes with "

// ToldMember returns the message for a pod of a group that is evicted as a whole. It is the group's
// message from WhyTaken, then the group's kind and name.
func ToldMember(whyTaken, namespace, name string) string {
	kind, name := workload.GroupKind(name)
	return whyTaken + goesWith + kind + " " + namespace + "/" + name
}

// GroupTold extracts the kind of the group and the group, as NAMESPACE/NAME, from a message of
// ToldMember. It returns "" for other messages.
func GroupTold(message string) (kind, group string) {
	_, rest, _ := strings.Cut(message, goesWith)
	rest, _, _ = strings.Cut(rest, ",")
	kind, group, _ = strings.Cut(rest, " ")
	return kind, group
}

// Taking returns the message for the preemptor: the nodes where it fits, and the units that are
// evicted for it.
func (d *Decision) Taking() string {
	names := make([]string, len(d.Victims))
	for i := range d.Victims {
		names[i] = d.Victims[i].Namespace + "/" + d.Victims[i].Name
	}
	return fmt.Sprintf("%s: %v", d.Message, FewNames(names, mostTold))
}
