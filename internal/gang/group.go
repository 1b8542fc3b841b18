package gang

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// Group is the scheduler's model of a PodGroup of either API.
type Group struct {
	Key types.NamespacedName
	UID types.UID
	// APIVersion is the apiVersion of a PodGroup of scheduling.k8s.io; "" for a PodGroup of
	// reprieve.dev.
	APIVersion string
	// Ambiguous is true if both APIs have a PodGroup with this name. Then the scheduler cannot tell
	// which PodGroup a pod names.
	Ambiguous bool
	// Unsupported names the fields that request features that Reprieve lacks; "" for none.
	Unsupported string
	// Template is the template that still has to fill in the policy, as "workload/template". It is
	// "" if the group names no template, or if the policy is already filled in.
	Template string
	// MinCount is the number of members that must be able to run together. It is 0 with the basic
	// policy.
	MinCount int
	// Whole is true if the members are evicted together or not at all (disruptionMode PodGroup).
	Whole bool
	// Never is true in disruptionMode Never. See [Trees.FlawOfNever] for the cases without effect.
	Never bool
	// Priority is the group's priority; nil until its PriorityClass is resolved.
	Priority *int32
	// PodPriorities is true if groups of this API have no priority. Each pod then has its own
	// priority.
	PodPriorities bool
	// PriorityClassName is the class that the group's priority came from; "" for none. The user
	// named the class, or it is the global default.
	PriorityClassName string
	// PreemptionPolicy is the resolved policy. It is "" if the API has no such field, or if the
	// policy is not resolved yet.
	PreemptionPolicy corev1.PreemptionPolicy
	// StartTime is the time since which minCount members have run together; zero if they do not.
	StartTime time.Time
	// Scheduled is true if the PodGroup's status reports minCount members with a node; see
	// [wasScheduled].
	Scheduled bool
	// UnscheduledSince is the time since when the PodGroup's status reports too few members with a
	// node, or reports nothing; see [unscheduledSince].
	UnscheduledSince time.Time
	// DegradedSince is the time when the gang lost members that it still lacks, according to its
	// status. It is zero if the gang lacks none. The records of internal/runs can be newer than the
	// status.
	DegradedSince time.Time
	// Queue is the leaf queue in the group's spec; "" for none.
	Queue string
	// Labels are the labels of a group if its API has no queues. A label may name the queue.
	Labels map[string]string
	// Bounded is true if the group must not outrank any of its pods; see [Outranks]. Reprieve
	// writes such groups for pods that name a Workload.
	Bounded bool
	// ClassOfNamespace is true if Reprieve wrote the group and gave it the PriorityClass of its
	// namespace. Such a group may outrank its pods.
	ClassOfNamespace bool
	// PreemptionPriorityClass is the PriorityClass that sets the group's priority as a potential
	// victim; "" for none. See [Group.VictimPriority].
	PreemptionPriorityClass string
	// BoundedRaise is true if PreemptionPriorityClass comes from the annotation of an object, such
	// as a Job. Users who create such objects may lack the right to create PodGroups, so the
	// maxPriorityClass of a queue bounds the class.
	BoundedRaise bool
	// TopologyKey is the node label that must have the same value for all members; "" for none.
	TopologyKey string
	// PreferredKeys are node labels that should have the same value for all members, the nearest
	// level first.
	PreferredKeys []string
	// Progress holds the valid values of the PodGroup's annotations about lost work.
	Progress Progress
	// Stops is the number of preemptions that stopped the group since it last made progress,
	// according to its status.
	Stops int32
	// StoppedAt is the time of the last preemption that stopped the group.
	StoppedAt time.Time
	// Disrupted lists the members in status.disruption, while a preemption of the whole group is
	// under way.
	Disrupted []v1alpha1.DisruptedPod
	// Parent is the key of the CompositePodGroup above the group; zero for none.
	Parent types.NamespacedName
	// MinGroupCount is the number of groups directly below that must be able to run together. It is
	// 0 for a PodGroup, and for a CompositePodGroup with the basic policy.
	MinGroupCount int
	// Tree holds the groups of a CompositePodGroup; nil for a PodGroup. [Trees] sets it.
	Tree *Tree
	// Flaw is the reason why no group of the tree can be placed. [Trees] sets it.
	Flaw Verdict
}

// IsResolved reports whether the template and the priority of the group are resolved.
func (g *Group) IsResolved() bool {
	return g.Template == "" && (g.Priority != nil || g.PodPriorities)
}

// IsGang reports whether at least MinCount members must be placed together.
func (g *Group) IsGang() bool { return g.MinCount > 0 }

const (
	// LabelManagedBy is the label of the PodGroups that Reprieve writes.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy on the PodGroups that Reprieve writes.
	ManagedBy = "reprieve-scheduler"
)

// isMadeForWorkload reports whether Reprieve wrote a group whose owner is a scheduling.k8s.io
// Workload that the group's pods name.
func isMadeForWorkload(pg *v1alpha1.PodGroup) bool {
	return pg.Labels[LabelManagedBy] == ManagedBy && slices.ContainsFunc(pg.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "Workload" && strings.HasPrefix(o.APIVersion, schedulingv1.GroupName+"/")
	})
}

// hasClassOfNamespace reports whether Reprieve wrote the group and gave it the class of its
// namespace.
func hasClassOfNamespace(pg *v1alpha1.PodGroup) bool {
	return pg.Labels[LabelManagedBy] == ManagedBy && pg.Annotations[v1alpha1.AnnotationClassOf] == v1alpha1.FromNamespace
}

// AnnotationUnsupported names fields of a PodGroup of scheduling.k8s.io that Reprieve does not
// support and must not ignore. The annotation exists in memory only and is never written.
const AnnotationUnsupported = v1alpha1.GroupName + "/unsupported"

