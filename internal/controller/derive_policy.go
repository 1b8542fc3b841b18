package controller

import (
	"cmp"
	"fmt"
	"math"
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

// minCountOf returns the minCount of a group: the members that its object needs, or the largest
// possible number if the object needs more.
func minCountOf(g grouping.Group, members *gang.Members) int32 {
	return int32(min(g.Needs(members.Available()), math.MaxInt32)) //nolint:gosec // it is bounded
}

// policy returns the settings for a new PodGroup of a group with a living member. If the object
// does not set a field, the value comes from its pods. above is a message if the object asks for a
// class above the pods' class. The error is the error of classFor.
func policy(g grouping.Group, members *gang.Members, queueNamedBy func(*corev1.Pod) string, classes schedulinglisters.PriorityClassLister) (out v1alpha1.PodGroupPolicy, above string, err error) {
	live := living(members)
	class, above, err := classFor(g, live, classes)
	if err != nil {
		return out, "", err
	}
	out = v1alpha1.PodGroupPolicy{
		SchedulingPolicy: &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: minCountOf(g, members)}},
	}
	if mode := cmp.Or(g.Choice.DisruptionMode, g.Choice.DefaultMode); mode != "" {
		out.DisruptionMode = ptr.To(v1alpha1.DisruptionMode(mode))
	}
	lowest := lowestOf(live)
	if class != "" {
		out.PriorityClassName = &class
	}
	if class == lowest.Spec.PriorityClassName && g.IsBounded() {
		// Use the priority of the pods, because the class may have changed since they were created.
		out.Priority, out.PreemptionPolicy = ptr.To(corev1helpers.PodPriority(lowest)), ptr.To(corev1.PreemptLowerPriority)
		if slices.ContainsFunc(live, neverPreempts) {
			out.PreemptionPolicy = ptr.To(corev1.PreemptNever)
		}
	}
	if queue := cmp.Or(g.Choice.Queue, queueNamedBy(lowest), g.Choice.DefaultQueue); queue != "" {
		out.QueueName = &queue
	}
	out.SchedulingConstraints = g.Choice.Constraints()
	return out, above, nil
}

func neverPreempts(pod *corev1.Pod) bool {
	return ptr.Deref(pod.Spec.PreemptionPolicy, corev1.PreemptLowerPriority) == corev1.PreemptNever
}

// lowestOf returns the pod with the lowest priority. The group gets the class of this pod, so that
// no pod gets more than it would by itself.
func lowestOf(pods []*corev1.Pod) *corev1.Pod {
	return slices.MinFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(corev1helpers.PodPriority(a), corev1helpers.PodPriority(b)), cmp.Compare(a.Name, b.Name))
	})
}

// classFor returns the PriorityClass of a group. Quotas and admission policies limit the classes of
// users, but they check only pods. So the annotation of an object never raises the group above its
// pods. If it would, the group gets the class of its pods, and above is a message about that. The
// class of a namespace may be higher, because administrators set it. The error means that the class
// in the annotation does not exist.
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

// settingsOf returns a string that is equal for policies with equal settings, except for their
// counts.
func settingsOf(p *v1alpha1.PodGroupPolicy) string {
	return fmt.Sprint(differences(&v1alpha1.PodGroupPolicy{}, p), ptr.Deref(p.Priority, 0), ptr.Deref(p.PreemptionPolicy, ""))
}

