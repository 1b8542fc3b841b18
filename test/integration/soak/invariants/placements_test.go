package invariants

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// regroup deletes the PodGroup of a gang and creates a PodGroup with the same name and minCount 2.
func (s *story) regroup(name, class string, change ...func(*v1alpha1.PodGroup)) {
	s.GroupGone(s.now, types.NamespacedName{Namespace: "ns", Name: name})
	s.groupObject(name, class, 2, "-again", change...)
}

func inTeam(pg *v1alpha1.PodGroup) { pg.Spec.QueueName = ptr.To("a") }

// TestTenants tests running work whose owner changes labels and PodGroups.
func TestTenants(t *testing.T) {
	t.Parallel()
	unlabeled := func(pod *corev1.Pod) { clear(pod.Labels) }
	run(t, map[string]caseOf{
		"a pod without its label counts for its queue": {want: LimitExceeded, tell: func(s *story) {
			s.pod("x", "low", inQueue("a"), asking(4))
			s.pod("y", "low", inQueue("a"), asking(1))
			s.bind("x")
			s.change("x", unlabeled)
			s.bind("y")
		}},
		"members without a PodGroup count for its queue": {want: LimitExceeded, tell: func(s *story) {
			s.group("g", "low", 2, 2, inTeam)
			s.bind("g-0", "g-1")
			s.GroupGone(s.now, types.NamespacedName{Namespace: "ns", Name: "g"})
			s.pod("y", "low", inQueue("a"), asking(3))
			s.bind("y")
		}},
		"a better class protects members that get a node later": {want: ProtectionBroken, tell: func(s *story) {
			s.pod("taker", "high", asking(8))
			s.group("g", "sturdy", 1, 1)
			s.bind("g-0")
			s.mark("g-0", "Pod", "taker")
		}},
		"a better class protects no running member": {tell: func(s *story) {
			s.pair()
			s.regroup("g", "sturdy", whole)
			s.list("g", "taker", "g-0", "g-1")
		}},
		"a higher priority protects no running member": {tell: func(s *story) {
			s.group("g", "low", 2, 2, inTeam)
			s.bind("g-0", "g-1")
			s.wait(10)
			s.regroup("g", "high", inTeam)
			s.pod("taker", "high", inQueue("a"))
			s.mark("g-0", "Pod", "taker")
		}},
		"the mode PodGroup protects no running member": {tell: func(s *story) {
			s.group("g", "low", 2, 2)
			s.bind("g-0", "g-1")
			s.regroup("g", "low", whole)
			s.wait(11)
			s.pod("taker", "high")
			s.mark("g-0", "Pod", "taker")
		}},
		"another PodGroup continues the clock": {tell: func(s *story) {
			s.group("g", "low", 2, 2, whole, inTeam)
			s.bind("g-0", "g-1")
			s.wait(10)
			s.regroup("g", "low", whole, inTeam)
			s.gone("g-0")
			s.pod("g-2", "low", inGroup("g"))
			s.bind("g-2")
			s.gone("g-1")
			s.pod("g-3", "low", inGroup("g"))
			s.bind("g-3")
			s.pod("taker", "high", inQueue("a"))
			s.list("g", "taker", "g-2", "g-3")
		}},
		"another PodGroup with other members does not": {want: ProtectionBroken, tell: func(s *story) {
			s.group("g", "low", 2, 2, whole, inTeam)
			s.bind("g-0", "g-1")
			s.wait(10)
			s.gone("g-0")
			s.gone("g-1")
			s.regroup("g", "low", whole, inTeam)
			s.pod("g-2", "low", inGroup("g"))
			s.pod("g-3", "low", inGroup("g"))
			s.bind("g-2", "g-3")
			s.wait(3)
			s.pod("taker", "high", inQueue("a"))
			s.list("g", "taker", "g-2", "g-3")
		}},
		"a member of a deleted PodGroup continues its clock": {tell: func(s *story) {
			s.group("g", "low", 2, 2, inTeam)
			s.bind("g-0", "g-1")
			s.wait(10)
			s.gone("g-0")
			s.pod("g-2", "low", inGroup("g"))
			s.bind("g-2")
			s.GroupGone(s.now, types.NamespacedName{Namespace: "ns", Name: "g"})
			s.pod("taker", "high", inQueue("a"))
			s.mark("g-2", "Pod", "taker")
		}},
		"an eviction outlasts the PodGroup": {tell: func(s *story) {
			s.pair()
			s.list("g", "taker", "g-0", "g-1")
			s.mark("g-0", "Pod", "taker")
			s.remove("g-0")
			s.regroup("g", "low", whole)
			s.mark("g-1", "Pod", "taker")
			s.remove("g-1")
		}},
		"an eviction of single pods outlasts their time without a PodGroup": {tell: func(s *story) {
			s.pair()
			s.regroup("g", "low", whole)
			s.mark("g-0", "Pod", "taker")
		}},
		"but not for long": {want: GroupPartlyEvicted, tell: func(s *story) {
			s.pair()
			s.regroup("g", "low", whole)
			s.wait(11)
			s.mark("g-0", "Pod", "taker")
		}},
		"a gang whose minCount rises may wait": {tell: func(s *story) {
			s.group("g", "low", 2, 3)
			s.bind("g-0")
			s.groupObject("g", "low", 3, "")
			s.wait(60)
		}},
	})
}
