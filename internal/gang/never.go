package gang

import (
	"fmt"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// FlawOfNever returns the reason why the disruption mode Never of a PodGroup has no effect. The
// Verdict is zero if the mode may protect the members, and for other modes. It depends only on the
// groups of the tree, and not on PriorityClasses or on members. t may be nil.
//
// The mode All of an ancestor precedes Never. Otherwise a small group in mode Never could protect
// all other groups below that ancestor, because they are evicted together or not at all.
func (t *Trees) FlawOfNever(g *Group) Verdict {
	switch {
	case !g.Never:
		return Verdict{}
	case g.Parent.Name == "" || t == nil:
		return withoutNever(g, v1alpha1.ReasonNoParent, "it is in no tree; create the PodGroup with a parentCompositePodGroupName")
	case !g.IsGang():
		return withoutNever(g, v1alpha1.ReasonBasicPolicy, "the mode requires the gang policy; create the PodGroup with a minCount")
	}
	for _, above := range t.lineOf(g).above {
		if above.Whole {
			return withoutNever(g, v1alpha1.ReasonParentGoesWhole, fmt.Sprintf("%s has disruptionMode All, and all groups below it are preempted together", Title(above.Key)))
		}
	}
	return Verdict{}
}

// withoutNever returns the verdict on a PodGroup whose disruption mode Never has no effect.
func withoutNever(g *Group, reason, why string) Verdict {
	return Verdict{Reason: reason, Message: fmt.Sprintf("disruptionMode Never of %s has no effect: %s", Title(g.Key), why)}
}

// Bound is the effect of the PriorityClass of a tree on its disruption mode Never.
type Bound struct {
	// Exists is true if the class exists.
	Exists bool
	// Seconds is the length of the protection; 0 for none. Below is the lowest priority that may
	// preempt the members all the same.
	Seconds int64
	Below   int32
}

// ReportNever returns the verdict on the disruption mode Never of a PodGroup with a resolved
// priority, for the condition [v1alpha1.ConditionDisruptionModeNever]. flaw is the result of
// [Trees.FlawOfNever]. class is the PriorityClass of the tree. sealed is false if a member was
// placed before the mode applied.
func (g *Group) ReportNever(flaw Verdict, class string, bound Bound, sealed bool) Verdict {
	switch {
	case flaw != (Verdict{}):
		return flaw
	case class == "":
		return withoutNever(g, v1alpha1.ReasonNoBound, "its tree has no PriorityClass, and the annotation reprieve.dev/never-seconds of a class has to set a time")
	case !bound.Exists:
		return withoutNever(g, v1alpha1.ReasonPriorityClassNotFound, fmt.Sprintf("PriorityClass %q does not exist", class))
	case bound.Seconds == 0:
		return withoutNever(g, v1alpha1.ReasonNoBound, fmt.Sprintf("PriorityClass %q has no valid annotation reprieve.dev/never-seconds", class))
	case !sealed:
		return withoutNever(g, v1alpha1.ReasonPlacedWithoutNever, "a member got its node before the mode applied to the group")
	}
	return Verdict{
		Reason: v1alpha1.ReasonNeverBounded,
		Message: fmt.Sprintf("preemptors with a priority below %d cannot preempt the members in the first %d seconds of the tree's run, by PriorityClass %q",
			bound.Below, bound.Seconds, class),
	}
}
