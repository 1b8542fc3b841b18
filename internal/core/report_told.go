package core

import (
	"fmt"
	"strings"
)

// mostTold bounds how many victims Taking names.
const mostTold = 5

// WhyTaken says to a victim of the decision which preemptor takes it, and by which rule. Conditions, events and commands use
// these words.
func (d *Decision) WhyTaken(v *Victim) string {
	kind := "Pod"
	if d.Preemptor.Gang {
		kind = "PodGroup"
	}
	said := fmt.Sprintf("preempted by %s %s (priority %d): %s, the victim's priority is %d", kind, d.Preemptor.Key(), d.Preemptor.Priority, v.Rule, v.Priority)
	switch {
	case v.Rule == RuleStaleGang:
		said += "; it has had fewer members than it needs for too long, and gives up the room of the others"
		if v.Queue != "" {
			said += toldQueue + v.Queue
		}
	case v.Rule == RuleReclaim:
		// Priority has no say in it.
		said += fmt.Sprintf("; queue %s%s%s%s", d.Preemptor.Queue, takesBack, v.Queue, beyondShare)
	case v.Queue != "":
		said += toldQueue + v.Queue
	}
	return said
}

// The words of WhyTaken around the victim's queue.
const (
	takesBack   = " takes back what queue "
	beyondShare = " has beyond its fair share or its quota"
	toldQueue   = "; the victim is in queue "
)

// QueueTold returns the victim's leaf queue in a message of WhyTaken or ToldMember. It returns "" if the message names none.
func QueueTold(message string) string {
	_, rest, found := strings.Cut(message, takesBack)
	if !found {
		_, rest, _ = strings.Cut(message, toldQueue)
	}
	// Names of queues have neither spaces nor punctuation that ends them here.
	if end := strings.IndexAny(rest, " ;,"); end >= 0 {
		rest = rest[:end]
	}
	return rest
}

// goesWith is between what is said to a group that goes as a whole, and its name.
const goesWith = "; it goes with PodGroup "

// ToldMember says to a pod of a group that goes as a whole why it does: what WhyTaken says to its group, and which that is.
func ToldMember(whyTaken, namespace, name string) string {
	return whyTaken + goesWith + namespace + "/" + name
}

// GroupTold is the group in what ToldMember says, as NAMESPACE/NAME; empty for what is said to others.
func GroupTold(message string) string {
	_, rest, _ := strings.Cut(message, goesWith)
	group, _, _ := strings.Cut(rest, ",")
	return group
}

// Taking says to the preemptor where it fits, and who goes for it.
func (d *Decision) Taking() string {
	names := make([]string, len(d.Victims))
	for i := range d.Victims {
		names[i] = d.Victims[i].Namespace + "/" + d.Victims[i].Name
	}
	return fmt.Sprintf("%s: %v", d.Message, FewNames(names, mostTold))
}
