package derived

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/controller"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// Complete returns the inventory with the PodGroups that the scheduler will derive for the
// inventory's pods. It adds missing PodGroups, and updates PodGroups that lack the latest change of
// their owner, such as a Job. It also returns the derived groups. Without derived groups, it
// returns the inventory unchanged.
func Complete(ctx context.Context, objects *inventory.Inventory, cfg *config.KubeSchedulerConfiguration) (*inventory.Inventory, *Groups, error) {
	groups, err := New(objects, cfg)
	if err != nil || !groups.Used() {
		return objects, groups, err
	}
	members, err := groups.membersIn(objects)
	if err != nil {
		return nil, nil, err
	}
	written, unwritten, err := groups.PodGroups(objects, members)
	if err != nil {
		return nil, nil, err
	}
	groups.unwritten = unwritten
	filler, err := NewFiller(func() *inventory.Inventory { return objects })
	if err != nil {
		return nil, nil, err
	}
	changes := make([]inventory.Change, 0, len(written))
	for _, pg := range written {
		// A field that cannot be filled is no error here: the scheduler reports it in the
		// PodGroup's status.
		if _, err := filler.Fill(ctx, pg); err != nil {
			return nil, nil, fmt.Errorf("PodGroup %s/%s: %w", pg.Namespace, pg.Name, err)
		}
		if gang.IsTree(types.NamespacedName{Name: pg.Name}) {
			changes = append(changes, inventory.Change{Resource: inventory.Composites, Object: gang.ToComposite(pg)})
			continue
		}
		changes = append(changes, inventory.Change{Resource: inventory.PodGroups, Object: pg})
	}
	completed, err := objects.With(changes...)
	return completed, groups, err
}

// membersIn returns the pods of an inventory that belong to derived groups.
func (g *Groups) membersIn(objects *inventory.Inventory) ([]*corev1.Pod, error) {
	var out []*corev1.Pod
	all := objects.Objects(inventory.Pods)
	for i := range all {
		// Decode only the fields that AnchorsOf needs. Most pods have no anchors, and decoding
		// whole pods takes long.
		var of struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
			Spec     struct {
				SchedulerName string `json:"schedulerName"`
			} `json:"spec"`
		}
		if err := all[i].Into(&of); err != nil {
			return nil, err
		}
		if len(g.AnchorsOf(&corev1.Pod{ObjectMeta: of.Metadata, Spec: corev1.PodSpec{SchedulerName: of.Spec.SchedulerName}})) == 0 {
			continue
		}
		pod := &corev1.Pod{}
		if err := all[i].Into(pod); err != nil {
			return nil, err
		}
		out = append(out, pod)
	}
	return out, nil
}

// Unwritten is a derived group whose PodGroup the scheduler cannot write. Its pods wait.
type Unwritten struct {
	Key types.NamespacedName
	// Object is the kind and the name of the group's owner. Why is the text of the error.
	Object, Why string
}

