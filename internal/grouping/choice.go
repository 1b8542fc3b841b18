package grouping

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// Choice holds the settings for a group that users choose by annotations of an object or its
// namespace. An empty field is not set.
type Choice struct {
	// Gang is "true" or "false".
	Gang string
	// Per is a value of the annotation v1alpha1.AnnotationGangPer.
	Per string
	// DisruptionMode is a mode of a PodGroup. For a tree, it may also be
	// v1alpha1.CompositeDisruptionModeAll.
	DisruptionMode string
	// DefaultMode is the disruption mode for groups whose object and namespace set none. It is
	// empty for the API's default.
	DefaultMode   string
	PriorityClass string
	// ClassOfNamespace is true if PriorityClass comes from the namespace and not from the object.
	ClassOfNamespace bool
	Queue            string
	// DefaultQueue is the namespace's queue. It applies if neither the object nor its pods name a
	// queue.
	DefaultQueue string
	// TopologyKey is the node label whose value all members must share. It is empty for none.
	TopologyKey string
	// PreferredKeys are the node labels whose values the members should share, separated by commas,
	// the nearest level first. It is empty for none.
	PreferredKeys string
	// PreemptionPriorityClass is the PriorityClass that applies while the group is a potential
	// victim. It is empty for none.
	PreemptionPriorityClass string
	// PreemptionClassOfNamespace is true if PreemptionPriorityClass comes from the namespace and
	// not from the object.
	PreemptionClassOfNamespace bool
}

// choiceOf reads a Choice from annotations. An object may also name its queue by a label, as pods
// do.
func choiceOf(annotations, labels map[string]string) Choice {
	return Choice{
		Gang: annotations[v1alpha1.AnnotationGang], Per: annotations[v1alpha1.AnnotationGangPer],
		DisruptionMode: annotations[v1alpha1.AnnotationDisruptionMode],
		PriorityClass:  annotations[v1alpha1.AnnotationPriorityClass],
		Queue:          cmp.Or(annotations[v1alpha1.AnnotationQueue], labels[v1alpha1.LabelQueue]),
		TopologyKey:    annotations[v1alpha1.AnnotationTopologyKey],
		PreferredKeys:  annotations[v1alpha1.AnnotationPreferredTopologyKey],

		PreemptionPriorityClass: annotations[v1alpha1.AnnotationPreemptionPriorityClass],
	}
}

// or returns the choice with its unset fields filled in from another choice, such as the
// namespace's. If the result has one of TopologyKey and PreferredKeys from each choice, the method
// or removes the required key from the preferred keys. A key must not be both.
func (c Choice) or(other Choice) Choice {
	out := c.orAny(other)
	if (c.TopologyKey == "") != (c.PreferredKeys == "") {
		out.PreferredKeys = strings.Join(slices.DeleteFunc(out.Levels(), func(key string) bool { return key == out.TopologyKey }), ",")
	}
	return out
}

func (c Choice) orAny(other Choice) Choice {
	return Choice{
		Gang: cmp.Or(c.Gang, other.Gang), Per: cmp.Or(c.Per, other.Per), DisruptionMode: cmp.Or(c.DisruptionMode, other.DisruptionMode),
		DefaultMode:   c.DefaultMode,
		PriorityClass: cmp.Or(c.PriorityClass, other.PriorityClass), ClassOfNamespace: c.PriorityClass == "" && other.PriorityClass != "", Queue: c.Queue, DefaultQueue: other.Queue,
		TopologyKey: cmp.Or(c.TopologyKey, other.TopologyKey), PreferredKeys: cmp.Or(c.PreferredKeys, other.PreferredKeys),
		PreemptionPriorityClass:    cmp.Or(c.PreemptionPriorityClass, other.PreemptionPriorityClass),
		PreemptionClassOfNamespace: c.PreemptionPriorityClass == "" && other.PreemptionPriorityClass != "",
	}
}

