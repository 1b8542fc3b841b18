package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
)

// policy is what a group is created with, of which a member lives. What the object does not say, its pods do. Above says where the
// object asks for more than they have. The error is that of classFor.
func policy(g grouping.Group, members *gang.Members, queueNamedBy func(*corev1.Pod) string, classes schedulinglisters.PriorityClassLister) (out v1alpha1.PodGroupPolicy, above string, err error) {
	live := living(members)
	class, above, err := classFor(g, live, classes)
	if err != nil {
		return out, "", err
	}
	out = v1alpha1.PodGroupPolicy{
		SchedulingPolicy: &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: int32(g.Needs(members.Available()))}},
	}
	if mode := cmp.Or(g.Choice.DisruptionMode, g.Choice.DefaultMode); mode != "" {
		out.DisruptionMode = ptr.To(v1alpha1.DisruptionMode(mode))
	}
	lowest := lowestOf(live)
	if class != "" {
		out.PriorityClassName = &class
	}
	if class == lowest.Spec.PriorityClassName && g.IsBounded() {
		// What the pods have counts, whatever has become of the class since.
		out.Priority, out.PreemptionPolicy = ptr.To(corev1helpers.PodPriority(lowest)), ptr.To(corev1.PreemptLowerPriority)
		if slices.ContainsFunc(live, neverPreempts) {
			out.PreemptionPolicy = ptr.To(corev1.PreemptNever)
		}
	}
	if queue := cmp.Or(g.Choice.Queue, queueNamedBy(lowest), g.Choice.DefaultQueue); queue != "" {
		out.QueueName = &queue
	}
	return out, above, nil
}

func neverPreempts(pod *corev1.Pod) bool {
	return ptr.Deref(pod.Spec.PreemptionPolicy, corev1.PreemptLowerPriority) == corev1.PreemptNever
}

// lowestOf is the pod with the lowest priority. Where pods have several classes, its counts: none of them is to take more than
// it could by itself.
func lowestOf(pods []*corev1.Pod) *corev1.Pod {
	return slices.MinFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(corev1helpers.PodPriority(a), corev1helpers.PodPriority(b)), cmp.Compare(a.Name, b.Name))
	})
}

// classFor is the PriorityClass of a group. The user that writes the object may write pods, and is kept to their classes by quotas and
// policies that know of pods only: so an object's own annotation gives its group no more than the pods have, and the group has
// their class where it would. Above says so then. That of a namespace is set by the administrators of the cluster.
func classFor(g grouping.Group, live []*corev1.Pod, classes schedulinglisters.PriorityClassLister) (class, above string, err error) {
	lowest := lowestOf(live)
	wanted := g.Choice.PriorityClass
	if wanted == "" || wanted == lowest.Spec.PriorityClassName || g.Choice.ClassOfNamespace {
		return cmp.Or(wanted, lowest.Spec.PriorityClassName), "", nil
	}
	found, err := classes.Get(wanted)
	if err != nil {
		return "", "", fmt.Errorf("PriorityClass %q, which its annotation %s names: %w", wanted, v1alpha1.AnnotationPriorityClass, err)
	}
	mayPreempt := ptr.Deref(found.PreemptionPolicy, corev1.PreemptLowerPriority) != corev1.PreemptNever
	never := slices.ContainsFunc(live, neverPreempts)
	switch {
	case found.Value > corev1helpers.PodPriority(lowest):
		above = fmt.Sprintf("%s %s asks for %s: %q, whose priority %d is above that of its pods, %d; the PodGroup has theirs",
			g.Owner.Kind, g.Owner.Name, v1alpha1.AnnotationPriorityClass, wanted, found.Value, corev1helpers.PodPriority(lowest))
	case mayPreempt && never:
		above = fmt.Sprintf("%s %s asks for %s: %q, which may preempt, and its pods may not; the PodGroup has their class",
			g.Owner.Kind, g.Owner.Name, v1alpha1.AnnotationPriorityClass, wanted)
	default:
		return wanted, "", nil
	}
	return lowest.Spec.PriorityClassName, above, nil
}

// settingsOf is the same for policies that differ in their counts at most.
func settingsOf(p *v1alpha1.PodGroupPolicy) string {
	return fmt.Sprint(differences(&v1alpha1.PodGroupPolicy{}, p), ptr.Deref(p.Priority, 0), ptr.Deref(p.PreemptionPolicy, ""))
}

