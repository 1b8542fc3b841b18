package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestSealOfALaterMember checks the disruption mode in the seal of a member that is placed after
// others. If the PodGroup was replaced by one with the mode PodGroup, earlier members may still be
// evicted one by one. Then the later member may be, too.
func TestSealOfALaterMember(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		seal  string
		whole bool
		want  bool
	}{
		"the group was and is evicted as a whole": {seal: `{"group":"g","priority":0,"minCount":1,"whole":true}`, whole: true, want: true},
		"it was evicted pod by pod":               {seal: `{"group":"g","priority":0,"minCount":1}`, whole: true},
		"it is evicted pod by pod":                {seal: `{"group":"g","priority":0,"minCount":1,"whole":true}`},
		"the first member has no seal":            {whole: true, want: true},
		"the first member has a forged seal":      {seal: `{"group":"g","whole":`, whole: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(2, "1")...)
			r.gangOf("g", 1, 0).Whole = c.whole
			first := on(pod("g-0", "g", "1", 0), "node-0")
			first.Annotations = map[string]string{v1alpha1.AnnotationPlacedAs: c.seal}
			first.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
			later := pod("g-1", "g", "1", 0)
			r.create(first, later)
			if got := r.sched.seals.of(later); got.Whole != c.want || got.Group != "g" {
				t.Errorf("the seal is %+v, want whole: %t", got, c.want)
			}
			if g := r.sched.index.GangOf(later); r.sched.surplus.goesWhole(g) != c.want {
				t.Errorf("the group goes as a whole: %t, want %t", !c.want, c.want)
			}
		})
	}
}
