package snapshot

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// TestFingerprintHasAll checks that every field of a running pod changes the fingerprint, except
// the fields in exempt. The exempt fields have no effect on room. A new field must be in the
// fingerprint or in exempt.
func TestFingerprintHasAll(t *testing.T) {
	exempt := map[string]bool{
		// These fields are names, or data of the caller.
		"Pod.Namespace": true, "Pod.Name": true, "Pod.UID": true, "Pod.Ref": true, "Pod.Node": true,
		"Group.Namespace": true, "Group.Name": true,
		// RaisedBy is already included in the priority. Only messages use it.
		"Group.RaisedBy": true,
		// These fields only change the order of victims.
		"Pod.Start": true, "Pod.Budgets": true, "Pod.Progress": true, "Local": true, "Group.Start": true, "Group.Stops": true,
	}
	o := newOccupants()
	base := func() *core.RunningPod {
		return &core.RunningPod{
			Pod: core.Pod{Request: core.Amounts{1}}, Toleration: &core.Toleration{}, Membership: &core.QueueMembership{}, MinRuntime: &core.MinRuntime{},
			Role:  &core.Role{},
			Group: &core.Group{Toleration: &core.Toleration{}, Membership: &core.QueueMembership{}, MinRuntime: &core.MinRuntime{}},
		}
	}
	want := o.fingerprint(base())
	if again := o.fingerprint(base()); again != want {
		t.Fatal("the same has another fingerprint")
	}
	var visit func(path string, of func(*core.RunningPod) reflect.Value)
	visit = func(path string, of func(*core.RunningPod) reflect.Value) {
		for i := range of(base()).NumField() {
			field := func(rp *core.RunningPod) reflect.Value { return reflect.Indirect(of(rp).Field(i)) }
			name := path + of(base()).Type().Field(i).Name
			changed := base()
			switch f := field(changed); {
			case exempt[name]:
				continue
			case f.Kind() == reflect.Struct:
				visit(of(base()).Type().Field(i).Name+".", field)
				continue
			case f.Kind() == reflect.Slice:
				f.Index(0).SetInt(2)
			case f.CanInt():
				f.SetInt(7)
			case f.Kind() == reflect.Bool:
				f.SetBool(true)
			case f.Kind() == reflect.String:
				f.SetString("other")
			default:
				t.Fatalf("%s is a %s", name, f.Kind())
			}
			if o.fingerprint(changed) == want {
				t.Errorf("%s makes no difference", name)
			}
		}
	}
	visit("", func(rp *core.RunningPod) reflect.Value { return reflect.ValueOf(rp).Elem() })
}

// TestChanges checks, for a node with one pod, which changes count in Freeing and which count in
// All.
func TestChanges(t *testing.T) {
	node := func(change ...func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		for _, c := range change {
			c(n)
		}
		return n
	}
	state := func(cpus int64, pods ...string) *core.NodeState {
		s := &core.NodeState{Node: core.Node{Name: "n", Allocatable: core.Amounts{cpus}}}
		for _, uid := range pods {
			s.Pods = append(s.Pods, core.RunningPod{Pod: core.Pod{UID: uid, Request: core.Amounts{1}}})
		}
		return s
	}
	for name, tc := range map[string]struct {
		change func(*occupants)
		want   Changes
	}{
		"a heartbeat": {change: func(o *occupants) {
			o.set(node(func(n *corev1.Node) { n.Status.Conditions = []corev1.NodeCondition{{}} }), state(4, "a"), nil)
		}},
		"a pod comes":    {change: func(o *occupants) { o.set(node(), state(4, "a", "b"), nil) }, want: Changes{All: 1}},
		"a pod goes":     {change: func(o *occupants) { o.set(node(), state(4), nil) }, want: Changes{Freeing: 1, All: 1}},
		"another pod":    {change: func(o *occupants) { o.set(node(), state(4, "b"), nil) }, want: Changes{Freeing: 1, All: 1}},
		"the node grows": {change: func(o *occupants) { o.set(node(), state(5, "a"), nil) }, want: Changes{Freeing: 1, All: 1}},
		"a label": {change: func(o *occupants) {
			o.set(node(func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} }), state(4, "a"), nil)
		}, want: Changes{Freeing: 1, All: 1}},
		"it is cordoned": {change: func(o *occupants) {
			o.set(node(func(n *corev1.Node) { n.Spec.Unschedulable = true }), state(4, "a"), nil)
		}, want: Changes{Freeing: 1, All: 1}},
		"the pod is overdue": {change: func(o *occupants) {
			o.set(node(), state(4), []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{UID: "a"}}})
		}, want: Changes{Freeing: 1, All: 1}},
		"the node goes":      {change: func(o *occupants) { o.remove("n") }, want: Changes{All: 1}},
		"all is read anew":   {change: func(o *occupants) { o.reset() }, want: Changes{Freeing: 1, All: 1}},
		"another node comes": {change: func(o *occupants) { o.set(&corev1.Node{}, state(4), nil) }, want: Changes{Freeing: 1, All: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOccupants()
			o.set(node(), state(4, "a"), nil)
			before := o.changes
			tc.change(o)
			if got := (Changes{Freeing: o.changes.Freeing - before.Freeing, All: o.changes.All - before.All}); got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}