// differences lists the settings that a group would get with another value if it were created now;
// "" for none.
func differences(have, now *v1alpha1.PodGroupPolicy) string {
	var out []string
	for _, s := range []struct{ setting, have, now string }{
		{"disruptionMode", modeOf(have), modeOf(now)},
		{"priorityClassName", ptr.Deref(have.PriorityClassName, ""), ptr.Deref(now.PriorityClassName, "")},
		{"queueName", ptr.Deref(have.QueueName, ""), ptr.Deref(now.QueueName, "")},
		{"topology key", have.TopologyKey(), now.TopologyKey()},
		{"preferred topology keys", levelsOf(have), levelsOf(now)},
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

// levelsOf returns the preferred topology keys of a policy as in the annotation.
func levelsOf(p *v1alpha1.PodGroupPolicy) string { return strings.Join(p.PreferredKeys(), ",") }

// differs reports the first setting of a group that no longer matches its object. These settings
// cannot be changed.
func differs(pg *v1alpha1.PodGroup, g grouping.Group) string {
	for _, s := range []struct{ annotation, want, have string }{
		{v1alpha1.AnnotationDisruptionMode, g.Choice.DisruptionMode, string(ptr.Deref(pg.Spec.DisruptionMode, v1alpha1.DisruptionModePod))},
		{v1alpha1.AnnotationPriorityClass, g.Choice.PriorityClass, ptr.Deref(pg.Spec.PriorityClassName, "")},
		{v1alpha1.AnnotationQueue, g.Choice.Queue, ptr.Deref(pg.Spec.QueueName, "")},
		{v1alpha1.AnnotationTopologyKey, g.Choice.TopologyKey, pg.Spec.TopologyKey()},
		{v1alpha1.AnnotationPreferredTopologyKey, strings.Join(g.Choice.Levels(), ","), levelsOf(&pg.Spec.PodGroupPolicy)},
	} {
		if s.want != "" && s.want != s.have {
			return fmt.Sprintf("%s %s asks for %s: %q, and the PodGroup was made with %q, which cannot be changed; it counts from its next run on",
				g.Owner.Kind, g.Owner.Name, s.annotation, s.want, s.have)
		}
	}
	return ""
}

// dropped reports the first setting of a group that was requested when it was created and is no
// longer requested; "" for none. Settings that come from the pods change with the pods, and are not
// reported.
func dropped(pg *v1alpha1.PodGroup, now *v1alpha1.PodGroupPolicy, g grouping.Group) string {
	has := func(annotation string) bool { return pg.Annotations[annotation] != "" }
	for _, s := range []struct {
		setting, have, now string
		wasAsked           bool
	}{
		{"disruptionMode", modeOf(&pg.Spec.PodGroupPolicy), modeOf(now), true},
		{"priorityClassName", ptr.Deref(pg.Spec.PriorityClassName, ""), ptr.Deref(now.PriorityClassName, ""), has(v1alpha1.AnnotationClassOf)},
		{"queueName", ptr.Deref(pg.Spec.QueueName, ""), ptr.Deref(now.QueueName, ""), has(v1alpha1.AnnotationQueueOf)},
		{"topology key", pg.Spec.TopologyKey(), now.TopologyKey(), true},
		{"preferred topology keys", levelsOf(&pg.Spec.PodGroupPolicy), levelsOf(now), true},
	} {
		if s.wasAsked && s.have != s.now {
			return fmt.Sprintf("for %s %s, the PodGroup would be made with %s %q now, and was made with %q, which cannot be changed; it counts from its next run on",
				g.Owner.Kind, g.Owner.Name, s.setting, s.now, s.have)
		}
	}
	return ""
}

// markEarlier adds the missing annotation about the source of a class to a group whose class comes
// from the namespace. Earlier versions did not write it. It reports whether it changed the group.
func markEarlier(pg *v1alpha1.PodGroup, c grouping.Choice) bool {
	if pg.Annotations[v1alpha1.AnnotationClassOf] != "" || !c.ClassOfNamespace || ptr.Deref(pg.Spec.PriorityClassName, "") != c.PriorityClass {
		return false
	}
	metav1.SetMetaDataAnnotation(&pg.ObjectMeta, v1alpha1.AnnotationClassOf, v1alpha1.FromNamespace)
	return true
}

// markSources records in annotations whether the class and the queue of a group come from the
// object or from the namespace. Values from the pods get no annotation.
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
