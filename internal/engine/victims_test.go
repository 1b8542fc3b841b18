package engine

import (
	"slices"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// TestVictimPriorities checks that the priority of a potential victim is recorded until
// EndVictimPriority, regardless of the group's members. It also checks that changes request an
// update of the group's status.
func TestVictimPriorities(t *testing.T) {
	t.Parallel()
	var told []workload.Key
	gs := newTestGangsWith(func(key workload.Key) { told = append(told, key) })
	key := gangNamed("x")
	if _, known := gs.EndVictimPriority(key); known {
		t.Error("a priority ended that was never set")
	}
	high, low := VictimPriority{100, "Counts"}, VictimPriority{50, "LimitedByQueue"}
	if _, known := gs.SetVictimPriority(key, high); known || len(told) != 1 {
		t.Errorf("known: %t, told %v", known, told)
	}
	if before, known := gs.SetVictimPriority(key, high); before != high || !known || len(told) != 1 {
		t.Errorf("before: %v, told %v", before, told)
	}
	gs.Leaves(key)
	if before, _ := gs.SetVictimPriority(key, low); before != high || len(told) != 2 {
		t.Errorf("before: %v, told %v", before, told)
	}
	if got := gs.VictimPriorities(); !slices.Equal(got, []workload.Key{key}) {
		t.Errorf("recorded: %v", got)
	}
	if before, known := gs.EndVictimPriority(key); before != low || !known || len(gs.VictimPriorities()) != 0 {
		t.Errorf("ended: %v, left %v", before, gs.VictimPriorities())
	}
}
