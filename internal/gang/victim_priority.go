package gang

import (
	"fmt"
	"strings"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// Maximum is the highest priority that a queue accepts. The zero value accepts every priority.
type Maximum struct {
	// Queue is the name of the queue.
	Queue string
	// Class is the maxPriorityClass of the queue; "" for none.
	Class string
	// Value is the priority value of Class; nil if the class does not exist.
	Value *int32
}

// VictimPriority returns the group's priority as a potential victim, and a verdict to report. The
// priority is the value of the group's preemptionPriorityClassName, and at least scheduling. If the
// class has no effect, the priority is scheduling. The verdict has the reason and message of the
// condition [v1alpha1.ConditionPreemptionPriority]; it is zero for a group without a class.
//
// scheduling is the group's priority without the class; a seal may have lowered it. valueOf returns
// the value of a PriorityClass; false if the class does not exist. maxima bound the value of the
// class.
func (g *Group) VictimPriority(scheduling int32, valueOf func(class string) (int32, bool), maxima ...Maximum) (int32, Verdict) {
	class := g.PreemptionPriorityClass
	if class == "" {
		return scheduling, Verdict{}
	}
	ignored := func(reason, format string, args ...any) (int32, Verdict) {
		why := fmt.Sprintf(format, args...)
		return scheduling, Verdict{Reason: reason, Message: fmt.Sprintf("preemptionPriorityClassName %q has no effect, and priority %d counts: %s", class, scheduling, why)}
	}
	if strings.HasPrefix(class, systemPrefix) {
		return ignored(v1alpha1.ReasonSystemClass, "classes whose names begin with %s are for work of the system", systemPrefix)
	}
	value, exists := valueOf(class)
	if !exists {
		return ignored(v1alpha1.ReasonPriorityClassNotFound, "the PriorityClass does not exist")
	}
	if g.Priority != nil && value < *g.Priority {
		return ignored(v1alpha1.ReasonBelowPriority, "its value %d is below the scheduling priority of the group, %d", value, *g.Priority)
	}
	counts := value
	var limit Maximum
	for _, m := range maxima {
		switch {
		case m.Class == "" && g.BoundedRaise:
			return ignored(v1alpha1.ReasonNoMaximum, "the annotation %s of an object counts only in a Queue with a maxPriorityClass", v1alpha1.AnnotationPreemptionPriorityClass)
		case m.Class != "" && m.Value == nil:
			return ignored(v1alpha1.ReasonQueueUnusable, "PriorityClass %q, the maxPriorityClass of Queue %q, does not exist", m.Class, m.Queue)
		case m.Class != "" && *m.Value < counts:
			counts, limit = *m.Value, m
		}
	}
	if counts = max(counts, scheduling); counts < value {
		return counts, Verdict{
			Reason: v1alpha1.ReasonLimitedByQueue,
			Message: fmt.Sprintf("preemptionPriorityClassName %q has value %d, and the maxPriorityClass %q of Queue %q has %d: the group counts as priority %d when it is a potential victim",
				class, value, limit.Class, limit.Queue, *limit.Value, counts),
		}
	}
	return counts, Verdict{
		Reason:  v1alpha1.ReasonPreemptionPriorityCounts,
		Message: fmt.Sprintf("the group counts as priority %d when it is a potential victim, by preemptionPriorityClassName %q", counts, class),
	}
}

// systemPrefix begins the names of the PriorityClasses that Kubernetes reserves for its own work.
const systemPrefix = "system-"

// FlawOfPreemptionClass returns the reason why a name is not valid as the
// preemptionPriorityClassName of a group with a priorityClassName; "" if it is valid. The API
// server makes the same checks.
func FlawOfPreemptionClass(name, priorityClass string) string {
	const longest = 253
	switch {
	case len(name) > longest:
		return fmt.Sprintf("names of PriorityClasses have at most %d characters", longest)
	case strings.HasPrefix(name, systemPrefix):
		return "classes whose names begin with " + systemPrefix + " are for work of the system"
	case strings.HasPrefix(priorityClass, systemPrefix):
		return fmt.Sprintf("the group has the class %q of the system, and every other class is below it", priorityClass)
	default:
		return ""
	}
}
