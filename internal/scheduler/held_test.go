package scheduler

import (
	"testing"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestMembersThatHoldForOneHeldBack: the member that leads is held back because more are needed, and those that come then hold for
// it. Nothing happens in the cluster that would have it tried again.
func TestMembersThatHoldForOneHeldBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "1")...)
	r.gangOf("g", 2, 0)
	all := members("g", 3, "1", 0)
	r.create(all[:2]...)
	r.cycle()
	reason := func() string { return r.hub.registry.Verdict(key("g")).Reason }
	if got := reason(); got != v1alpha1.ReasonUnschedulable {
		t.Fatalf("The verdict is %s, want two members without room", got)
	}
	r.gangOf("g", 3, 0)
	r.hub.GroupChanged(key("g"))
	r.eventually("a member is missing", func() bool { return reason() == v1alpha1.ReasonNotEnoughMembers })
	r.create(all[2])
	r.eventually("it is tried with all three", func() bool {
		r.cycles()
		return reason() == v1alpha1.ReasonUnschedulable
	})
}
