package core

import "testing"

// TestLocalPodStays checks that, of two equal pods on a node, the pod of a DaemonSet is reprieved.
func TestLocalPodStays(t *testing.T) {
	t.Parallel()
	local := func(u *Unit) { u.Local = true }
	for _, names := range [][2]string{{"a", "z"}, {"z", "a"}} {
		s := clusterOf("gpu").node("n", 8).pod(names[0], "n", 1, 4, startedAt(5), local).pod(names[1], "n", 1, 4, startedAt(5)).snapshot()
		if d := mustDecide(t, s, podOf(10, 4), nil); len(d.Victims) != 1 || d.Victims[0].Name != names[1] {
			t.Errorf("%v are evicted, want %s", victimNames(&d), names[1])
		}
		p := gangOf(10, 1, members("m", 1, 0, 4))
		if d := mustDecide(t, s, p, nil); len(d.Victims) != 1 || d.Victims[0].Name != names[1] {
			t.Errorf("%v are evicted for a gang, want %s", victimNames(&d), names[1])
		}
	}
}
