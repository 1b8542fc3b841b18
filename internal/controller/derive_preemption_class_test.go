package controller

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/grouping"
)

// TestFollowPreemptionClass checks that preemptionPriorityClassName of a derived group follows the
// annotation. Without an annotation, a class that a user has set stays.
func TestFollowPreemptionClass(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// have is the field and source the annotation, both before the call. priorityClass is the
		// class of the group.
		have, source, priorityClass string
		asks                        string
		ofNamespace                 bool
		want, wantSource, wantFlaw  string
		wantChange                  bool
	}{
		"nothing":                   {},
		"set":                       {asks: "high", want: "high", wantSource: v1alpha1.FromObject, wantChange: true},
		"set by the namespace":      {asks: "high", ofNamespace: true, want: "high", wantSource: v1alpha1.FromNamespace, wantChange: true},
		"as it is":                  {have: "high", source: v1alpha1.FromObject, asks: "high", want: "high", wantSource: v1alpha1.FromObject},
		"changed":                   {have: "high", source: v1alpha1.FromObject, asks: "mid", want: "mid", wantSource: v1alpha1.FromObject, wantChange: true},
		"the object takes over":     {have: "high", source: v1alpha1.FromNamespace, asks: "high", want: "high", wantSource: v1alpha1.FromObject, wantChange: true},
		"changed by a user":         {have: "other", source: v1alpha1.FromObject, asks: "high", want: "high", wantSource: v1alpha1.FromObject, wantChange: true},
		"its source was removed":    {have: "high", asks: "high", want: "high", wantSource: v1alpha1.FromObject, wantChange: true},
		"removed":                   {have: "high", source: v1alpha1.FromObject, wantChange: true},
		"set by a user":             {have: "high", want: "high"},
		"of the system":             {have: "high", source: v1alpha1.FromObject, asks: "system-node-critical", wantChange: true, wantFlaw: "are for work of the system"},
		"below a class of system":   {priorityClass: "system-node-critical", asks: "high", wantFlaw: "every other class is below it"},
		"longer than a name can be": {asks: strings.Repeat("a", 254), wantFlaw: "at most 253 characters"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := &v1alpha1.PodGroup{}
			if c.have != "" {
				pg.Spec.PreemptionPriorityClassName = &c.have
			}
			if c.priorityClass != "" {
				pg.Spec.PriorityClassName = &c.priorityClass
			}
			if c.source != "" {
				metav1.SetMetaDataAnnotation(&pg.ObjectMeta, v1alpha1.AnnotationPreemptionClassOf, c.source)
			}
			g := grouping.Group{Choice: grouping.Choice{PreemptionPriorityClass: c.asks, PreemptionClassOfNamespace: c.ofNamespace}}
			changed := followPreemptionClass(pg, g.Choice)
			got, source := ptr.Deref(pg.Spec.PreemptionPriorityClassName, ""), pg.Annotations[v1alpha1.AnnotationPreemptionClassOf]
			if changed != c.wantChange || got != c.want || source != c.wantSource {
				t.Errorf("changed: %t, class %q of %q; want %t, %q of %q", changed, got, source, c.wantChange, c.want, c.wantSource)
			}
			if followPreemptionClass(pg, g.Choice) {
				t.Error("it changes again")
			}
			if flaw := flawOfPreemptionClass(pg, g); !strings.Contains(flaw, c.wantFlaw) || (flaw == "") != (c.wantFlaw == "") {
				t.Errorf("the flaw is %q, want %q", flaw, c.wantFlaw)
			}
		})
	}
}
