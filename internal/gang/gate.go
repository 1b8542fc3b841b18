package gang

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// Verdict is what is said of a group, to its users: the reason and message of its PodGroupScheduled
// condition and of its Pods' events. The zero value has nothing to say.
type Verdict struct {
	Reason  string
	Message string
}

// Reasons that are said on Pods only: there is no PodGroup to carry a condition.
const (
	// ReasonPodGroupNotFound: the PodGroup that the Pod names does not exist.
	ReasonPodGroupNotFound = "PodGroupNotFound"
	// ReasonPodGroupNotMade: the PodGroup that is to be made for the Pod cannot be written.
	ReasonPodGroupNotMade = "PodGroupNotMade"
	// ReasonTwoPodGroups: the Pod names two.
	ReasonTwoPodGroups = "TwoPodGroups"
)

// Gate says what keeps the members of a group from being considered at all. The zero Verdict lets them
// through; a nil group is one that does not exist.
func Gate(key types.NamespacedName, g *Group, m *Members) Verdict {
	switch {
	case g == nil:
		return notFound(key, m)
	case g.Ambiguous:
		return Verdict{
			Reason:  v1alpha1.ReasonAmbiguousName,
			Message: fmt.Sprintf("PodGroup %s exists in reprieve.dev and in scheduling.k8s.io; delete one of the two", key),
		}
	case g.Unsupported != "":
		return Verdict{
			Reason:  v1alpha1.ReasonUnsupported,
			Message: fmt.Sprintf("PodGroup %s has %s, which Reprieve does not know how to honour", key, g.Unsupported),
		}
	case g.Template != "":
		return Verdict{
			Reason:  v1alpha1.ReasonTemplateNotFound,
			Message: fmt.Sprintf("PodGroup %s waits for the template %s of a Workload in its namespace", key, g.Template),
		}
	case g.Priority == nil && !g.PodPriorities && g.PriorityClassName != "":
		return Verdict{
			Reason:  v1alpha1.ReasonPriorityClassNotFound,
			Message: fmt.Sprintf("PodGroup %s waits for PriorityClass %q, which gives it its priority", key, g.PriorityClassName),
		}
	case g.Priority == nil && !g.PodPriorities:
		return Verdict{
			Reason:  v1alpha1.ReasonPending,
			Message: fmt.Sprintf("PodGroup %s waits for its priority to be filled in", key),
		}
	case !g.IsGang():
		return Verdict{}
	}
	if v := mixedSchedulerNames(key, m); v != (Verdict{}) {
		return v
	}
	if have := m.Available(); have < g.MinCount {
		return notEnough(key, g, m, have)
	}
	return Verdict{}
}

// Bounds says which groups, beside those that say so themselves, may stand no higher than each of their pods does by itself: those that
// are made for pods which name none.
type Bounds interface {
	Membership
	IsBounded(key types.NamespacedName) bool
}

// IsBounded reports whether a group may stand no higher than each of its pods does by itself. What it was made with stays, whatever its
// namespace says since.
func IsBounded(bounds Bounds, g *Group) bool {
	return !g.ClassOfNamespace && (g.Bounded || bounds.IsBounded(g.Key))
}

// Outranks reports whether a group stands higher than a pod does by itself.
func Outranks(g *Group, pod *corev1.Pod) bool {
	never := pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever
	return g.Priority != nil && *g.Priority > corev1helpers.PodPriority(pod) || never && g.PreemptionPolicy == corev1.PreemptLowerPriority
}

// Outranked says of a pod that its group, which has bounds, stands higher than it does. Users are kept to PriorityClasses by what knows
// of pods only; a pod that gets more by way of others would get round that, so it waits.
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
		Message: fmt.Sprintf("PodGroup %s was made for pods of a higher class than that of pod %s; it is made anew once none of its members has a node",
			key, pod.Name),
	}
}

// notFound has more to say to those whose PodGroup may exist all the same, where Reprieve does not read it.
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

// mixedSchedulerNames says which members name different schedulers.
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
	return Verdict{
		Reason:  v1alpha1.ReasonMixedSchedulerNames,
		Message: fmt.Sprintf("members of PodGroup %s name different schedulers: %s", key, strings.Join(parts, ", ")),
	}
}
