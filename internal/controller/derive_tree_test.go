package controller

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/composite"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
)

// treeWorld is a Derived, and a lister of members, for the tree of an object with two parts.
type treeWorld struct {
	gang.Named
	tree, first, second grouping.Group
	members             map[types.NamespacedName]gang.Members
}

var (
	treeOfJob = gang.TreeKey("ns", "t")
	first     = types.NamespacedName{Namespace: "ns", Name: "t-0"}
	second    = types.NamespacedName{Namespace: "ns", Name: "t-1"}
)

func (w *treeWorld) Group(key types.NamespacedName) (grouping.Group, bool) {
	switch key {
	case treeOfJob:
		return w.tree, true
	case first:
		return w.first, true
	default:
		return w.second, true
	}
}
func (w *treeWorld) IsBounded(types.NamespacedName) bool           { return true }
func (w *treeWorld) Recall(types.NamespacedName, types.UID)        {}
func (w *treeWorld) SetOutside(types.NamespacedName, bool)         {}
func (w *treeWorld) Hold(*corev1.Pod) gang.Verdict                 { return gang.Verdict{} }
func (w *treeWorld) Members(key types.NamespacedName) gang.Members { return w.members[key] }
func (w *treeWorld) pending(key types.NamespacedName, pods ...*corev1.Pod) {
	w.members[key] = gang.Members{Pending: pods}
}

func newTreeWorld() *treeWorld {
	part := grouping.Group{Owner: theJob, MinCount: 1, Parent: treeOfJob}
	return &treeWorld{
		tree: grouping.Group{Owner: theJob, Tree: true, MinCount: 2, Parts: []types.NamespacedName{first, second}}, first: part, second: part,
		members: map[types.NamespacedName]gang.Members{},
	}
}

// deriveIn returns a Derive for a treeWorld, and the client that it writes with.
func deriveIn(t *testing.T, w *treeWorld, objects ...client.Object) (*Derive, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.PodGroup{}, &v1alpha1.CompositePodGroup{}).Build()
	return newDerive(t, composite.NewEditor(c), w, w, events.NewFakeRecorder(10), func(*corev1.Pod, corev1.PodCondition) {}), c
}

// compositeIn returns the CompositePodGroup; nil for none.
func compositeIn(t *testing.T, c client.Client) *v1alpha1.CompositePodGroup {
	t.Helper()
	var list v1alpha1.CompositePodGroupList
	if err := c.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) == 0 {
		return nil
	}
	return &list.Items[0]
}

