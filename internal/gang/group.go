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

// Group is the scheduler's model of a PodGroup from either API.
type Group struct {
	Key types.NamespacedName
	UID types.UID
	// APIVersion is the version of the PodGroup's API; "" for reprieve.dev.
	APIVersion string
	// Ambiguous is true if both APIs have a PodGroup with this name. The scheduler cannot tell
	// which of them a pod belongs to.
	Ambiguous bool
	// Unsupported names the fields that ask for features that Reprieve lacks, or is "".
	Unsupported string
	// Template is the template that the group takes its policy from, as "workload/template". It is
	// "" without a template, and once the policy is filled in.
	Template string
	// MinCount is the number of members that must be able to run together; 0 under the basic
	// policy.
	MinCount int
	// Whole is true if members are disrupted together or not at all (disruptionMode PodGroup).
	Whole bool
	// Priority is the resolved priority; nil until then.
	Priority *int32
	// PodPriorities is true if the API has no priority for groups, so that each pod's own priority
	// counts.
	PodPriorities bool
	// PriorityClassName is the class that the user named, or the global default class that set the
	// priority; "" for none.
	PriorityClassName string
	// PreemptionPolicy is the resolved policy; "" if the API has none, or it is not resolved.
	PreemptionPolicy corev1.PreemptionPolicy
	// StartTime is the time since when minCount members have been running together; zero if they
	// are not.
	StartTime time.Time
	// Scheduled is true if the status reports that minCount members have a node.
	Scheduled bool
	// DegradedSince is the time since when the gang has lacked members that it had, according to
	// its status. It is zero if the gang lacks none. [Runs] has newer information.
	DegradedSince time.Time
	// Queue is the leaf queue that the group names in its spec, or "". Labels are the labels of a
	// group whose API has no queues: they may name a queue.
	Queue  string
	Labels map[string]string
	// Bounded is true if the group must not outrank any of its pods; see [Outranks]. Reprieve wrote
	// it for pods that name a Workload of scheduling.k8s.io.
	Bounded bool
	// ClassOfNamespace is true if Reprieve wrote the group with the class of its namespace. It may
	// outrank its pods.
	ClassOfNamespace bool
	// PreemptionPriorityClass is the class that gives the group its priority as a potential victim;
	// "" for none. See [Group.VictimPriority].
	PreemptionPriorityClass string
	// BoundedRaise is true if PreemptionPriorityClass comes from the annotation of an object. Users
	// who create such objects may lack the right to create PodGroups, so the class counts only up
	// to the maxPriorityClass of a queue.
	BoundedRaise bool
	// TopologyKey is the node label whose value all members must share; "" for none.
	TopologyKey string
	// PreferredKeys are the node labels whose value the members should share, the nearest level
	// first.
	PreferredKeys []string
	// Progress has the PodGroup's annotations about lost work, without invalid values.
	Progress Progress
	// Stops is the number of preemptions that stopped the group since it last made progress,
	// according to its status. StoppedAt is the time of the last of them.
	Stops     int32
	StoppedAt time.Time
	// Disrupted has the members in the intent of a preemption of the whole group.
	Disrupted []v1alpha1.DisruptedPod
	// Parent is the key of the CompositePodGroup above the group; zero for none.
	Parent types.NamespacedName
	// MinGroupCount is the number of groups directly below that must be able to run together. It is
	// 0 for a PodGroup, and for a CompositePodGroup with the basic policy.
	MinGroupCount int
	// Tree has the groups of a CompositePodGroup; nil for a PodGroup. Flaw is the reason why no
	// group of the tree can be placed. [Trees] sets both.
	Tree *Tree
	Flaw Verdict
}

// IsResolved reports whether all fields that the scheduler needs are filled in.
func (g *Group) IsResolved() bool {
	return g.Template == "" && (g.Priority != nil || g.PodPriorities)
}

// IsGang reports whether the members are placed together.
func (g *Group) IsGang() bool { return g.MinCount > 0 }

const (
	// LabelManagedBy marks the PodGroups that Reprieve writes.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the label's value on them.
	ManagedBy = "reprieve-scheduler"
)

// isMadeForWorkload reports whether Reprieve wrote a group for a Workload of scheduling.k8s.io.
func isMadeForWorkload(pg *v1alpha1.PodGroup) bool {
	return pg.Labels[LabelManagedBy] == ManagedBy && slices.ContainsFunc(pg.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "Workload" && strings.HasPrefix(o.APIVersion, schedulingv1.GroupName+"/")
	})
}

// hasClassOfNamespace reports whether Reprieve wrote a group with the class of its namespace.
func hasClassOfNamespace(pg *v1alpha1.PodGroup) bool {
	return pg.Labels[LabelManagedBy] == ManagedBy && pg.Annotations[v1alpha1.AnnotationClassOf] == v1alpha1.FromNamespace
}

// AnnotationUnsupported names the fields of a PodGroup from another API that have no counterpart
// and must not be ignored. It exists in memory only and is never written.
const AnnotationUnsupported = v1alpha1.GroupName + "/unsupported"

// FromPodGroup returns the Group of a PodGroup. If the PodGroup is from another API than
// reprieve.dev, its apiVersion must name that API.
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
		g.Whole = *m == v1alpha1.DisruptionModePodGroup
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
	g.Scheduled = meta.IsStatusConditionTrue(pg.Status.Conditions, v1alpha1.ConditionPodGroupScheduled)
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

// GroupOf returns the PodGroup that a Pod belongs to, if any, by spec.schedulingGroup or by its
// label. The name in the spec takes precedence because it is immutable; see also [Contradiction]. A
// Pod with a node stays in the group of its label at that time; see [Seal].
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

// Contradiction returns the verdict on a Pod that names two different PodGroups. Such a Pod is not
// scheduled.
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
	// Group returns the group with that name, or false if there is none. The caller must not change
	// the group.
	Group(key types.NamespacedName) (*Group, bool)
}