// differences are the settings in which a group differs from what it would be made with now; "" for none.
func differences(have, now *v1alpha1.PodGroupPolicy) string {
	var out []string
	for _, s := range []struct{ setting, have, now string }{
		{"disruptionMode", modeOf(have), modeOf(now)},
		{"priorityClassName", ptr.Deref(have.PriorityClassName, ""), ptr.Deref(now.PriorityClassName, "")},
		{"queueName", ptr.Deref(have.QueueName, ""), ptr.Deref(now.QueueName, "")},
	} {
		if s.have != s.now {
			out = append(out, fmt.Sprintf("%s %q, not %q", s.setting, s.now, s.have))
		}
	}
	return strings.Join(out, ", ")
}

func modeOf(p *v1alpha1.PodGroupPolicy) string {
	return string(ptr.Deref(p.DisruptionMode, v1alpha1.DisruptionModePod))
}

// differs says which settings of a group are not those of its object any more; they cannot be changed.
func differs(pg *v1alpha1.PodGroup, g grouping.Group) string {
	for _, s := range []struct{ annotation, want, have string }{
		{v1alpha1.AnnotationDisruptionMode, g.Choice.DisruptionMode, string(ptr.Deref(pg.Spec.DisruptionMode, v1alpha1.DisruptionModePod))},
		{v1alpha1.AnnotationPriorityClass, g.Choice.PriorityClass, ptr.Deref(pg.Spec.PriorityClassName, "")},
		{v1alpha1.AnnotationQueue, g.Choice.Queue, ptr.Deref(pg.Spec.QueueName, "")},
	} {
		if s.want != "" && s.want != s.have {
			return fmt.Sprintf("%s %s asks for %s: %q, and the PodGroup was made with %q, which cannot be changed; it counts from its next run on",
				g.Owner.Kind, g.Owner.Name, s.annotation, s.want, s.have)
		}
	}
	return ""
}

// dropped says which setting of a group was asked for when it was made and is not any more; "" for none. What it has of its pods
// changes as they come and go, and is not told.
func dropped(pg *v1alpha1.PodGroup, now *v1alpha1.PodGroupPolicy, g grouping.Group) string {
	has := func(annotation string) bool { return pg.Annotations[annotation] != "" }
	for _, s := range []struct {
		setting, have, now string
		wasAsked           bool
	}{
		{"disruptionMode", modeOf(&pg.Spec.PodGroupPolicy), modeOf(now), true},
		{"priorityClassName", ptr.Deref(pg.Spec.PriorityClassName, ""), ptr.Deref(now.PriorityClassName, ""), has(v1alpha1.AnnotationClassOf)},
		{"queueName", ptr.Deref(pg.Spec.QueueName, ""), ptr.Deref(now.QueueName, ""), has(v1alpha1.AnnotationQueueOf)},
	} {
		if s.wasAsked && s.have != s.now {
			return fmt.Sprintf("for %s %s, the PodGroup would be made with %s %q now, and was made with %q, which cannot be changed; it counts from its next run on",
				g.Owner.Kind, g.Owner.Name, s.setting, s.now, s.have)
		}
	}
	return ""
}

// markEarlier has a group that a version without marks has made say that its class is that of the namespace, and reports whether it did.
func markEarlier(pg *v1alpha1.PodGroup, c grouping.Choice) bool {
	if pg.Annotations[v1alpha1.AnnotationClassOf] != "" || !c.ClassOfNamespace || ptr.Deref(pg.Spec.PriorityClassName, "") != c.PriorityClass {
		return false
	}
	metav1.SetMetaDataAnnotation(&pg.ObjectMeta, v1alpha1.AnnotationClassOf, v1alpha1.FromNamespace)
	return true
}

// markSources writes on a group where its class and its queue are from, if not from its pods.
func markSources(pg *v1alpha1.PodGroup, c grouping.Choice) {
	class, queue := ptr.Deref(pg.Spec.PriorityClassName, ""), ptr.Deref(pg.Spec.QueueName, "")
	switch {
	case class == "" || class != c.PriorityClass:
	case c.ClassOfNamespace:
		metav1.SetMetaDataAnnotation(&pg.ObjectMeta, v1alpha1.AnnotationClassOf, v1alpha1.FromNamespace)
	default:
		metav1.SetMetaDataAnnotation(&pg.ObjectMeta, v1alpha1.AnnotationClassOf, v1alpha1.FromObject)
	}
	switch queue {
	case "":
	case c.Queue:
		metav1.SetMetaDataAnnotation(&pg.ObjectMeta, v1alpha1.AnnotationQueueOf, v1alpha1.FromObject)
	case c.DefaultQueue:
		metav1.SetMetaDataAnnotation(&pg.ObjectMeta, v1alpha1.AnnotationQueueOf, v1alpha1.FromNamespace)
	}
}
