package controller

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
)

// minCountOf returns the minCount of a PodGroup: the number of members that the group's object
// needs, limited to the largest int32.
func minCountOf(g grouping.Group, members *gang.Members) int32 {
	return int32(min(g.Needs(members.Available()), math.MaxInt32)) //nolint:gosec // it is bounded
}

// Derivation is the input for writing a derived group: the group, its key and its members.
type Derivation struct {
	grouping.Group
	// Key is the key of the group's PodGroup or CompositePodGroup.
	Key types.NamespacedName
	// Members are the members of the group, and Tree are the members of all groups in its tree. For
	// a group that is in no tree, or placed outside of it, both are equal.
	Members, Tree *gang.Members
	// Others are the keys of the other groups of the tree, its CompositePodGroup included.
	Others []types.NamespacedName
}

// policy returns the settings of a new PodGroup or CompositePodGroup. The tree of the group must
// have a living member. If the object does not set a field, the value comes from the pods. All
// groups of a tree get the same class and queue. above is a message if the object names a class
// with a higher priority than the class of its pods. The error comes from classFor.
func policy(d *Derivation, queueNamedBy func(*corev1.Pod) string, classes schedulinglisters.PriorityClassLister) (out v1alpha1.PodGroupPolicy, above string, err error) {
	g, live := d.Group, living(d.Tree)
	class, above, err := classFor(g, live, classes)
	if err != nil {
		return out, "", err
	}
	out = v1alpha1.PodGroupPolicy{
		SchedulingPolicy: &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: minCountOf(g, d.Members)}},
	}
	if mode := cmp.Or(g.Choice.DisruptionMode, g.Choice.DefaultMode); mode != "" {
		out.DisruptionMode = ptr.To(v1alpha1.DisruptionMode(mode))
	}
	lowest := lowestOf(live)
	if class != "" {
		out.PriorityClassName = &class
	}
	if class == lowest.Spec.PriorityClassName && g.IsBounded() {
		// Use the priority of the pod, not of its class: the value of the class may have changed
		// after the pod was created.
		out.Priority, out.PreemptionPolicy = ptr.To(corev1helpers.PodPriority(lowest)), ptr.To(corev1.PreemptLowerPriority)
		if slices.ContainsFunc(live, neverPreempts) {
			out.PreemptionPolicy = ptr.To(corev1.PreemptNever)
		}
	}
	if g.Tree {
		return out, above, nil
	}
	if queue := cmp.Or(g.Choice.Queue, queueNamedBy(lowest), g.Choice.DefaultQueue); queue != "" {
		out.QueueName = &queue
	}
	if parent, ok := gang.CompositeOf(g.Parent); ok {
		out.ParentCompositePodGroupName = &parent.Name
	}
	out.SchedulingConstraints = g.Choice.Constraints()
	return out, above, nil
}

func neverPreempts(pod *corev1.Pod) bool {
	return ptr.Deref(pod.Spec.PreemptionPolicy, corev1.PreemptLowerPriority) == corev1.PreemptNever
}

// lowestOf returns the pod with the lowest priority. The group gets the class of this pod. So the
// group raises the priority of no pod.
func lowestOf(pods []*corev1.Pod) *corev1.Pod {
	return slices.MinFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(corev1helpers.PodPriority(a), corev1helpers.PodPriority(b)), cmp.Compare(a.Name, b.Name))
	})
}

// classFor returns the PriorityClass of a group. The annotation of an object never raises the group
// above its pods, because quotas and admission policies check only the classes of pods. If the
// annotation names a higher class, the group gets the class of its pods, and above is a message
// about this. The class of the namespace may be higher than the class of the pods, because
// administrators set it. classFor returns an error if the class in the annotation does not exist.
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
		above = fmt.Sprintf("%s %s asks for %s: %q, whose priority %d is above that of its pods, %d; the %s has theirs",
			g.Owner.Kind, g.Owner.Name, v1alpha1.AnnotationPriorityClass, wanted, found.Value, corev1helpers.PodPriority(lowest), kindOf(&g))
	case mayPreempt && never:
		above = fmt.Sprintf("%s %s asks for %s: %q, which may preempt, and its pods may not; the %s has their class",
			g.Owner.Kind, g.Owner.Name, v1alpha1.AnnotationPriorityClass, wanted, kindOf(&g))
	default:
		return wanted, "", nil
	}
	return lowest.Spec.PriorityClassName, above, nil
}

// kindOf returns the kind of the object that Derive writes for a derived group.
func kindOf(g *grouping.Group) string {
	if g.Tree {
		return "CompositePodGroup"
	}
	return "PodGroup"
}

