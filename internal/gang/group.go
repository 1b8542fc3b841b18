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

// Group is the scheduler's model of a PodGroup, whichever API it was read from.
type Group struct {
	Key types.NamespacedName
	UID types.UID
	// APIVersion is that of the PodGroup's API; "" stands for reprieve.dev.
	APIVersion string
	// Ambiguous is true where both APIs have a PodGroup of that name. Its pods cannot be told apart.
	Ambiguous bool
	// Unsupported names the fields that ask for what Reprieve cannot give, or is "".
	Unsupported string
	// Template is the template that the group takes its policy from, "workload/template", as long as it has
	// not been filled in; else "".
	Template string
	// MinCount is how many members must be able to run together; 0 under the basic policy.
	MinCount int
	// Whole is true where members are disrupted together or not at all (disruptionMode PodGroup).
	Whole bool
	// Priority is the resolved priority; nil until it is.
	Priority *int32
	// PodPriorities is true where the API has no priority for the group: each pod's own counts.
	PodPriorities bool
	// PriorityClassName is the class that the user named, or the global default that gave the
	// priority; "" for none.
	PriorityClassName string
	// PreemptionPolicy is the resolved policy; "" where the API keeps none, or it is not resolved.
	PreemptionPolicy corev1.PreemptionPolicy
	// StartTime is since when minCount members have been running together; zero if they are not.
	StartTime time.Time
	// Scheduled is true where the status says that minCount members have a node.
	Scheduled bool
	// DegradedSince is since when the gang has lacked members that it had, by its status; zero if
	// it does not. [Runs] knows more.
	DegradedSince time.Time
	// Queue is the leaf queue that the group names in its spec, or "". Labels are those of a group whose API has no
	// queues: they may name one.
	Queue  string
	Labels map[string]string
	// Bounded is true where the group was made for pods that name a Workload of scheduling.k8s.io: it may stand no higher than each of
	// them does by itself.
	Bounded bool
	// ClassOfNamespace is true where the group was made with the class of its namespace: it may stand higher than its pods do.
	ClassOfNamespace bool
	// Disrupted are the members that a preemption of the whole group, which has begun, takes.
	Disrupted []v1alpha1.DisruptedPod
}

// IsResolved reports whether everything is filled in that the group needs to be scheduled.
func (g *Group) IsResolved() bool {
	return g.Template == "" && (g.Priority != nil || g.PodPriorities)
}

// IsGang reports whether the members are placed together.
func (g *Group) IsGang() bool { return g.MinCount > 0 }

const (
	// LabelManagedBy marks the PodGroups that Reprieve writes.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is its value on them.
	ManagedBy = "reprieve-scheduler"
)

// isMadeForWorkload reports whether Reprieve has written a group for a Workload of scheduling.k8s.io.
func isMadeForWorkload(pg *v1alpha1.PodGroup) bool {
	return pg.Labels[LabelManagedBy] == ManagedBy && slices.ContainsFunc(pg.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "Workload" && strings.HasPrefix(o.APIVersion, schedulingv1.GroupName+"/")
	})
}

// hasClassOfNamespace reports whether Reprieve has written a group with the class of its namespace.
func hasClassOfNamespace(pg *v1alpha1.PodGroup) bool {
	return pg.Labels[LabelManagedBy] == ManagedBy && pg.Annotations[v1alpha1.AnnotationClassOf] == v1alpha1.FromNamespace
}

// AnnotationUnsupported is where a PodGroup that was read from another API names its fields that have no
// counterpart, and that must not be taken for absent. It is never written.
const AnnotationUnsupported = v1alpha1.GroupName + "/unsupported"

// FromPodGroup reads a Group. One of another API than reprieve.dev has that in its apiVersion.
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
	if pg.Status.StartTime != nil {
		g.StartTime = pg.Status.StartTime.Time
	}
	g.Scheduled = meta.IsStatusConditionTrue(pg.Status.Conditions, v1alpha1.ConditionPodGroupScheduled)
	if c := meta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionDegraded); c != nil && c.Status == metav1.ConditionTrue {
		g.DegradedSince = c.LastTransitionTime.Time
	}
	if d := pg.Status.Disruption; d != nil {
		g.Disrupted = d.Pods
	}
	return g
}

// GroupOf names the PodGroup that a Pod belongs to, if any: by spec.schedulingGroup, or by its label. Of two
// names the one in the spec counts, which cannot be changed; see also [Contradiction].
func GroupOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	name := schedulingGroupOf(pod)
	if name == "" {
		name = pod.Labels[v1alpha1.LabelPodGroup]
	}
	return types.NamespacedName{Namespace: pod.Namespace, Name: name}, name != ""
}

func schedulingGroupOf(pod *corev1.Pod) string {
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return *g.PodGroupName
	}
	return ""
}

// Contradiction says of a Pod that names two PodGroups that it does. Such a Pod is not scheduled.
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
	// Group returns the group of that name, or false if there is none. The caller must not change it.
	Group(key types.NamespacedName) (*Group, bool)
}
