package invariants

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

func TestGangs(t *testing.T) {
	t.Parallel()
	run(t, map[string]caseOf{
		"a gang that is bound within its bound": {tell: func(s *story) {
			s.group("g", "low", 3, 3)
			s.bind("g-0", "g-1")
			s.wait(25)
			s.bind("g-2")
			s.wait(60)
		}},
		"one that stays half bound": {want: GangPartlyBound, tell: func(s *story) {
			s.group("g", "low", 3, 3)
			s.bind("g-0", "g-1")
			s.wait(32)
		}},
		"while the scheduler cannot work, the bound stands still": {tell: func(s *story) {
			s.group("g", "low", 3, 3)
			s.bind("g-0")
			s.wait(10)
			s.Pause(s.now)
			s.wait(60)
			s.Resume(s.now)
			s.wait(19)
			s.bind("g-1", "g-2")
			s.wait(60)
		}},
		"and goes on after that": {want: GangPartlyBound, tell: func(s *story) {
			s.group("g", "low", 3, 3)
			s.bind("g-0")
			s.wait(10)
			s.Pause(s.now)
			s.wait(60)
			s.Resume(s.now)
			s.wait(25)
		}},
		"one that loses a member after it was whole may wait for another": {tell: func(s *story) {
			s.group("g", "low", 2, 2)
			s.bind("g-0", "g-1")
			s.remove("g-1")
			s.wait(60)
		}},
		"one that loses a member before that, as well": {tell: func(s *story) {
			s.group("g", "low", 3, 3)
			s.bind("g-0", "g-1")
			s.remove("g-1")
			s.wait(60)
		}},
		"once none is left it starts anew": {want: GangPartlyBound, tell: func(s *story) {
			s.group("g", "low", 2, 3)
			s.bind("g-0", "g-1")
			s.gone("g-0")
			s.gone("g-1")
			s.pod("g-3", "low", inGroup("g"))
			s.bind("g-2")
			s.wait(32)
		}},
	})
}

func TestGroups(t *testing.T) {
	t.Parallel()
	run(t, map[string]caseOf{
		"a group that goes whole": {tell: func(s *story) {
			s.pair()
			s.list("g", "taker", "g-0", "g-1")
			for _, pod := range []string{"g-0", "g-1"} {
				s.mark(pod, "Pod", "taker")
				s.remove(pod)
				s.wait(5)
				s.gone(pod)
			}
			s.list("g", "")
			s.wait(60)
		}},
		"one of which a pod stays": {want: GroupPartlyEvicted, tell: func(s *story) {
			s.pair()
			s.list("g", "taker", "g-0", "g-1")
			s.mark("g-0", "Pod", "taker")
			s.remove("g-0")
			s.wait(32)
		}},
		"whose record is taken off meanwhile": {want: GroupPartlyEvicted, tell: func(s *story) {
			s.pair()
			s.list("g", "taker", "g-0", "g-1")
			s.mark("g-0", "Pod", "taker")
			s.remove("g-0")
			s.list("g", "")
			s.wait(32)
		}},
		"which is let go before anything is touched": {tell: func(s *story) {
			s.pair()
			s.list("g", "taker", "g-0", "g-1")
			s.mark("g-0", "Pod", "taker")
			s.list("g", "")
			s.wait(60)
		}},
		"of which somebody else deletes a pod": {tell: func(s *story) {
			s.pair()
			s.list("g", "taker", "g-0", "g-1")
			s.mark("g-0", "Pod", "taker")
			s.Release("g-0")
			s.remove("g-0")
			s.list("g", "")
			s.wait(60)
		}},
		"of which a pod goes that is not on record": {want: GroupPartlyEvicted, tell: func(s *story) {
			s.pair()
			s.mark("g-0", "Pod", "taker")
		}},
		"of which one that had a node was left off the record": {want: GroupPartlyEvicted, tell: func(s *story) {
			s.pair()
			s.list("g", "taker", "g-0")
			s.mark("g-0", "Pod", "taker")
			s.remove("g-0")
			s.wait(1)
		}},
		"whose record is the next one's before the last has gone": {want: GroupPartlyEvicted, tell: func(s *story) {
			s.pair()
			s.pod("other", "high")
			s.list("g", "taker", "g-0", "g-1")
			s.mark("g-0", "Pod", "taker")
			s.remove("g-0")
			s.wait(20)
			s.list("g", "other", "g-0", "g-1")
			s.wait(15)
		}},
	})
}

