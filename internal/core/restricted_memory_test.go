package core

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestMemoryIsUsedAgain decides for several preemptors on one snapshot, one after the other and
// concurrently. The decisions must equal the decisions on separate snapshots.
func TestMemoryIsUsedAgain(t *testing.T) {
	preempts := 0
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SampledFrom([]randomShape{gangShape, podShape, mixedShape}).Draw(t, "shape")
		s, p, _ := reclaimCase(t, shape)
		var preemptors []*Preemptor
		for _, queue := range []string{"mine", "a", "within", ""} {
			for _, priority := range []int32{p.Priority, p.Priority + 3} {
				other := *p
				other.Queue, other.Priority = queue, priority
				preemptors = append(preemptors, &other)
			}
		}
		var want []Decision
		for _, p := range preemptors {
			fresh := *s
			want = append(want, mustDecide2(t, &fresh, p))
			if want[len(want)-1].Outcome == Preempts {
				preempts++
			}
		}
		kept := *s
		kept.columns = newColumns(&kept)
		compare := func(how string, i int, got Decision, err error) {
			if err != nil {
				t.Errorf("%s: %v", how, err)
			} else if diff := cmp.Diff(want[i], got); diff != "" {
				t.Errorf("%s, preemptor %d (-on its own +again):\n%s", how, i, diff)
			}
		}
		for range 2 {
			for i, p := range preemptors {
				got, err := Decide(&kept, p, nil)
				compare("in turn", i, got, err)
			}
		}
		var wg sync.WaitGroup
		got, errs := make([]Decision, len(preemptors)), make([]error, len(preemptors))
		for i, p := range preemptors {
			wg.Go(func() { got[i], errs[i] = Decide(&kept, p, nil) })
		}
		wg.Wait()
		for i := range preemptors {
			compare("at once", i, got[i], errs[i])
		}
	})
	if preempts == 0 {
		t.Error("nothing was ever taken")
	}
}
