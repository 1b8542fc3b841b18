package grouping

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// Choice has the users' settings for a group, from an object or its namespace. Empty fields are not
// set.
type Choice struct {
	// Gang is "true" or "false".
	Gang string
	// Per is a value of v1alpha1.AnnotationGangPer.
	Per            string
	DisruptionMode string
	// DefaultMode is the disruption mode if neither the object nor its namespace sets one; "" for
	// the API's default.
	DefaultMode   string
	PriorityClass string
	// ClassOfNamespace is true if the class comes from the namespace and not from the object.
	ClassOfNamespace bool
	Queue            string
	// DefaultQueue is the namespace's queue, for objects whose pods name none either.
	DefaultQueue string
	// TopologyKey is the node label whose value all members share; "" for none.
	TopologyKey string
}

// choiceOf reads annotations. An object may also name its queue by a label, as pods do.
func choiceOf(annotations, labels map[string]string) Choice {
	return Choice{
		Gang: annotations[v1alpha1.AnnotationGang], Per: annotations[v1alpha1.AnnotationGangPer],
		DisruptionMode: annotations[v1alpha1.AnnotationDisruptionMode],
		PriorityClass:  annotations[v1alpha1.AnnotationPriorityClass],
		Queue:          cmp.Or(annotations[v1alpha1.AnnotationQueue], labels[v1alpha1.LabelQueue]),
		TopologyKey:    annotations[v1alpha1.AnnotationTopologyKey],
	}
}

// or fills in unset fields from a namespace's choice.
func (c Choice) or(other Choice) Choice {
	return Choice{
		Gang: cmp.Or(c.Gang, other.Gang), Per: cmp.Or(c.Per, other.Per), DisruptionMode: cmp.Or(c.DisruptionMode, other.DisruptionMode),
		DefaultMode:   c.DefaultMode,
		PriorityClass: cmp.Or(c.PriorityClass, other.PriorityClass), ClassOfNamespace: c.PriorityClass == "" && other.PriorityClass != "", Queue: c.Queue, DefaultQueue: other.Queue,
		TopologyKey: cmp.Or(c.TopologyKey, other.TopologyKey),
	}
}

// flaw returns the reason why a choice is invalid; "" if it is valid.
func (c Choice) flaw() string {
	for _, check := range []struct {
		annotation, value string
		allowed           [2]string
	}{
		{v1alpha1.AnnotationGang, c.Gang, [2]string{"true", "false"}},
		{v1alpha1.AnnotationGangPer, c.Per, [2]string{v1alpha1.GangPerObject, v1alpha1.GangPerRole}},
		{v1alpha1.AnnotationDisruptionMode, c.DisruptionMode, [2]string{string(v1alpha1.DisruptionModePod), string(v1alpha1.DisruptionModePodGroup)}},
	} {
		if check.value != "" && check.value != check.allowed[0] && check.value != check.allowed[1] {
			return fmt.Sprintf("the annotation %s is %q; it has to be %q or %q", check.annotation, check.value, check.allowed[0], check.allowed[1])
		}
	}
	if flaws := validation.IsQualifiedName(c.TopologyKey); c.TopologyKey != "" && len(flaws) > 0 {
		return fmt.Sprintf("the annotation %s is %q; it has to be the key of a node label: %s", v1alpha1.AnnotationTopologyKey, c.TopologyKey, strings.Join(flaws, "; "))
	}
	return ""
}

// allowed returns the reason why a choice is not allowed in a namespace; "" if it is. The admission
// policies reject the same for PodGroups that users write.
func (c Choice) allowed(namespace string) string {
	if strings.HasPrefix(c.PriorityClass, "system-") && namespace != metav1.NamespaceSystem {
		return fmt.Sprintf("the annotation %s is %q, which is for namespace %s only", v1alpha1.AnnotationPriorityClass, c.PriorityClass, metav1.NamespaceSystem)
	}
	return ""
}