func reconcileAll(t *testing.T, d *Derive, keys ...types.NamespacedName) {
	t.Helper()
	for _, key := range keys {
		if _, err := d.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDeriveTree checks the life of a derived tree: it is created before its first part and deleted
// after its last part. It has the priority of its parts, and follows the count of the object.
func TestDeriveTree(t *testing.T) {
	t.Parallel()
	w := newTreeWorld()
	d, c := deriveIn(t, w)
	w.pending(first, classed("a", "high", 10))
	reconcileAll(t, d, first)
	made := compositeIn(t, c)
	if made == nil || made.Spec.SchedulingPolicy.Gang.MinGroupCount != 2 || *made.Spec.Priority != 10 || made.OwnerReferences[0].UID != theJob.UID {
		t.Fatalf("the tree is %+v", made)
	}
	w.pending(second, classed("b", "low", 5))
	reconcileAll(t, d, second, treeOfJob, first)
	reconcileAll(t, d, treeOfJob, first)
	var parts v1alpha1.PodGroupList
	if err := c.List(t.Context(), &parts); err != nil || len(parts.Items) != 2 {
		t.Fatalf("there are %d parts, error %v", len(parts.Items), err)
	}
	for i := range parts.Items {
		if pg := &parts.Items[i]; *pg.Spec.Priority != 5 || *pg.Spec.ParentCompositePodGroupName != "t" || *pg.Spec.QueueName != "of-pods" {
			t.Errorf("part %s is %+v", pg.Name, pg.Spec)
		}
	}
	if made = compositeIn(t, c); *made.Spec.Priority != 5 {
		t.Errorf("the tree has priority %d", *made.Spec.Priority)
	}
	w.tree.MinCount = 3
	reconcileAll(t, d, treeOfJob)
	if made = compositeIn(t, c); made.Spec.SchedulingPolicy.Gang.MinGroupCount != 3 {
		t.Errorf("the tree needs %d groups, want 3", made.Spec.SchedulingPolicy.Gang.MinGroupCount)
	}
	w.members = map[types.NamespacedName]gang.Members{}
	w.tree.Suspended, w.first.Suspended, w.second.Suspended = true, true, true
	reconcileAll(t, d, treeOfJob)
	if made = compositeIn(t, c); made == nil || made.Spec.SchedulingPolicy.Gang.MinGroupCount != 3 {
		t.Errorf("before its parts are gone, the tree is %+v; want it to need 3", made)
	}
	placed := gang.Members{Assigned: []*corev1.Pod{classed("placed", "low", 5)}}
	w.members = map[types.NamespacedName]gang.Members{first: placed, second: placed}
	ofObject := w.tree.Parts
	w.tree.Parts = nil
	reconcileAll(t, d, treeOfJob)
	if made = compositeIn(t, c); made == nil || made.Spec.SchedulingPolicy.Gang.MinGroupCount != 2 {
		t.Errorf("while its parts run, the tree is %+v; want it to need these", made)
	}
	w.members = map[types.NamespacedName]gang.Members{}
	w.tree.Parts = ofObject
	reconcileAll(t, d, first, second, treeOfJob)
	if made = compositeIn(t, c); made != nil {
		t.Errorf("the tree remains: %+v", made)
	}
}

// TestDeriveTreeKeepsRunningGroups checks that neither a tree nor its parts are replaced while a
// member of any part has a node, and that the count is only lowered.
func TestDeriveTreeKeepsRunningGroups(t *testing.T) {
	t.Parallel()
	w := newTreeWorld()
	d, c := deriveIn(t, w)
	w.pending(first, classed("a", "high", 10))
	reconcileAll(t, d, first)
	made := compositeIn(t, c)
	made.Status.Scheduled = 1
	if err := c.Status().Update(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	w.members[first] = gang.Members{Assigned: []*corev1.Pod{classed("a", "high", 10)}}
	w.pending(second, classed("b", "low", 5))
	w.tree.MinCount, w.second.Choice.Queue = 4, "other"
	reconcileAll(t, d, second, treeOfJob, first)
	if now := compositeIn(t, c); now.UID != made.UID || now.Spec.SchedulingPolicy.Gang.MinGroupCount != 2 || *now.Spec.Priority != 10 {
		t.Errorf("the tree is %+v", now.Spec)
	}
	// A part with another class or queue would block the whole tree.
	var part v1alpha1.PodGroup
	if err := c.Get(t.Context(), second, &part); err != nil || *part.Spec.PriorityClassName != "high" || *part.Spec.Priority != 10 || *part.Spec.QueueName != "of-pods" {
		t.Errorf("the new part is %+v, error %v", part.Spec, err)
	}
	w.tree.MinCount = 1
	reconcileAll(t, d, treeOfJob)
	if now := compositeIn(t, c); now.Spec.SchedulingPolicy.Gang.MinGroupCount != 1 {
		t.Errorf("the tree needs %d groups, want 1", now.Spec.SchedulingPolicy.Gang.MinGroupCount)
	}
	if err := c.Delete(t.Context(), compositeIn(t, c)); err != nil {
		t.Fatal(err)
	}
	reconcileAll(t, d, treeOfJob)
	if now := compositeIn(t, c); now == nil || *now.Spec.PriorityClassName != "high" || *now.Spec.Priority != 10 {
		t.Errorf("the tree that replaces a deleted one is %+v", now)
	}
}

// TestDerivePartJoinsTree checks a part of a tree whose PodGroup is outside of the tree. The part
// must join the tree when no member of the part has a node, even if other members of the tree have
// nodes.
func TestDerivePartJoinsTree(t *testing.T) {
	t.Parallel()
	w := newTreeWorld()
	d, c := deriveIn(t, w)
	w.pending(second, classed("b", "high", 10))
	reconcileAll(t, d, second)
	w.first.Parent = types.NamespacedName{}
	w.pending(first, classed("a", "low", 5))
	reconcileAll(t, d, first)
	w.first.Parent, w.first.Outside, w.tree.Parts = treeOfJob, true, []types.NamespacedName{second}
	w.members[first], w.members[second] = gang.Members{Assigned: w.members[first].Pending}, gang.Members{Assigned: w.members[second].Pending}
	parent := func() string {
		var pg v1alpha1.PodGroup
		if err := c.Get(t.Context(), first, &pg); err != nil {
			return err.Error()
		}
		return ptr.Deref(pg.Spec.ParentCompositePodGroupName, "none")
	}
	reconcileAll(t, d, first)
	if got := parent(); got != "none" {
		t.Errorf("while it runs, the parent is %s", got)
	}
	w.members[first] = gang.Members{Pending: w.members[first].Assigned}
	reconcileAll(t, d, first)
	w.first.Outside, w.tree.Parts = false, []types.NamespacedName{first, second}
	reconcileAll(t, d, first)
	var pg v1alpha1.PodGroup
	if err := c.Get(t.Context(), first, &pg); err != nil || parent() != "t" || *pg.Spec.Priority != 10 {
		t.Errorf("it is %+v, error %v; want it in the tree, with the class of the tree", pg.Spec, err)
	}
}

// TestDeriveWithoutTrees checks that no part is created if no tree can be written.
func TestDeriveWithoutTrees(t *testing.T) {
	t.Parallel()
	w := newTreeWorld()
	d, c := deriveIn(t, w)
	d.WithoutTrees("it lacks the kind")
	w.pending(first, classed("a", "high", 10))
	reconcileAll(t, d, first, treeOfJob)
	var parts v1alpha1.PodGroupList
	if err := c.List(t.Context(), &parts); err != nil || len(parts.Items) > 0 || compositeIn(t, c) != nil {
		t.Errorf("there are %d parts, error %v", len(parts.Items), err)
	}
	if told := d.refused[first].verdict.Message; !strings.HasSuffix(told, "its pods wait: it lacks the kind") {
		t.Errorf("the pods hear %q", told)
	}
}

// TestDeriveLeavesForeignTree checks that a CompositePodGroup of another owner is left as it is.
func TestDeriveLeavesForeignTree(t *testing.T) {
	t.Parallel()
	w := newTreeWorld()
	foreign := &v1alpha1.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t"}}
	foreign.Spec.SchedulingPolicy.Gang = &v1alpha1.CompositeGangSchedulingPolicy{MinGroupCount: 7}
	d, c := deriveIn(t, w, foreign)
	w.pending(first, classed("a", "high", 10))
	reconcileAll(t, d, treeOfJob)
	now := compositeIn(t, c)
	if now.Spec.SchedulingPolicy.Gang.MinGroupCount != 7 || len(now.Status.Conditions) != 1 || !strings.Contains(now.Status.Conditions[0].Message, "is left as it is") {
		t.Errorf("it is %+v", now)
	}
}
