package whatif

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestLintLostWork checks that annotations about lost work are reported where they have no effect:
// on other objects than pods and PodGroups, and with invalid values.
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
