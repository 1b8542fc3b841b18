package controller

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
)

// followPreemptionClass sets preemptionPriorityClassName to the class that the annotation of the
// object or of its namespace names, and records the source. If there is no annotation, or the API
// does not accept the name, a class that users have set in the PodGroup stays. The function reports
// whether the PodGroup has changed.
func followPreemptionClass(pg *v1alpha1.PodGroup, c grouping.Choice) bool {
	class, from := c.PreemptionPriorityClass, v1alpha1.FromObject
	if gang.FlawOfPreemptionClass(class, ptr.Deref(pg.Spec.PriorityClassName, "")) != "" {
		class = ""
	}
	source := pg.Annotations[v1alpha1.AnnotationPreemptionClassOf]
	switch {
	case class == "" && source == "":
		return false
	case class == "":
		pg.Spec.PreemptionPriorityClassName = nil
		delete(pg.Annotations, v1alpha1.AnnotationPreemptionClassOf)
		return true
	case c.PreemptionClassOfNamespace:
		from = v1alpha1.FromNamespace
	}
	if source == from && ptr.Deref(pg.Spec.PreemptionPriorityClassName, "") == class {
		return false
	}
	pg.Spec.PreemptionPriorityClassName = &class
	metav1.SetMetaDataAnnotation(&pg.ObjectMeta, v1alpha1.AnnotationPreemptionClassOf, from)
	return true
}

// flawOfPreemptionClass returns a message if the annotation for preemptionPriorityClassName has a
// name that the API does not accept; otherwise "".
func flawOfPreemptionClass(pg *v1alpha1.PodGroup, g grouping.Group) string {
	class := g.Choice.PreemptionPriorityClass
	if class == "" {
		return ""
	}
	flaw := gang.FlawOfPreemptionClass(class, ptr.Deref(pg.Spec.PriorityClassName, ""))
	if flaw == "" {
		return ""
	}
	return fmt.Sprintf("%s %s asks for %s: %q, which has no effect: %s",
		g.Owner.Kind, g.Owner.Name, v1alpha1.AnnotationPreemptionPriorityClass, class, flaw)
}
