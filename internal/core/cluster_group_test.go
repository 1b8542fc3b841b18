package core

import (
	"reflect"
	"testing"
)

// TestUnitsHaveAllOfTheirGroup checks that every field of a Group has an effect on the units of its
// pods, when the group is added and when it changes.
func TestUnitsHaveAllOfTheirGroup(t *testing.T) {
	t.Parallel()
	// These fields have no effect on members that are preempted one by one, because each member has
	// its own values.
	ofMembers := map[string]bool{"Namespace": true, "Name": true, "Start": true}
	newCluster := func() *Cluster { return NewCluster([]string{"cpu"}) }
	for _, whole := range []bool{true, false} {
		for i, field := range reflect.VisibleFields(reflect.TypeFor[Group]()) {
			if field.Name == "Whole" || field.Name == "UID" || !whole && ofMembers[field.Name] {
				continue
			}
			before := Group{UID: "g", Whole: whole}
			after := before
			change(t, reflect.ValueOf(&after).Elem().Field(i))
			c, old, anew := newCluster(), newCluster(), newCluster()
			setGroup(t, c, &before)
			setGroup(t, c, &after)
			setGroup(t, old, &before)
			setGroup(t, anew, &after)
			if reflect.DeepEqual(old.Snapshot().Units, anew.Snapshot().Units) {
				t.Errorf("whole %t: Group.%s makes no difference to the unit", whole, field.Name)
			}
			if !reflect.DeepEqual(c.Snapshot().Units, anew.Snapshot().Units) {
				t.Errorf("whole %t: Group.%s has changed, and the unit is %+v, want %+v", whole, field.Name, c.Snapshot().Units, anew.Snapshot().Units)
			}
		}
	}
}

// change sets a field to a different value.
func change(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("other")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() + 7)
	case reflect.Struct:
		change(t, v.Field(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	default:
		t.Fatalf("the test has no other value for a field of type %s", v.Type())
	}
}

// setGroup adds a node with one pod that is a member of the group.
func setGroup(t *testing.T, c *Cluster, g *Group) {
	t.Helper()
	pod := RunningPod{Pod: Pod{Namespace: "ns", Name: "p", UID: "p", Request: Amounts{1}}, Group: g}
	if err := c.SetNode(&NodeState{Node: Node{Name: "n", Free: Amounts{3}, Allocatable: Amounts{4}}, Pods: []RunningPod{pod}}); err != nil {
		t.Fatal(err)
	}
}

// TestPartsOfATreeAreOneWorkload checks that a tree never evicts a part of itself, and that the
// parts that are evicted whole do not count among the members that are evicted one by one.
func TestPartsOfATreeAreOneWorkload(t *testing.T) {
	t.Parallel()
	c := NewCluster([]string{"cpu"})
	part, tree := &Group{UID: "part", Name: "part", Workload: "old", Whole: true}, &Group{UID: "tree", Membership: &QueueMembership{MinCount: 1}}
	set := func(node, pod string, g *Group) {
		t.Helper()
		p := RunningPod{Pod: Pod{Namespace: "ns", Name: pod, UID: pod, Request: Amounts{1}}, Running: true, Group: g}
		if err := c.SetNode(&NodeState{Node: Node{Name: node, Free: Amounts{0}, Allocatable: Amounts{1}}, Pods: []RunningPod{p}}); err != nil {
			t.Fatal(err)
		}
	}
	set("a", "x", part)
	set("b", "y", part)
	moved := *part
	moved.Workload = "tree"
	set("a", "x", &moved)
	set("c", "z", tree)
	for uid, want := range map[string]Outcome{"tree": Infeasible, "other": Preempts} {
		p := &Preemptor{Name: "p", UID: uid, PodGroup: uid, Gang: true, Priority: 9, MinCount: 1, Classes: []Class{{Request: Amounts{1}, Members: []Member{{Name: "m", UID: "m"}}}}}
		d, err := Decide(c.Snapshot(), p, nil)
		if err != nil || d.Outcome != want {
			t.Errorf("the preemptor %s: %s, error %v, want %s", uid, d.Outcome, err, want)
		}
		if len(d.BrokenGangs) > 0 && d.BrokenGangs[0].UID != "tree" {
			t.Errorf("broken gangs %v", d.BrokenGangs)
		}
	}
	if g := c.Snapshot().gangs["tree"]; g == nil || len(g.units) != 1 {
		t.Errorf("the gang has the single members %+v, want one", g)
	}
}
