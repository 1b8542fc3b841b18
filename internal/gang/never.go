package gang

import (
	"fmt"
	"slices"

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

// NeverWithoutParent returns the verdict on the disruption mode Never of a PodGroup whose tree
// lacks an ancestor. flaw is the verdict on the tree. No PriorityClass sets the length of the
// protection then.
func (g *Group) NeverWithoutParent(flaw Verdict) Verdict {
	return withoutNever(g, flaw.Reason, flaw.Message)
}

// Bound is the effect of a PriorityClass on the disruption mode Never of the groups of a tree.
type Bound struct {
	// Class is the name of the class; "" for none.
	Class string
	// Exists is true if the class exists.
	Exists bool
	// Seconds is the length of the protection; 0 for none. Below is the lowest priority that may
	// preempt the members all the same.
	Seconds int64
	Below   int32
	// Tolerates is the length of the preemption toleration of the class, in seconds. A negative
	// length has no end.
	Tolerates int64
}

// sealedClass is the part of a message about a class that differs from the current class.
const sealedClass = ", which a member was placed with"

// endsFirst reports whether the toleration of the class ends before a protection of some seconds.
func (b *Bound) endsFirst(seconds int64) bool { return b.Tolerates >= 0 && b.Tolerates < seconds }

// ReportNever returns the verdict on the disruption mode Never of a PodGroup with a resolved
// priority, for the condition [v1alpha1.ConditionDisruptionModeNever]. flaw is the result of
// [Trees.FlawOfNever]. The first bound is of the current PriorityClass of the tree, and the others
// are of other classes that members were placed with. The members are protected only as far as all
// these classes do. sealed is false if a member was placed before the mode applied.
func (g *Group) ReportNever(flaw Verdict, bounds []Bound, sealed bool) Verdict {
	if flaw != (Verdict{}) {
		return flaw
	}
	least, below := bounds[0], bounds[0].Below
	for i, b := range bounds {
		whose := ""
		if i > 0 {
			whose = sealedClass + ","
		}
		switch {
		case b.Class == "" && i > 0:
			return withoutNever(g, v1alpha1.ReasonNoBound, "a member was placed without a PriorityClass, and the annotation reprieve.dev/never-seconds of a class has to set a time")
		case b.Class == "":
			return withoutNever(g, v1alpha1.ReasonNoBound, "its tree has no PriorityClass, and the annotation reprieve.dev/never-seconds of a class has to set a time")
		case !b.Exists:
			return withoutNever(g, v1alpha1.ReasonPriorityClassNotFound, fmt.Sprintf("PriorityClass %q%s does not exist", b.Class, whose))
		case b.Seconds == 0:
			return withoutNever(g, v1alpha1.ReasonNoBound, fmt.Sprintf("PriorityClass %q%s has no valid annotation reprieve.dev/never-seconds", b.Class, whose))
		}
		if b.Seconds < least.Seconds {
			least = b
		}
		below = min(below, b.Below)
	}
	if !sealed {
		return withoutNever(g, v1alpha1.ReasonPlacedWithoutNever, "a member got its node before the mode applied to the group")
	}
	if !slices.ContainsFunc(bounds, func(b Bound) bool { return b.endsFirst(least.Seconds) }) {
		return withoutNever(g, v1alpha1.ReasonLongerToleration, fmt.Sprintf("the preemption toleration of PriorityClass %q protects the members from priorities below %d at least as long; see toleration-seconds",
			bounds[0].Class, below))
	}
	whose := ""
	if least.Class != bounds[0].Class {
		whose = sealedClass
	}
	return Verdict{
		Reason: v1alpha1.ReasonNeverBounded,
		Message: fmt.Sprintf("preemptors with a priority below %d cannot preempt the members in the first %d seconds of the tree's run, by PriorityClass %q%s",
			below, least.Seconds, least.Class, whose),
	}
}