// flaw returns the reason why a choice is invalid. It is empty if the choice is valid.
func (c Choice) flaw() string {
	modes := []string{string(v1alpha1.DisruptionModePod), string(v1alpha1.DisruptionModePodGroup)}
	if c.Per == v1alpha1.GangPerTree {
		modes = append(modes, string(v1alpha1.CompositeDisruptionModeAll))
	}
	for _, check := range []struct {
		annotation, value string
		allowed           []string
	}{
		{v1alpha1.AnnotationGang, c.Gang, []string{"true", "false"}},
		{v1alpha1.AnnotationGangPer, c.Per, []string{v1alpha1.GangPerObject, v1alpha1.GangPerRole, v1alpha1.GangPerTree}},
		{v1alpha1.AnnotationDisruptionMode, c.DisruptionMode, modes},
	} {
		if check.value != "" && !slices.Contains(check.allowed, check.value) {
			return fmt.Sprintf("the annotation %s is %q; it has to be %s", check.annotation, check.value, either(check.allowed))
		}
	}
	if flaws := validation.IsQualifiedName(c.TopologyKey); c.TopologyKey != "" && len(flaws) > 0 {
		return fmt.Sprintf("the annotation %s is %q; it has to be the key of a node label: %s", v1alpha1.AnnotationTopologyKey, c.TopologyKey, strings.Join(flaws, "; "))
	}
	return c.flawOfLevels()
}

// either returns quoted values for a message: "a", "b" or "c".
func either(values []string) string {
	quoted := make([]string, len(values))
	for i, value := range values {
		quoted[i] = strconv.Quote(value)
	}
	last := len(quoted) - 1
	return strings.Join(quoted[:last], ", ") + " or " + quoted[last]
}

// mostPreferred is the maximum number of preferred levels. The API allows one more level, which is
// the required one.
const mostPreferred = 4

// Levels returns the keys of the preferred levels, the nearest first.
func (c Choice) Levels() []string {
	if c.PreferredKeys == "" {
		return nil
	}
	keys := strings.Split(c.PreferredKeys, ",")
	for i := range keys {
		keys[i] = strings.TrimSpace(keys[i])
	}
	return keys
}

// Constraints returns the scheduling constraints for the PodGroup. It returns nil if there are
// none.
func (c Choice) Constraints() *v1alpha1.SchedulingConstraints {
	var topology []v1alpha1.TopologyConstraint
	for _, key := range c.Levels() {
		topology = append(topology, v1alpha1.TopologyConstraint{Key: key, Mode: v1alpha1.TopologyModePreferred})
	}
	if c.TopologyKey != "" {
		topology = append(topology, v1alpha1.TopologyConstraint{Key: c.TopologyKey})
	}
	if len(topology) == 0 {
		return nil
	}
	return &v1alpha1.SchedulingConstraints{Topology: topology}
}

// flawOfLevels returns the reason why the preferred levels are invalid. It is empty if they are
// valid.
func (c Choice) flawOfLevels() string {
	keys := c.Levels()
	if len(keys) > mostPreferred {
		return fmt.Sprintf("the annotation %s has %d keys; at most %d are allowed", v1alpha1.AnnotationPreferredTopologyKey, len(keys), mostPreferred)
	}
	for i, key := range keys {
		if flaws := validation.IsQualifiedName(key); len(flaws) > 0 {
			return fmt.Sprintf("the annotation %s is %q; each part between commas has to be the key of a node label, and %q is not: %s",
				v1alpha1.AnnotationPreferredTopologyKey, c.PreferredKeys, key, strings.Join(flaws, "; "))
		}
		if slices.Contains(keys[:i], key) {
			return fmt.Sprintf("the annotation %s is %q; it has %s twice", v1alpha1.AnnotationPreferredTopologyKey, c.PreferredKeys, key)
		}
		if key == c.TopologyKey {
			return fmt.Sprintf("the annotation %s is %q; %s is also the required key, in %s",
				v1alpha1.AnnotationPreferredTopologyKey, c.PreferredKeys, key, v1alpha1.AnnotationTopologyKey)
		}
	}
	return ""
}

// allowed returns the reason why objects in a namespace must not have this choice. The reason is
// empty if the choice is allowed. The admission policies of the API server apply the same rule to
// PodGroups that users create.
func (c Choice) allowed(namespace string) string {
	if strings.HasPrefix(c.PriorityClass, "system-") && namespace != metav1.NamespaceSystem {
		return fmt.Sprintf("the annotation %s is %q, which is for namespace %s only", v1alpha1.AnnotationPriorityClass, c.PriorityClass, metav1.NamespaceSystem)
	}
	return ""
}
