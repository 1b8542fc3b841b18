package scheduler

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestDepartures(t *testing.T) {
	t.Parallel()
	x, y := owner{NamespacedName: key("x")}, owner{gang: true, NamespacedName: key("x")}
	var d departures
	d.expect(x, []types.UID{"a", "b"})
	d.expect(y, []types.UID{"b"})
	if free := d.gone("b"); len(free) != 1 || free[0] != y {
		t.Errorf("b frees %v, want the gang", free)
	}
	if free := d.gone("b"); len(free) != 0 {
		t.Errorf("b frees %v when it goes again", free)
	}
	d.expect(x, []types.UID{"c"})
	if free := d.gone("a"); len(free) != 0 {
		t.Errorf("a, which is awaited no more, frees %v", free)
	}
	d.forget(x)
	if free := d.gone("c"); len(free) != 0 {
		t.Errorf("c frees %v, who waits no more", free)
	}
	d.expect(x, []types.UID{"a"})
	d.expect(x, nil)
	if len(d.waiting) != 0 || len(d.byPod) != 0 {
		t.Errorf("%v and %v are left", d.waiting, d.byPod)
	}
}

// TestDeparturesForOne: of one departure there may be word twice, from the informer and from the queue.
func TestDeparturesForOne(t *testing.T) {
	t.Parallel()
	x, y := owner{NamespacedName: key("x")}, owner{NamespacedName: key("y")}
	var d departures
	d.expect(x, []types.UID{"a", "b"})
	d.expect(y, []types.UID{"a"})
	type word struct{ awaited, last bool }
	goneFor := func(o owner, uid types.UID) word {
		awaited, last := d.goneFor(o, uid)
		return word{awaited, last}
	}
	for _, step := range []struct {
		uid  types.UID
		want word
	}{
		{"unrelated", word{}},
		{"a", word{awaited: true}},
		{"a", word{awaited: true}},
		{"b", word{awaited: true, last: true}},
		{"b", word{}},
	} {
		if got := goneFor(x, step.uid); got != step.want {
			t.Errorf("%s has gone: %+v, want %+v", step.uid, got, step.want)
		}
	}
	if free := d.gone("a"); !slices.Equal(free, []owner{y}) {
		t.Errorf("a frees %v, want the other", free)
	}
	if len(d.waiting) != 0 || len(d.byPod) != 0 {
		t.Errorf("%v and %v are left", d.waiting, d.byPod)
	}
}

// TestDeparturesThatDoNotHappen free everyone who waits for them, of the others as well.
func TestDeparturesThatDoNotHappen(t *testing.T) {
	t.Parallel()
	x, y := owner{NamespacedName: key("x")}, owner{NamespacedName: key("y")}
	var d departures
	d.expect(x, []types.UID{"a", "b"})
	d.expect(y, []types.UID{"b"})
	if got := d.stays("a"); !slices.Equal(got, []owner{x}) {
		t.Errorf("a stays: %v look again", got)
	}
	if got := d.gone("b"); !slices.Equal(got, []owner{y}) {
		t.Errorf("b frees %v", got)
	}
	if len(d.waiting) != 0 || len(d.byPod) != 0 {
		t.Errorf("%v and %v are left", d.waiting, d.byPod)
	}
}
