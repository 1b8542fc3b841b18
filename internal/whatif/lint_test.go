package whatif

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestLintLostWork checks that annotations about lost work are reported if they are on objects
// other than pods and PodGroups, or have invalid values.
func TestLintLostWork(t *testing.T) {
	t.Parallel()
	of := func(value string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "o", Annotations: map[string]string{v1alpha1.AnnotationRestartCost: value}}
	}
	l := &Linter{}
	for name, c := range map[string]struct {
		found []Mistake
		want  []string
	}{
		"a Job":                    {l.Object("job o", &metav1.ObjectMeta{Annotations: of("1m").Annotations}), []string{"UnknownAnnotation"}},
		"a Job, an invalid value":  {l.Object("job o", &metav1.ObjectMeta{Annotations: of("1d").Annotations}), []string{"InvalidAnnotation", "UnknownAnnotation"}},
		"a PodGroup":               {l.PodGroup("podgroup o", &v1alpha1.PodGroup{ObjectMeta: of("1m")}), nil},
		"a PodGroup, invalid":      {l.PodGroup("podgroup o", &v1alpha1.PodGroup{ObjectMeta: of("1d")}), []string{"InvalidAnnotation"}},
		"a native PodGroup":        {l.NativePodGroup("podgroup o", &metav1.ObjectMeta{Annotations: of("1m").Annotations}), nil},
		"without such annotations": {l.Object("job o", &metav1.ObjectMeta{}), nil},
	} {
		var kinds []string
		for _, m := range c.found {
			kinds = append(kinds, m.Kind)
		}
		if slices.Sort(kinds); !slices.Equal(kinds, c.want) {
			t.Errorf("%s: got %v, want %q", name, c.found, c.want)
		}
	}
}

// TestLintTopology checks that topology keys are reported if no node has a label with the key.
func TestLintTopology(t *testing.T) {
	t.Parallel()
	l := &Linter{nodeLabels: []string{"example.com/rack"}}
	topology := []v1alpha1.TopologyConstraint{
		{Key: "example.com/rack", Mode: v1alpha1.TopologyModePreferred}, {Key: "example.com/block", Mode: v1alpha1.TopologyModePreferred}, {Key: "zone"},
	}
	group := &v1alpha1.PodGroup{Spec: v1alpha1.PodGroupSpec{PodGroupPolicy: v1alpha1.PodGroupPolicy{
		SchedulingConstraints: &v1alpha1.SchedulingConstraints{Topology: topology},
	}}}
	job := &metav1.ObjectMeta{Annotations: map[string]string{
		v1alpha1.AnnotationPreferredTopologyKey: "example.com/rack, example.com/rac", v1alpha1.AnnotationTopologyKey: "zone",
	}}
	for name, c := range map[string]struct {
		found []Mistake
		want  []string
	}{
		"a PodGroup":        {l.PodGroup("podgroup o", group), []string{"no node has a value of the label example.com/block; did you mean example.com/rack?", "no node has a value of the label zone"}},
		"a Job":             {l.Object("job o", job), []string{"no node has a value of the label example.com/rac; did you mean example.com/rack?", "no node has a value of the label zone"}},
		"no node is listed": {(&Linter{}).PodGroup("podgroup o", group), nil},
	} {
		var messages []string
		for _, m := range c.found {
			if m.Kind != "UnknownTopologyKey" {
				t.Errorf("%s: kind %s", name, m.Kind)
			}
			messages = append(messages, m.Message)
		}
		if !slices.Equal(messages, c.want) {
			t.Errorf("%s: got %q, want %q", name, messages, c.want)
		}
	}
}