// PodGroups returns the PodGroups that the scheduler will create or change for the pods, sorted by
// namespace and name. Some of them stand for CompositePodGroups; see [gang.AsGang]. PodGroups
// leaves the fields empty that users leave to the scheduler; a Filler fills them. It also returns
// the groups whose PodGroup the scheduler cannot write.
func (g *Groups) PodGroups(objects *inventory.Inventory, pods []*corev1.Pod) ([]*v1alpha1.PodGroup, []Unwritten, error) {
	byGroup := g.byGroup(pods)
	classes, err := classesIn(objects)
	if err != nil {
		return nil, nil, err
	}
	var out []*v1alpha1.PodGroup
	var lacking []Unwritten
	for _, d := range g.derivations(byGroup) {
		pg, err := g.podGroup(objects, classes, d)
		var unwritten *unwrittenError
		if errors.As(err, &unwritten) {
			lacking = append(lacking, Unwritten(*unwritten))
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if pg != nil {
			out = append(out, pg)
		}
	}
	slices.SortFunc(out, func(a, b *v1alpha1.PodGroup) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(lacking, func(a, b Unwritten) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	return out, lacking, nil
}

// byGroup returns the pods that name no group, by their derived group.
func (g *Groups) byGroup(pods []*corev1.Pod) map[types.NamespacedName][]*corev1.Pod {
	out := make(map[types.NamespacedName][]*corev1.Pod)
	for _, pod := range pods {
		if _, named := gang.GroupOf(pod); named {
			continue
		}
		if key, ok := g.GroupOf(pod); ok {
			out[key] = append(out[key], pod)
		}
	}
	return out
}

// findOutside records the groups of an inventory that are placed outside of their tree.
func (g *Groups) findOutside(objects *inventory.Inventory) error {
	if !g.HasTrees() {
		return nil
	}
	pods, err := g.membersIn(objects)
	if err != nil {
		return err
	}
	for key, pods := range g.byGroup(pods) {
		group, ok := g.Group(key)
		if !ok || group.Parent.Name == "" {
			continue
		}
		pg, err := existing(objects, key)
		if err != nil {
			return err
		}
		members := gang.MembersOf(pods)
		g.SetOutside(key, pg != nil && controller.IsOutside(pg, group, &members))
	}
	return nil
}

type unwrittenError Unwritten

// Error returns the owner and the reason.
func (e *unwrittenError) Error() string { return e.Object + ": " + e.Why }

// derivations returns the derived groups of pods, and the trees above them. byGroup has the pods of
// each group.
func (g *Groups) derivations(byGroup map[types.NamespacedName][]*corev1.Pod) []*controller.Derivation {
	var out []*controller.Derivation
	trees := make(map[types.NamespacedName]*gang.Members)
	for key, pods := range byGroup {
		group, ok := g.Group(key)
		if !ok {
			continue
		}
		members := gang.MembersOf(pods)
		d := &controller.Derivation{Group: group, Key: key, Members: &members, Tree: &members}
		out = append(out, d)
		if group.Parent.Name == "" || group.Outside {
			continue
		}
		if trees[group.Parent] == nil {
			trees[group.Parent] = &gang.Members{}
		}
		d.Tree = trees[group.Parent]
		*d.Tree = d.Tree.And(&members)
	}
	for _, d := range out {
		if tree, ok := g.Group(d.Parent); ok && d.Tree != d.Members {
			d.Others = append([]types.NamespacedName{d.Parent}, tree.Parts...)
		}
	}
	for key, members := range trees {
		if group, ok := g.Group(key); ok {
			out = append(out, &controller.Derivation{Group: group, Key: key, Members: members, Tree: members, Others: group.Parts})
		}
	}
	return out
}

// existing returns the PodGroup of a derived group in an inventory; nil for none.
func existing(objects *inventory.Inventory, key types.NamespacedName) (*v1alpha1.PodGroup, error) {
	if name, ok := gang.CompositeOf(key); ok {
		found, exists := objects.Find(inventory.Composites, name.Namespace, name.Name)
		if !exists {
			return nil, nil //nolint:nilnil // That there is none is no error.
		}
		c := &v1alpha1.CompositePodGroup{}
		if err := found.Into(c); err != nil {
			return nil, err
		}
		return gang.AsGang(c), nil
	}
	found, exists := objects.Find(inventory.PodGroups, key.Namespace, key.Name)
	if !exists {
		return nil, nil //nolint:nilnil // As above.
	}
	pg := &v1alpha1.PodGroup{}
	return pg, found.Into(pg)
}

// podGroup returns the PodGroup that the scheduler will write for a group. It returns nil if the
// scheduler writes nothing.
func (g *Groups) podGroup(objects *inventory.Inventory, classes schedulinglisters.PriorityClassLister, d *controller.Derivation) (*v1alpha1.PodGroup, error) {
	key, group, members := d.Key, d.Group, d.Members
	pg, err := existing(objects, key)
	if err != nil {
		return nil, err
	}
	if pg == nil {
		if group.Ended || len(members.Pending)+len(members.Gated)+len(members.Assigned) == 0 {
			return nil, nil //nolint:nilnil // That nothing is to be written is no error.
		}
		pg, err := controller.NewDerivedPodGroup(d, g.queueNamedBy, classes)
		if err != nil {
			// Report the group as unwritten: the scheduler gets the same error, and the pods wait.
			return nil, &unwrittenError{Key: key, Object: group.Owner.Kind + " " + group.Owner.Name, Why: err.Error()}
		}
		if err := controller.FollowTree(pg, d, func(key types.NamespacedName) (*v1alpha1.PodGroup, error) { return existing(objects, key) }); err != nil {
			return nil, err
		}
		pg.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "PodGroup"}
		pg.UID, pg.CreationTimestamp, pg.Generation = types.UID("plan:podgroup:"+key.String()), metav1.NewTime(objects.Taken), 1
		return pg, nil
	}
	if !controller.BelongsTo(pg, group) || !controller.FollowObject(pg, group, members) {
		return nil, nil //nolint:nilnil // As above.
	}
	return pg, nil
}

// NewFiller returns a Filler that completes PodGroups with the objects of an inventory. NewFiller
// reads the PriorityClasses once. The Filler reads Workloads whenever it needs one.
func NewFiller(objects func() *inventory.Inventory) (*controller.Filler, error) {
	classes, err := classesIn(objects())
	if err != nil {
		return nil, err
	}
	return controller.NewFiller(templates{objects}, classes), nil
}

func classesIn(objects *inventory.Inventory) (schedulinglisters.PriorityClassLister, error) {
	classes, err := inventory.Decode[*schedulingv1.PriorityClass](objects, inventory.PriorityClasses)
	if err != nil {
		return nil, fmt.Errorf("priority classes: %w", err)
	}
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, class := range classes {
		if err := indexer.Add(class); err != nil {
			return nil, fmt.Errorf("priority class %s: %w", class.Name, err)
		}
	}
	return schedulinglisters.NewPriorityClassLister(indexer), nil
}

// templates implements client.Reader for the Workloads of an inventory.
type templates struct{ in func() *inventory.Inventory }

// Get reads a Workload from the inventory.
func (t templates) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	found, ok := t.in().Find(inventory.Workloads, key.Namespace, key.Name)
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Group: v1alpha1.GroupName, Resource: "workloads"}, key.Name)
	}
	return found.Into(into)
}

// List always returns an error, because a Filler reads only single Workloads.
func (templates) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return fmt.Errorf("only single Workloads are read")
}
