package gang

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Verdict is the result of a check, as users see it; see [workload.Verdict].
type Verdict = workload.Verdict

// These reasons appear in events and conditions of Pods only, because the Pod has no valid PodGroup
// that could report them.
const (
	// ReasonPodGroupNotFound means that the Pod names a PodGroup that does not exist.
	ReasonPodGroupNotFound = "PodGroupNotFound"
	// ReasonPodGroupNotMade means that Reprieve failed to create or update the PodGroup for the
	// Pod.
	ReasonPodGroupNotMade = "PodGroupNotMade"
	// ReasonTwoPodGroups means that the Pod's label and its spec name different PodGroups.
	ReasonTwoPodGroups = "TwoPodGroups"
)

// Gate returns the reason why the scheduler must not queue the members of a group yet; the zero
// Verdict if it may queue them. g is nil if the group does not exist.
func Gate(key types.NamespacedName, g *Group, m *Members) Verdict {
	if g == nil {
		return notFound(key, m)
	}
	if g.Flaw != (Verdict{}) {
		return g.Flaw
	}
	if v := g.unready(); v != (Verdict{}) || !g.IsGang() {
		return v
	}
	if v := mixedSchedulerNames(key, m); v != (Verdict{}) {
		return v
	}
	if g.Tree != nil {
		return g.Tree.gate(m)
	}
	if have := m.Available(); have < g.MinCount {
		return notEnough(key, g, m, have)
	}
	return Verdict{}
}

// unready returns the reason why the fields of the PodGroup prevent its scheduling, regardless of
// its members; the zero Verdict for none.
func (g *Group) unready() Verdict {
	title := Title(g.Key)
	switch {
	case g.Ambiguous:
		return Verdict{
			Reason:  v1alpha1.ReasonAmbiguousName,
			Message: title + " exists in reprieve.dev and in scheduling.k8s.io; delete one of the two",
		}
	case g.Unsupported != "":
		return Verdict{
			Reason:  v1alpha1.ReasonUnsupported,
			Message: fmt.Sprintf("%s has %s, which Reprieve does not know how to honour", title, g.Unsupported),
		}
	case g.Template != "":
		return Verdict{
			Reason:  v1alpha1.ReasonTemplateNotFound,
			Message: fmt.Sprintf("%s waits for the template %s of a Workload in its namespace", title, g.Template),
		}
	case g.Priority == nil && !g.PodPriorities && g.PriorityClassName != "":
		return Verdict{
			Reason:  v1alpha1.ReasonPriorityClassNotFound,
			Message: fmt.Sprintf("%s waits for PriorityClass %q, which gives it its priority", title, g.PriorityClassName),
		}
	case g.Priority == nil && !g.PodPriorities:
		return Verdict{
			Reason:  v1alpha1.ReasonPending,
			Message: title + " waits for its priority to be filled in",
		}
	default:
		return Verdict{}
	}
}

// Bounds reports which derived groups must not outrank any of their pods; see [Outranks]. Derived
// groups are the PodGroups that Reprieve creates for pods without one. [Group.Bounded] marks
// further groups.
type Bounds interface {
	Membership
	IsBounded(key types.NamespacedName) bool
}

// IsBounded reports whether a group must not outrank any of its pods. If Reprieve gave a group the
// PriorityClass of its namespace, the group may outrank its pods. This stays true if the namespace
// names another class later.
func IsBounded(bounds Bounds, g *Group) bool {
	return !g.ClassOfNamespace && (g.Bounded || bounds.IsBounded(g.Key))
}

// Outranks reports whether a group has a higher priority than a pod, or may preempt while the pod
// may not.
func Outranks(g *Group, pod *corev1.Pod) bool {
	never := pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever
	return g.Priority != nil && *g.Priority > corev1helpers.PodPriority(pod) || never && g.PreemptionPolicy == corev1.PreemptLowerPriority
}

// Outranked returns the verdict that blocks a pod because its group outranks it and must not; see
// [IsBounded]. It returns the zero Verdict for all other pods.
//
// Without this check, a pod could bypass the admission checks for PriorityClasses, such as
// ResourceQuotas. These checks see only the pod's own priority, and not the higher one of its
// group.
func Outranked(bounds Bounds, groups Source, pod *corev1.Pod) Verdict {
	key, ok := bounds.GroupOf(pod)
	if !ok {
		return Verdict{}
	}
	g, ok := groups.Group(key)
	if !ok || !Outranks(g, pod) || !IsBounded(bounds, g) {
		return Verdict{}
	}
	return Verdict{
		Reason: v1alpha1.ReasonPriorityAbovePods,
		Message: fmt.Sprintf("%s was made for pods of a higher class than that of pod %s; the scheduler recreates it once no member has a node",
			Title(key), pod.Name),
	}
}

// notFound returns the verdict for a group that does not exist. It adds a hint if a pod names a
// PodGroup of scheduling.k8s.io, because such a PodGroup may exist although Reprieve cannot read
// it.
func notFound(key types.NamespacedName, m *Members) Verdict {
	msg := fmt.Sprintf("PodGroup %s does not exist", key)
	if m != nil && slices.ContainsFunc(m.Pending, func(pod *corev1.Pod) bool { return schedulingGroupOf(pod) != "" }) {
		msg += "; those of scheduling.k8s.io are known where the cluster served them, and Reprieve was allowed to read them, when it started"
	}
	return Verdict{Reason: ReasonPodGroupNotFound, Message: msg}
}

func notEnough(key types.NamespacedName, g *Group, m *Members, have int) Verdict {
	msg := fmt.Sprintf("PodGroup %s needs %d members and has %d", key, g.MinCount, have)
	if n := len(m.Gated); n > 0 {
		msg += fmt.Sprintf("; %d more wait for a scheduling gate", n)
	}
	if n := len(m.Terminating); n > 0 {
		msg += fmt.Sprintf("; %d more are terminating", n)
	}
	return Verdict{Reason: v1alpha1.ReasonNotEnoughMembers, Message: msg}
}

// mostNamed is the maximum number of scheduler names in a message.
const mostNamed = 5

// mixedSchedulerNames returns the verdict on a group whose members name different schedulers; the
// zero Verdict for other groups.
func mixedSchedulerNames(key types.NamespacedName, m *Members) Verdict {
	example := make(map[string]*corev1.Pod)
	for _, pods := range [][]*corev1.Pod{m.Pending, m.Gated, m.Assigned} {
		for _, pod := range pods {
			if e, ok := example[pod.Spec.SchedulerName]; !ok || pod.Name < e.Name {
				example[pod.Spec.SchedulerName] = pod
			}
		}
	}
	if len(example) < 2 {
		return Verdict{}
	}
	parts := make([]string, 0, len(example))
	for name, pod := range example {
		parts = append(parts, fmt.Sprintf("%q (pod %s)", name, pod.Name))
	}
	slices.Sort(parts)
	if more := len(parts) - mostNamed; more > 0 {
		parts = append(parts[:mostNamed], fmt.Sprintf("and %d more", more))
	}
	return Verdict{
		Reason:  v1alpha1.ReasonMixedSchedulerNames,
		Message: fmt.Sprintf("members of %s name different schedulers: %s", Title(key), strings.Join(parts, ", ")),
	}
}
