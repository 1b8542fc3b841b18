package changes

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestDelayOfGroupChanges checks that the first changes of a PodGroup are handled at once. Later
// changes are handled together, at a bounded rate.
func TestDelayOfGroupChanges(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	var c Groups
	busy, calm := groupKey("busy"), groupKey("calm")
	for i := range changeBurst {
		if c.IsDelayed(busy, Patient, now) {
			t.Fatalf("Change %d is delayed", i)
		}
	}
	for range 100 {
		if !c.IsDelayed(busy, Patient, now) {
			t.Fatal("A change past the burst is not delayed")
		}
	}
	if c.IsDelayed(calm, Patient, now) {
		t.Error("A change of another PodGroup is delayed")
	}
	if at, ok := c.NextLook(); !ok || at.Sub(now) != changeInterval {
		t.Errorf("The next look is at %v", at)
	}
	var followed []types.NamespacedName
	follow := func(took time.Duration) {
		for {
			key, ok := c.Next(now)
			if !ok {
				return
			}
			followed = append(followed, key)
			c.Followed(key, now, now.Add(took))
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
	if _, ok := c.NextLook(); ok {
		t.Error("A change is left")
	}
	// The pause after a slow change applies to all PodGroups.
	for range 2 * changeBurst {
		c.IsDelayed(calm, Patient, now)
	}
	now = now.Add(2 * time.Second)
	if follow(took); len(followed) > 1 {
		t.Error("A change is followed within the rest after another one")
	}
	if at, _ := c.NextLook(); at.Sub(now) != changeRest*took-2*time.Second {
		t.Errorf("The next look is in %v", at.Sub(now))
	}
	now = now.Add(2 * time.Second)
	if follow(took); !slices.Equal(followed, []types.NamespacedName{busy, calm}) {
		t.Errorf("%v is followed", followed)
	}
	c.IsDelayed(busy, Patient, now)
	if c.Prune(now); len(c.groups) != 1 || c.groups[busy] == nil {
		t.Errorf("The PodGroups %v are remembered, want only the one that has just changed", c.groups)
	}
	if c.Prune(now.Add(changeInterval)); len(c.groups) > 0 {
		t.Errorf("%d PodGroups are remembered", len(c.groups))
	}
}

// TestTurnsOfGroupChanges checks that delayed changes in one namespace do not delay the changes in
// another namespace. Only one goroutine at a time handles a PodGroup.
func TestTurnsOfGroupChanges(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	var c Groups
	busy, other := []types.NamespacedName{groupKey("a"), groupKey("b"), groupKey("c")}, types.NamespacedName{Namespace: "other", Name: "g"}
	for _, group := range append(busy, other) {
		for range changeBurst + 1 {
			c.IsDelayed(group, Patient, now)
		}
	}
	now = now.Add(changeInterval)
	var order []types.NamespacedName
	for range 4 {
		group, ok := c.Next(now)
		if !ok {
			t.Fatalf("Nothing follows %v", order)
		}
		order = append(order, group)
		if len(order) == 1 && (!c.IsDelayed(group, Patient, now.Add(time.Hour)) || !c.IsDelayed(group, Urgent, now)) {
			t.Error("A change is not delayed while another one of the PodGroup is being followed")
		}
		now = now.Add(time.Millisecond)
		c.Followed(group, now.Add(-time.Millisecond), now)
		now = now.Add(changeRest * time.Millisecond)
	}
	if want := []types.NamespacedName{busy[0], other, busy[1], busy[2]}; !slices.Equal(order, want) {
		t.Errorf("The order is %v, want %v", order, want)
	}
	if c.IsDelayed(busy[0], Urgent, now) {
		t.Error("An urgent change is delayed")
	}
}

func groupKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}
