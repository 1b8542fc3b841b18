package scheduler

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

func TestDepartures(t *testing.T) {
	t.Parallel()
	x, y := owner{NamespacedName: key("x")}, owner{gang: true, NamespacedName: key("x")}
	var d departures
	d.expect(x, []types.UID{"a", "b"}, nil)
	d.expect(y, []types.UID{"b"}, nil)
	if free := d.gone("b"); len(free) != 1 || free[0] != y {
		t.Errorf("b frees %v, want the gang", free)
	}
	if free := d.gone("b"); len(free) != 0 {
		t.Errorf("b frees %v when it goes again", free)
	}
	d.expect(x, []types.UID{"c"}, nil)
	if free := d.gone("a"); len(free) != 0 {
		t.Errorf("a, which is awaited no more, frees %v", free)
	}
	d.forget(x)
	if free := d.gone("c"); len(free) != 0 {
		t.Errorf("c frees %v, who waits no more", free)
	}
	d.expect(x, []types.UID{"a"}, nil)
	d.expect(x, nil, nil)
	if len(d.waiting) != 0 || len(d.byPod) != 0 {
		t.Errorf("%v and %v are left", d.waiting, d.byPod)
	}
}

// TestDeparturesForOne: of one departure there may be word twice, from the informer and from the queue.
func TestDeparturesForOne(t *testing.T) {
	t.Parallel()
	x, y := owner{NamespacedName: key("x")}, owner{NamespacedName: key("y")}
	var d departures
	d.expect(x, []types.UID{"a", "b"}, sets.New[types.UID]("a", "b"))
	d.expect(y, []types.UID{"a"}, nil)
	type word struct{ awaited, worthIt bool }
	goneFor := func(o owner, uid types.UID) word {
		awaited, worthIt := d.goneFor(o, uid)
		return word{awaited, worthIt}
	}
	for _, step := range []struct {
		uid  types.UID
		want word
	}{
		{"unrelated", word{}},
		{"a", word{awaited: true}},
		{"a", word{awaited: true}},
		{"b", word{awaited: true, worthIt: true}},
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
	d.expect(x, []types.UID{"a", "b"}, nil)
	d.expect(y, []types.UID{"b"}, nil)
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

// TestDeparturesOfThoseInTheWay: there may be room once those have gone who are needed to, and from then on with each of
// the others; the last of all is told in any case.
func TestDeparturesOfThoseInTheWay(t *testing.T) {
	t.Parallel()
	x := owner{NamespacedName: key("x")}
	var d departures
	d.expect(x, []types.UID{"a", "b", "c", "d", "e"}, sets.New[types.UID]("a", "b", "elsewhere"))
	// Looked at again, and nobody new is taken.
	d.expect(x, []types.UID{"a", "b", "c", "d"}, nil)
	for _, step := range []struct {
		uid           types.UID
		free, worthIt bool
	}{
		{uid: "a"},
		{uid: "c"},
		{uid: "b", free: true, worthIt: true},
		{uid: "d", free: true},
	} {
		if got := len(d.gone(step.uid)) > 0; got != step.free {
			t.Errorf("%s has gone: free %t, want %t", step.uid, got, step.free)
		}
		if _, got := d.goneFor(x, step.uid); got != step.worthIt {
			t.Errorf("%s has gone: worth another try %t, want %t", step.uid, got, step.worthIt)
		}
	}
	if len(d.waiting) != 0 || len(d.byPod) != 0 {
		t.Errorf("%v and %v are left", d.waiting, d.byPod)
	}
}