func TestVictims(t *testing.T) {
	t.Parallel()
	run(t, map[string]caseOf{
		"a pod goes for one that stands above it": {tell: func(s *story) {
			s.pod("v", "low")
			s.bind("v")
			s.pod("taker", "high")
			s.mark("v", "Pod", "taker")
		}},
		"for one that does not": {want: VictimWithoutCause, tell: func(s *story) {
			s.pod("v", "low")
			s.bind("v")
			s.pod("taker", "low")
			s.mark("v", "Pod", "taker")
		}},
		"for one that never was": {want: VictimWithoutCause, tell: func(s *story) {
			s.pod("v", "low")
			s.bind("v")
			s.mark("v", "Pod", "taker")
		}},
		"for one that has just gone": {tell: func(s *story) {
			s.pod("v", "low")
			s.bind("v")
			s.pod("taker", "high")
			s.remove("taker")
			s.wait(3)
			s.mark("v", "Pod", "taker")
		}},
		"for one that has long gone": {want: VictimWithoutCause, tell: func(s *story) {
			s.pod("v", "low")
			s.bind("v")
			s.pod("taker", "high")
			s.gone("taker")
			s.wait(11)
			s.mark("v", "Pod", "taker")
		}},
		"for one that has long had a node": {want: VictimWithoutCause, tell: func(s *story) {
			s.pod("v", "low")
			s.pod("taker", "high")
			s.bind("v", "taker")
			s.wait(11)
			s.mark("v", "Pod", "taker")
		}},
		"for a gang that has all it wants": {want: VictimWithoutCause, tell: func(s *story) {
			s.group("taker", "high", 2, 2)
			s.pod("v", "low")
			s.bind("v", "taker-0", "taker-1")
			s.wait(11)
			s.mark("v", "PodGroup", "taker")
		}},
		"for a gang that waits for one again": {tell: func(s *story) {
			s.group("taker", "high", 2, 2)
			s.pod("v", "low")
			s.bind("v", "taker-0", "taker-1")
			s.wait(11)
			s.gone("taker-0")
			s.pod("taker-2", "high", inGroup("taker"))
			s.mark("v", "PodGroup", "taker")
		}},
		"without a word of whom for": {want: VictimWithoutCause, tell: func(s *story) {
			s.pod("v", "low")
			s.bind("v")
			s.change("v", func(pod *corev1.Pod) {
				pod.Status.Conditions = []corev1.PodCondition{{
					Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler, Message: "preempted",
				}}
			})
		}},
		"a group goes for one that has long gone": {want: VictimWithoutCause, tell: func(s *story) {
			s.pair()
			s.gone("taker")
			s.wait(11)
			s.list("g", "taker", "g-0", "g-1")
		}},
		"what has begun goes on without its reason": {tell: func(s *story) {
			s.pair()
			s.list("g", "taker", "g-0", "g-1")
			s.gone("taker")
			s.wait(11)
			for _, pod := range []string{"g-0", "g-1"} {
				s.mark(pod, "Pod", "taker")
				s.remove(pod)
			}
			s.wait(60)
		}},
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	run(t, map[string]caseOf{
		"up to the limit of the queue above": {tell: func(s *story) {
			s.pod("x", "low", inQueue("a"), asking(2))
			s.pod("y", "low", inQueue("b"), asking(2))
			s.bind("x", "y")
		}},
		"past it": {want: LimitExceeded, tell: func(s *story) {
			s.pod("x", "low", inQueue("a"), asking(2))
			s.pod("y", "low", inQueue("b"), asking(3))
			s.bind("x", "y")
		}},
		"what is on its way out counts": {want: LimitExceeded, tell: func(s *story) {
			s.pod("x", "low", inQueue("a"), asking(4))
			s.pod("y", "low", inQueue("a"), asking(4))
			s.bind("x")
			s.remove("x")
			s.bind("y")
		}},
		"what has gone does not": {tell: func(s *story) {
			s.pod("x", "low", inQueue("a"), asking(4))
			s.pod("y", "low", inQueue("a"), asking(4))
			s.bind("x")
			s.gone("x")
			s.bind("y")
		}},
		"members count for the queue of their group": {want: LimitExceeded, tell: func(s *story) {
			s.group("g", "low", 5, 5, func(pg *v1alpha1.PodGroup) { pg.Spec.QueueName = ptr.To("a") })
			s.bind("g-0", "g-1", "g-2", "g-3", "g-4")
		}},
	})
}

func TestProtections(t *testing.T) {
	t.Parallel()
	// taken returns a story: a victim runs for some seconds, and is then evicted for a preemptor.
	taken := func(victim, queue, taker, takerQueue string, after int) func(*story) {
		return func(s *story) {
			s.pod("v", victim, inQueue(queue))
			s.bind("v")
			s.wait(after)
			s.pod("taker", taker, inQueue(takerQueue), asking(8))
			s.mark("v", "Pod", "taker")
		}
	}
	run(t, map[string]caseOf{
		"a toleration for good":                     {want: ProtectionBroken, tell: taken("sturdy", "", "high", "", 1000)},
		"a toleration that has not ended":           {want: ProtectionBroken, tell: taken("brief", "", "high", "", 18)},
		"one that has":                              {tell: taken("brief", "", "high", "", 20)},
		"a min-runtime inside the queue":            {want: ProtectionBroken, tell: taken("low", "a", "high", "a", 3)},
		"one that has ended":                        {tell: taken("low", "a", "high", "a", 5)},
		"between queues it is another that counts":  {want: ProtectionBroken, tell: taken("low", "a", "high", "b", 8)},
		"which ends as well":                        {tell: taken("low", "a", "low", "b", 10)},
		"from outside the queues it is by priority": {want: ProtectionBroken, tell: taken("low", "a", "high", "", 3)},
		"one without any":                           {tell: taken("low", "", "high", "", 0)},
		"a whole group before its minCount ran long": {want: ProtectionBroken, tell: func(s *story) {
			s.group("g", "low", 2, 2, whole, func(pg *v1alpha1.PodGroup) { pg.Spec.QueueName = ptr.To("a") })
			s.bind("g-0")
			s.wait(10)
			s.bind("g-1")
			s.wait(3)
			s.pod("taker", "high", inQueue("a"))
			s.list("g", "taker", "g-0", "g-1")
		}},
		"a member that has come later to a gang that has run long": {tell: func(s *story) {
			s.group("g", "brief", 2, 4)
			s.bind("g-0", "g-1", "g-2")
			s.wait(20)
			s.gone("g-0")
			s.bind("g-3")
			s.wait(2)
			s.pod("taker", "high", asking(8))
			s.mark("g-3", "Pod", "taker")
		}},
		"a gang whose members are replaced one by one": {tell: func(s *story) {
			s.group("g", "brief", 2, 4)
			s.bind("g-0", "g-1")
			s.wait(20)
			s.gone("g-0")
			s.bind("g-2")
			s.wait(1)
			s.gone("g-1")
			s.bind("g-3")
			s.pod("taker", "high", asking(8))
			s.mark("g-2", "Pod", "taker")
		}},
		"a gang that runs again with new members": {want: ProtectionBroken, tell: func(s *story) {
			s.group("g", "brief", 2, 4)
			s.bind("g-0", "g-1")
			s.wait(20)
			s.gone("g-0")
			s.gone("g-1")
			s.bind("g-2", "g-3")
			s.wait(2)
			s.pod("taker", "high", asking(8))
			s.mark("g-2", "Pod", "taker")
		}},
		"a record that stays when its pods have gone": {tell: func(s *story) {
			s.group("g", "low", 2, 4, whole, func(pg *v1alpha1.PodGroup) { pg.Spec.QueueName = ptr.To("a") })
			s.bind("g-0", "g-1")
			s.wait(10)
			s.pod("taker", "high", inQueue("a"))
			s.list("g", "taker", "g-0", "g-1")
			for _, pod := range []string{"g-0", "g-1"} {
				s.mark(pod, "Pod", "taker")
				s.remove(pod)
			}
			s.wait(1)
			s.gone("g-0")
			s.bind("g-2", "g-3")
			s.SeeGroup(s.now, s.groups[types.NamespacedName{Namespace: "ns", Name: "g"}].DeepCopy())
		}},
		"for a preemptor that is to take nothing": {want: ProtectionBroken, tell: func(s *story) {
			s.pod("v", "low")
			s.bind("v")
			s.pod("taker", "high", func(pod *corev1.Pod) { pod.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever) })
			s.mark("v", "Pod", "taker")
		}},
	})
}

func TestForgotten(t *testing.T) {
	t.Parallel()
	calm := func(s *story) {
		s.BeginCalm()
		s.wait(40)
		s.EndCalm()
	}
	full := func(s *story) {
		s.pod("big", "low", asking(8))
		s.bind("big")
	}
	run(t, map[string]caseOf{
		"nothing waits":                      {tell: func(s *story) { full(s); calm(s) }},
		"a pod waits for room":               {tell: func(s *story) { full(s); s.pod("x", "low"); calm(s) }},
		"a pod waits although there is some": {want: WorkForgotten, tell: func(s *story) { s.pod("x", "low"); calm(s) }},
		"not for long":                       {tell: func(s *story) { s.pod("x", "low"); s.BeginCalm(); s.wait(20); s.bind("x"); s.wait(30) }},
		"there was calm only later": {tell: func(s *story) {
			s.pod("x", "low")
			s.wait(30)
			s.BeginCalm()
			s.wait(20)
			s.EndCalm()
			s.wait(20)
		}},
		"on a node that takes none": {tell: func(s *story) {
			s.pod("x", "low")
			n := nodeOf("n", 8)
			n.Spec.Unschedulable = true
			s.SeeNode(n)
			calm(s)
		}},
		"past the limit of its queue":       {tell: func(s *story) { s.pod("x", "low", inQueue("a"), asking(5)); calm(s) }},
		"a pod that could take from others": {want: WorkForgotten, tell: func(s *story) { full(s); s.pod("x", "high"); calm(s) }},
		"a pod that is to take nothing": {tell: func(s *story) {
			full(s)
			s.pod("x", "high", func(pod *corev1.Pod) { pod.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever) })
			calm(s)
		}},
		"a pod whose prey tolerates it":             {tell: func(s *story) { s.pod("v", "sturdy", asking(8)); s.bind("v"); s.pod("x", "high"); calm(s) }},
		"a gang for which there is room":            {want: WorkForgotten, tell: func(s *story) { s.group("g", "low", 3, 3); calm(s) }},
		"a gang for all of which there is not":      {tell: func(s *story) { s.pod("big", "low", asking(6)); s.bind("big"); s.group("g", "low", 3, 3); calm(s) }},
		"a gang that lacks members":                 {tell: func(s *story) { s.group("g", "low", 3, 2); calm(s) }},
		"a member past minCount for which there is": {want: WorkForgotten, tell: func(s *story) { s.group("g", "low", 2, 3); s.bind("g-0", "g-1"); calm(s) }},
		"a member past minCount takes nothing": {tell: func(s *story) {
			s.group("g", "high", 1, 1)
			s.bind("g-0")
			full(s)
			s.pod("g-1", "high", inGroup("g"))
			calm(s)
		}},
		"one that is needed may": {want: WorkForgotten, tell: func(s *story) { full(s); s.group("g", "high", 1, 1); calm(s) }},
	})
}

// TestCounts checks the numbers of checks for a story. The report shows these numbers.
func TestCounts(t *testing.T) {
	t.Parallel()
	s := newStory()
	s.pair()
	s.list("g", "taker", "g-0", "g-1")
	for _, pod := range []string{"g-0", "g-1"} {
		s.mark(pod, "Pod", "taker")
		s.remove(pod)
		s.gone(pod)
	}
	s.wait(1)
	got := s.Counts()
	if got.Pods != 3 || got.Bound != 2 || got.Victims != 2 || got.Whole != 1 || got.Groups != 1 || got.Reclaims != 0 || got.Judged[VictimWithoutCause] != 1 {
		t.Errorf("%+v", got)
	}
}
