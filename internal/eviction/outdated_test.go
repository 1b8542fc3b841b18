package eviction

import (
	"errors"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestGroupThatRunsAnew checks a group that starts a new run after the decision. The group must be
// evicted only if its eviction began before the new run, because the new run may protect the group.
func TestGroupThatRunsAnew(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// after is the number of calls of RunsAnew for group h that return false. All later calls
		// return true.
		after     int
		wantStays bool
	}{
		"before anything is written down":   {after: 0, wantStays: true},
		"before its record is written":      {after: 1, wantStays: true},
		"before the first of its pods goes": {after: 2, wantStays: true},
		"after that":                        {after: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, append(append(whole("g"), whole("h")...), pod("urgent-0"))...)
			has := wantedFor(c.after)
			b.scheduler.runsAnew = func(group string) bool { return group == "h" && !has() }
			got := b.evict(order(victim("g", "g-0", "g-1"), victim("h", "h-0", "h-1")))
			stays := b.pod("h-0") != nil && b.pod("h-1") != nil
			if stays != c.wantStays || errors.Is(got.Err, ErrOutdated) != c.wantStays || got.Unwanted {
				t.Errorf("It came to %+v, and the group stays: %t; want that: %t", got, stays, c.wantStays)
			}
			if len(b.listed("h")) > 0 != !c.wantStays {
				t.Errorf("The list of the group is %v", b.listed("h"))
			}
			if c.after == 0 && len(b.made("delete")) > 0 {
				t.Errorf("Deleted are %q", b.made("delete"))
			}
		})
	}
}

// TestSurplusThatIsNeeded checks a surplus member whose gang loses another member after the
// decision. The gang now needs the surplus member, so this member must not be evicted.
func TestSurplusThatIsNeeded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		surplus bool
		// after is the number of calls of KeepsMinCount that return true. All later calls return
		// false.
		after     int
		wantStays bool
	}{
		"before it is marked":     {surplus: true, wantStays: true},
		"while it is marked":      {surplus: true, after: 1, wantStays: true},
		"after that":              {surplus: true, after: 2},
		"of a gang that goes":     {},
		"in a gang that is whole": {surplus: true, after: 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := pod("a")
			a.Labels = map[string]string{v1alpha1.LabelPodGroup: "g"}
			b := newBench(t, group("g"), a, pod("urgent-0"))
			has := wantedFor(c.after)
			b.scheduler.isShort = func(group string) bool { return group == "g" && !has() }
			o := order(victim("a"))
			o.Victims["uid-a"] = a
			if c.surplus {
				o.Surplus = []types.NamespacedName{{Namespace: "ns", Name: "g"}}
			}
			got := b.evict(o)
			if stays := b.pod("a") != nil; stays != c.wantStays || errors.Is(got.Err, ErrOutdated) != c.wantStays || got.Unwanted || got.Begun.Len() > 0 {
				t.Errorf("It came to %+v, and the member stays: %t; want that: %t", got, stays, c.wantStays)
			}
		})
	}
}

// TestRunThatBeginsBesideTheRecord checks a group whose new run is written between the read and the
// write of the intent. The write has a conflict, and must not be repeated.
func TestRunThatBeginsBesideTheRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t, append(whole("g"), pod("urgent-0"))...)
	var anew atomic.Bool
	b.scheduler.runsAnew = func(string) bool { return anew.Load() }
	b.fail = func(call string) error {
		if call == "list g" && anew.CompareAndSwap(false, true) {
			return apierrors.NewConflict(v1alpha1.Resource("podgroups"), "g", errors.New("the object has been modified"))
		}
		return nil
	}
	got := b.evict(order(victim("g", "g-0", "g-1")))
	if !errors.Is(got.Err, ErrOutdated) || got.Unwanted || got.Begun.Len() > 0 {
		t.Errorf("It came to %+v", got)
	}
	b.expectPods("urgent-0", "g-0", "g-1")
	if made := b.made("list"); len(made) != 1 || len(b.listed("g")) > 0 {
		t.Errorf("The list of the group is %v, and has been written %d times", b.listed("g"), len(made))
	}
}

// TestVictimThatHasMoved checks a victim that was not bound at the time of the decision and then
// got another node. The victim and its group are not evicted.
func TestVictimThatHasMoved(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]int{"before anything is written down": 0, "before it goes": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, append(whole("g"), pod("urgent-0"), pod("a"))...)
			var asked atomic.Int64
			b.scheduler.hasMoved = func(victim string) bool { return victim == "g-1" && asked.Add(1) > int64(after) }
			got := b.evict(order(victim("g", "g-0", "g-1")))
			if !errors.Is(got.Err, ErrOutdated) || got.Unwanted || got.Begun.Len() > 0 {
				t.Errorf("It came to %+v", got)
			}
			b.expectPods("urgent-0", "a", "g-0", "g-1")
			if len(b.listed("g")) > 0 || after == 0 && len(b.made("list")) > 0 {
				t.Errorf("The list of the group is %v, and has been written %d times", b.listed("g"), len(b.made("list")))
			}
		})
	}
}
