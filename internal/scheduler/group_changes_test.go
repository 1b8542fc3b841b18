package scheduler

import "testing"

// TestGroupThatChangesAllTheTime checks that the last of many changes of a PodGroup takes effect,
// although most of the changes are handled together.
func TestGroupThatChangesAllTheTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "8")...)
	for _, name := range []string{"a", "b", "c"} {
		r.sched.QueueSet(limitedQueue(name, "8"))
	}
	r.queuedGang("g", "a", 3)
	r.create(members("g", 2, "1", 0)...)
	for range 100 {
		for _, queue := range []string{"a", "b"} {
			r.queuedGang("g", queue, 3)
			r.sched.GroupChanged(key("g"))
		}
	}
	r.queuedGang("g", "c", 3)
	r.sched.GroupChanged(key("g"))
	if got := r.sched.quotas.CountsFor("uid-g-0"); got == "c" {
		t.Errorf("The last change is followed at once")
	}
	r.eventually("the members count for the last queue", func() bool {
		return r.sched.quotas.CountsFor("uid-g-0") == "c" && r.sched.quotas.CountsFor("uid-g-1") == "c"
	})
}
