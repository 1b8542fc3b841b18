package derived

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/native"
)

// Trees returns the groups of an inventory with the trees that their parent fields define. It also
// returns the keys of all groups. The inventory must have its derived PodGroups; see [Complete].
// members finds the PodGroups of pods.
func Trees(objects *inventory.Inventory, members gang.Membership) (*gang.Trees, []types.NamespacedName, error) {
	own, theirs, keys, err := groupsOf(objects)
	if err != nil {
		return nil, nil, err
	}
	trees := gang.NewTrees(gang.Merge(own, theirs))
	trees.DeriveFrom(members)
	for _, key := range keys {
		trees.Changed(key)
	}
	return trees, keys, nil
}

// groupsOf returns the PodGroups and CompositePodGroups of reprieve.dev (own), the PodGroups of
// scheduling.k8s.io (theirs), and the keys of all of them.
func groupsOf(objects *inventory.Inventory) (own, theirs *gang.Store, keys []types.NamespacedName, err error) {
	own, theirs = &gang.Store{}, &gang.Store{}
	ours, err := inventory.Decode[*v1alpha1.PodGroup](objects, inventory.PodGroups)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("podgroups: %w", err)
	}
	for _, pg := range ours {
		own.Set(gang.FromPodGroup(pg))
		keys = append(keys, types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name})
	}
	composites, err := inventory.Decode[*v1alpha1.CompositePodGroup](objects, inventory.Composites)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("compositepodgroups: %w", err)
	}
	for _, cpg := range composites {
		own.Set(gang.FromComposite(cpg))
		keys = append(keys, gang.TreeKey(cpg.Namespace, cpg.Name))
	}
	for _, object := range objects.Objects(inventory.NativePodGroups) {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(object.Raw); err != nil {
			return nil, nil, nil, fmt.Errorf("podgroups of %s: %w", native.Group, err)
		}
		theirs.Set(gang.FromPodGroup(native.FromObject(u)))
		keys = append(keys, types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()})
	}
	return own, theirs, keys, nil
}
