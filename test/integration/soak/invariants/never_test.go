package invariants

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestNever checks the protection of a PodGroup in disruption mode Never. The class "led" protects
// such PodGroups from priorities below 5000 for 20 seconds, and the class "higher" from none.
func TestNever(t *testing.T) {
	t.Parallel()
	never := func(pg *v1alpha1.PodGroup) { pg.Spec.DisruptionMode = ptr.To(v1alpha1.DisruptionModeNever) }
	below := func(parent string) func(*v1alpha1.PodGroup) {
		return func(pg *v1alpha1.PodGroup) { pg.Spec.ParentCompositePodGroupName = &parent }
	}
	// evicted returns a story: a member of a PodGroup below a tree is evicted after some seconds.
	evicted := func(class string, mode v1alpha1.CompositeDisruptionMode, after int, change ...func(*v1alpha1.PodGroup)) func(*story) {
		return func(s *story) {
			led := classOf("led", 100, "", "")
			led.Annotations = map[string]string{minimumPriority: "5000", neverSeconds: "20"}
			s.SeeClass(led)
			root := &v1alpha1.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "root", UID: "root"}}
			root.Spec.PriorityClassName, root.Spec.DisruptionMode = &class, &mode
			s.SeeTree(root)
			s.group("g", "low", 2, 2, change...)
			s.bind("g-0", "g-1")
			s.wait(after)
			s.pod("taker", "high", asking(8))
			s.mark("g-0", "Pod", "taker")
		}
	}
	run(t, map[string]caseOf{
		"within the time":      {want: ProtectionBroken, tell: evicted("led", v1alpha1.CompositeDisruptionModeSingle, 18, below("root"), never)},
		"after the time":       {tell: evicted("led", v1alpha1.CompositeDisruptionModeSingle, 20, below("root"), never)},
		"another mode":         {tell: evicted("led", v1alpha1.CompositeDisruptionModeSingle, 1, below("root"))},
		"below the mode All":   {tell: evicted("led", v1alpha1.CompositeDisruptionModeAll, 1, below("root"), never)},
		"a class without time": {tell: evicted("low", v1alpha1.CompositeDisruptionModeSingle, 1, below("root"), never)},
		"an unknown parent":    {tell: evicted("led", v1alpha1.CompositeDisruptionModeSingle, 1, below("other"), never)},
		"a mode that was set after the placement": {tell: func(s *story) {
			evicted("led", v1alpha1.CompositeDisruptionModeSingle, 0, below("root"))(s)
			s.groupObject("g", "low", 2, "", below("root"), never)
			s.mark("g-1", "Pod", "taker")
		}},
	})
}
