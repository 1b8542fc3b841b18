package grouping

import (
	"slices"
	"testing"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestConstraints checks the constraints of a PodGroup from the annotations of an object and its
// namespace. The preferred levels come first, in their order, and the required level comes last.
func TestConstraints(t *testing.T) {
	t.Parallel()
	rack := v1alpha1.TopologyConstraint{Key: "rack", Mode: v1alpha1.TopologyModePreferred}
	block := v1alpha1.TopologyConstraint{Key: "block", Mode: v1alpha1.TopologyModePreferred}
	for name, c := range map[string]struct {
		own, inherited map[string]string
		want           []v1alpha1.TopologyConstraint
	}{
		"none":          {},
		"a required":    {own: map[string]string{v1alpha1.AnnotationTopologyKey: "zone"}, want: []v1alpha1.TopologyConstraint{{Key: "zone"}}},
		"two preferred": {own: map[string]string{v1alpha1.AnnotationPreferredTopologyKey: "rack, block"}, want: []v1alpha1.TopologyConstraint{rack, block}},
		"of the namespace": {
			own:       map[string]string{v1alpha1.AnnotationTopologyKey: "zone"},
			inherited: map[string]string{v1alpha1.AnnotationPreferredTopologyKey: "rack"},
			want:      []v1alpha1.TopologyConstraint{rack, {Key: "zone"}},
		},
		"the namespace prefers the required key": {
			own:       map[string]string{v1alpha1.AnnotationTopologyKey: "rack"},
			inherited: map[string]string{v1alpha1.AnnotationPreferredTopologyKey: "rack,block"},
			want:      []v1alpha1.TopologyConstraint{block, {Key: "rack"}},
		},
		"the namespace requires a preferred key": {
			own:       map[string]string{v1alpha1.AnnotationPreferredTopologyKey: "rack"},
			inherited: map[string]string{v1alpha1.AnnotationTopologyKey: "rack"},
			want:      []v1alpha1.TopologyConstraint{{Key: "rack"}},
		},
	} {
		choice := choiceOf(c.own, nil).or(choiceOf(c.inherited, nil))
		if flaw := choice.flaw(); flaw != "" {
			t.Errorf("%s: %s", name, flaw)
		}
		var got []v1alpha1.TopologyConstraint
		if constraints := choice.Constraints(); constraints != nil {
			got = constraints.Topology
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
