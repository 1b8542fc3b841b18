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

// Verdict is a result of a check for the users of a group; see [workload.Verdict].
type Verdict = workload.Verdict

// These reasons appear on Pods only, because there is no PodGroup to carry a condition.
const (
	// ReasonPodGroupNotFound means that the PodGroup that the Pod names does not exist.
	ReasonPodGroupNotFound = "PodGroupNotFound"
	// ReasonPodGroupNotMade means that Reprieve cannot write the PodGroup for the Pod.
	ReasonPodGroupNotMade = "PodGroupNotMade"
	// ReasonTwoPodGroups means that the Pod names two PodGroups.
	ReasonTwoPodGroups = "TwoPodGroups"
)

// Gate returns the reason why the members of a group are gated; the zero Verdict if they are not. g
// is nil for a group that does not exist.
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

// unready returns the reason why a group cannot be scheduled yet, regardless of its members.
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

// Bounds reports which groups must not outrank any of their pods; see [Outranks]. These are the
// groups that Reprieve derives for pods without a PodGroup. [Group.Bounded] marks further groups.
type Bounds interface {
	Membership
	IsBounded(key types.NamespacedName) bool
}

// IsBounded reports whether a group must not outrank any of its pods. A group that was written with
// the class of its namespace stays unbounded if the namespace changes.
func IsBounded(bounds Bounds, g *Group) bool {
	return !g.ClassOfNamespace && (g.Bounded || bounds.IsBounded(g.Key))
}

// Outranks reports whether a group has a higher priority than a pod, or may preempt while the pod
// may not.
func Outranks(g *Group, pod *corev1.Pod) bool {
	never := pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever
	return g.Priority != nil && *g.Priority > corev1helpers.PodPriority(pod) || never && g.PreemptionPolicy == corev1.PreemptLowerPriority
}

// Outranked returns the verdict that blocks a pod whose group outranks it although the group must
// not; see [IsBounded]. For other pods, it returns the zero Verdict. Admission checks of
// PriorityClasses, such as ResourceQuotas, see only pods. A pod could bypass them with a group of
// higher rank.
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

// notFound adds a hint if the pods name a PodGroup of scheduling.k8s.io, which may exist although
// Reprieve does not read it.
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

// mostNamed is the maximum number of schedulers that a message names.
const mostNamed = 5

// mixedSchedulerNames returns the verdict on members that name different schedulers.
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