// settingsOf returns a text of all settings of a policy except its counts. Two policies have the
// same text only if these settings are equal.
func settingsOf(p *v1alpha1.PodGroupPolicy) string {
	return fmt.Sprint(differences(&v1alpha1.PodGroupPolicy{}, p), ptr.Deref(p.Priority, 0), ptr.Deref(p.PreemptionPolicy, ""))
}

// differences lists the settings whose values differ between two policies; "" for none. have is the
// policy of a PodGroup, and now is the policy that a new PodGroup would get.
func differences(have, now *v1alpha1.PodGroupPolicy) string {
	var out []string
	for _, s := range []struct{ setting, have, now string }{
		{"disruptionMode", modeOf(have), modeOf(now)},
		{"priorityClassName", ptr.Deref(have.PriorityClassName, ""), ptr.Deref(now.PriorityClassName, "")},
		{"queueName", ptr.Deref(have.QueueName, ""), ptr.Deref(now.QueueName, "")},
		{"parentCompositePodGroupName", ptr.Deref(have.ParentCompositePodGroupName, ""), ptr.Deref(now.ParentCompositePodGroupName, "")},
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

// levelsOf returns the preferred topology keys of a policy, separated by commas as in the
// annotation.
func levelsOf(p *v1alpha1.PodGroupPolicy) string { return strings.Join(p.PreferredKeys(), ",") }

// differs describes the first setting of a PodGroup that differs from its object and cannot be
// changed; "" for none.
func differs(pg *v1alpha1.PodGroup, g grouping.Group) string {
	for _, s := range []struct{ annotation, want, have string }{
		{v1alpha1.AnnotationDisruptionMode, g.Choice.DisruptionMode, string(ptr.Deref(pg.Spec.DisruptionMode, v1alpha1.DisruptionModePod))},
		{v1alpha1.AnnotationPriorityClass, g.Choice.PriorityClass, ptr.Deref(pg.Spec.PriorityClassName, "")},
		{v1alpha1.AnnotationQueue, g.Choice.Queue, ptr.Deref(pg.Spec.QueueName, "")},
		{v1alpha1.AnnotationTopologyKey, g.Choice.TopologyKey, pg.Spec.TopologyKey()},
		{v1alpha1.AnnotationPreferredTopologyKey, strings.Join(g.Choice.Levels(), ","), levelsOf(&pg.Spec.PodGroupPolicy)},
	} {
		if s.want != "" && s.want != s.have {
			return fmt.Sprintf("%s %s asks for %s: %q, and the %s was made with %q, which cannot be changed; it counts from its next run on",
				g.Owner.Kind, g.Owner.Name, s.annotation, s.want, kindOf(&g), s.have)
		}
	}
	return ""
}

// dropped describes the first setting of a PodGroup that its object requested when the PodGroup was
// created, and no longer requests; "" for none. dropped ignores settings that came from the pods,
// because the object never requested them.
func dropped(pg *v1alpha1.PodGroup, now *v1alpha1.PodGroupPolicy, g grouping.Group) string {
	has := func(annotation string) bool { return pg.Annotations[annotation] != "" }
	for _, s := range []struct {
		setting, have, now string
		wasAsked           bool
	}{
		{"disruptionMode", modeOf(&pg.Spec.PodGroupPolicy), modeOf(now), true},
		{"priorityClassName", ptr.Deref(pg.Spec.PriorityClassName, ""), ptr.Deref(now.PriorityClassName, ""), has(v1alpha1.AnnotationClassOf)},
		{"queueName", ptr.Deref(pg.Spec.QueueName, ""), ptr.Deref(now.QueueName, ""), has(v1alpha1.AnnotationQueueOf)},
		{"parentCompositePodGroupName", ptr.Deref(pg.Spec.ParentCompositePodGroupName, ""), ptr.Deref(now.ParentCompositePodGroupName, ""), true},
		{"topology key", pg.Spec.TopologyKey(), now.TopologyKey(), true},
		{"preferred topology keys", levelsOf(&pg.Spec.PodGroupPolicy), levelsOf(now), true},
	} {
		if s.wasAsked && s.have != s.now {
			return fmt.Sprintf("for %s %s, the %s would be made with %s %q now, and was made with %q, which cannot be changed; it counts from its next run on",
				g.Owner.Kind, g.Owner.Name, kindOf(&g), s.setting, s.now, s.have)
		}
	}
	return ""
}

// markEarlier adds the annotation about the source of the class to a PodGroup whose class comes
// from the namespace. Earlier versions of Reprieve did not write this annotation. markEarlier
// reports whether it changed the PodGroup.
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
