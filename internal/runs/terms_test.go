package runs

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// TestTermsBesideForgedText checks that an invalid seal on one pod does not affect the terms of the
// other pods.
func TestTermsBesideForgedText(t *testing.T) {
	t.Parallel()
	const seal = `{"group":"g","queue":"a","priority":7,"class":"low","minCount":2,"whole":true}`
	want := engine.Terms{Queue: "a", Priority: 7, Class: "low", MinCount: 2, Whole: true}
	for name, forged := range map[string]string{
		"none":            "",
		"other text":      "forged",
		"half a seal":     `{"group":"g","queue":"b","priority":9`,
		"a wrong type":    `{"group":"g","queue":"b","priority":"9"}`,
		"text after it":   seal + "}",
		"too large a sum": `{"group":"g","priority":99999999999}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			members := gang.Members{}
			for _, text := range []string{seal, forged, seal, forged, seal} {
				members.Assigned = append(members.Assigned, &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationPlacedAs: text}}, Spec: corev1.PodSpec{NodeName: "n"},
					Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
						Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
					}}},
				})
			}
			for i, m := range placedOf(&members, nil) {
				if isForged := i%2 == 1; (m.Terms == nil) != isForged || !isForged && *m.Terms != want {
					t.Errorf("the terms of member %d are %+v", i, m.Terms)
				}
			}
		})
	}
}
