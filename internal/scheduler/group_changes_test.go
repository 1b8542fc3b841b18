package scheduler

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

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

// TestDelayOfGroupChanges checks that the first changes of a PodGroup are handled at once. Later
// changes are handled together, at a bounded rate.
func TestDelayOfGroupChanges(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	var c groupChanges
	busy, calm := key("busy"), key("calm")
	for i := range changeBurst {
		if c.isDelayed(busy, patient, now) {
			t.Fatalf("Change %d is delayed", i)
		}
	}
	for range 100 {
		if !c.isDelayed(busy, patient, now) {
			t.Fatal("A change past the burst is not delayed")
		}
	}
	if c.isDelayed(calm, patient, now) {
		t.Error("A change of another PodGroup is delayed")
	}
	if at, ok := c.nextLook(); !ok || at.Sub(now) != changeInterval {
		t.Errorf("The next look is at %v", at)
	}
	var followed []types.NamespacedName
	follow := func(took time.Duration) {
		for {
			key, ok := c.next(now)
			if !ok {
				return
			}
			followed = append(followed, key)
			c.followed(key, now, now.Add(took))
			now = now.Add(took)
		}
	}
	if follow(0); len(followed) > 0 {
		t.Errorf("%v is followed too early", followed)
	}
	now = now.Add(changeInterval)
	const took = time.Second
	if follow(took); !slices.Equal(followed, []types.NamespacedName{busy}) {
		t.Errorf("%v is followed", followed)
	}
	if _, ok := c.nextLook(); ok {
		t.Error("A change is left")
	}
	// The pause after a slow change applies to all PodGroups.
	for range 2 * changeBurst {
		c.isDelayed(calm, patient, now)
	}
	now = now.Add(2 * time.Second)
	if follow(took); len(followed) > 1 {
		t.Error("A change is followed within the rest after another one")
	}
	if at, _ := c.nextLook(); at.Sub(now) != changeRest*took-2*time.Second {
		t.Errorf("The next look is in %v", at.Sub(now))
	}
	now = now.Add(2 * time.Second)
	if follow(took); !slices.Equal(followed, []types.NamespacedName{busy, calm}) {
		t.Errorf("%v is followed", followed)
	}
	c.isDelayed(busy, patient, now)
	if c.prune(now); len(c.groups) != 1 || c.groups[busy] == nil {
		t.Errorf("The PodGroups %v are remembered, want only the one that has just changed", c.groups)
	}
	if c.prune(now.Add(changeInterval)); len(c.groups) > 0 {
		t.Errorf("%d PodGroups are remembered", len(c.groups))
	}
}

// TestTurnsOfGroupChanges checks that delayed changes in one namespace do not delay the changes in
// another namespace. Only one goroutine at a time handles a PodGroup.
func TestTurnsOfGroupChanges(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	var c groupChanges
	busy, other := []types.NamespacedName{key("a"), key("b"), key("c")}, types.NamespacedName{Namespace: "other", Name: "g"}
	for _, group := range append(busy, other) {
		for range changeBurst + 1 {
			c.isDelayed(group, patient, now)
		}
	}
	now = now.Add(changeInterval)
	var order []types.NamespacedName
	for range 4 {
		group, ok := c.next(now)
		if !ok {
			t.Fatalf("Nothing follows %v", order)
		}
		order = append(order, group)
		if len(order) == 1 && (!c.isDelayed(group, patient, now.Add(time.Hour)) || !c.isDelayed(group, urgent, now)) {
			t.Error("A change is not delayed while another one of the PodGroup is being followed")
		}
		now = now.Add(time.Millisecond)
		c.followed(group, now.Add(-time.Millisecond), now)
		now = now.Add(changeRest * time.Millisecond)
	}
	if want := []types.NamespacedName{busy[0], other, busy[1], busy[2]}; !slices.Equal(order, want) {
		t.Errorf("The order is %v, want %v", order, want)
	}
	if c.isDelayed(busy[0], urgent, now) {
		t.Error("An urgent change is delayed")
	}
}