// FromPodGroup returns the Group of a PodGroup. A PodGroup of scheduling.k8s.io must have its
// apiVersion. A PodGroup of reprieve.dev may lack it.
func FromPodGroup(pg *v1alpha1.PodGroup) *Group {
	g := &Group{
		Key:              types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name},
		UID:              pg.UID,
		Priority:         pg.Spec.Priority,
		Bounded:          isMadeForWorkload(pg),
		ClassOfNamespace: hasClassOfNamespace(pg),
	}
	if v := pg.APIVersion; v != "" && v != v1alpha1.SchemeGroupVersion.String() {
		g.APIVersion, g.PodPriorities = v, pg.Spec.Priority == nil
		g.Unsupported, g.Labels = pg.Annotations[AnnotationUnsupported], pg.Labels
	}
	if p := pg.Spec.SchedulingPolicy; p != nil && p.Gang != nil {
		g.MinCount = int(p.Gang.MinCount)
	}
	if ref := pg.Spec.PodGroupTemplateRef; ref != nil && pg.Spec.SchedulingPolicy == nil {
		g.Template = ref.WorkloadName + "/" + ref.PodGroupTemplateName
	}
	if m := pg.Spec.DisruptionMode; m != nil {
		g.Whole, g.Never = *m == v1alpha1.DisruptionModePodGroup, *m == v1alpha1.DisruptionModeNever
	}
	if n := pg.Spec.PriorityClassName; n != nil {
		g.PriorityClassName = *n
	}
	if p := pg.Spec.PreemptionPolicy; p != nil {
		g.PreemptionPolicy = *p
	}
	if q := pg.Spec.QueueName; q != nil {
		g.Queue = *q
	}
	if n := pg.Spec.PreemptionPriorityClassName; n != nil {
		g.PreemptionPriorityClass = *n
		g.BoundedRaise = pg.Annotations[v1alpha1.AnnotationPreemptionClassOf] == v1alpha1.FromObject
	}
	if n := pg.Spec.ParentCompositePodGroupName; n != nil && *n != "" {
		g.Parent = TreeKey(pg.Namespace, *n)
	}
	g.TopologyKey, g.PreferredKeys = pg.Spec.TopologyKey(), pg.Spec.PreferredKeys()
	if pg.Status.StartTime != nil {
		g.StartTime = pg.Status.StartTime.Time
	}
	g.Progress, _ = ProgressOf(pg.Annotations)
	g.Scheduled, g.UnscheduledSince = wasScheduled(pg), unscheduledSince(pg)
	if c := meta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionDegraded); c != nil && c.Status == metav1.ConditionTrue {
		g.DegradedSince = c.LastTransitionTime.Time
	}
	if d := pg.Status.Disruption; d != nil {
		g.Disrupted = d.Pods
	}
	if last := pg.Status.LastDisruption; last != nil && last.StopTime != nil {
		g.Stops, g.StoppedAt = last.Stops, last.StopTime.Time
	}
	return g
}

// wasScheduled reports whether a PodGroup's status shows that minCount members had a node. The
// status may be older than the spec, for example after a change of the leader. If minCount was
// raised since then, the members are not lost: the gang never had them.
func wasScheduled(pg *v1alpha1.PodGroup) bool {
	c := meta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionPodGroupScheduled)
	if c == nil || c.Status != metav1.ConditionTrue {
		return false
	}
	p := pg.Spec.SchedulingPolicy
	return c.ObservedGeneration >= pg.Generation || p == nil || p.Gang == nil || p.Gang.MinCount <= pg.Status.Scheduled
}

// unscheduledSince returns the time since when a PodGroup's status reports that too few members
// have a node. If the status reports nothing, this is the creation of the PodGroup. The result is
// zero if the status reports enough members, or if the spec has changed since the report.
func unscheduledSince(pg *v1alpha1.PodGroup) time.Time {
	c := meta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionPodGroupScheduled)
	switch {
	case c == nil:
		return pg.CreationTimestamp.Time
	case c.Status == metav1.ConditionTrue || c.ObservedGeneration < pg.Generation:
		return time.Time{}
	default:
		return c.LastTransitionTime.Time
	}
}

// GroupOf returns the PodGroup that a Pod names in spec.schedulingGroup or by its label; false for
// none. The name in the spec takes precedence because it is immutable; see also [Contradiction]. A
// Pod with a node stays in the group that its label named when it was scheduled; see [Seal].
func GroupOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	name := schedulingGroupOf(pod)
	if name == "" {
		name = labeled(pod)
	}
	return types.NamespacedName{Namespace: pod.Namespace, Name: name}, name != ""
}

func schedulingGroupOf(pod *corev1.Pod) string {
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return *g.PodGroupName
	}
	return ""
}

// Contradiction returns the verdict on a Pod whose label and spec name different PodGroups. Such a
// Pod is never scheduled. For other Pods, it returns the zero Verdict.
func Contradiction(pod *corev1.Pod) Verdict {
	byLabel, bySpec := pod.Labels[v1alpha1.LabelPodGroup], schedulingGroupOf(pod)
	if byLabel == "" || bySpec == "" || byLabel == bySpec {
		return Verdict{}
	}
	return Verdict{
		Reason: ReasonTwoPodGroups,
		Message: fmt.Sprintf("the pod names PodGroup %q by its label %s and PodGroup %q by spec.schedulingGroup; remove the label, or have both name one",
			byLabel, v1alpha1.LabelPodGroup, bySpec),
	}
}

// Source finds groups. It must be safe for concurrent use and must not block.
type Source interface {
	// Group returns the group with a key, or false if there is none. The caller must not change the
	// group.
	Group(key types.NamespacedName) (*Group, bool)
}
