package manifest

import (
	"context"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// KindTree is the Kind of a Workload for a CompositePodGroup, whose PodGroups are placed together.
const KindTree = "CompositePodGroup"

// fillInComposite sets the priority of a CompositePodGroup and adds the group to the inventory. If
// the inventory has a group with the name already, its status is kept.
func (s *submitting) fillInComposite(ctx context.Context, d *Document) error {
	c, ok := d.Object.(*v1alpha1.CompositePodGroup)
	if !ok {
		return d.fault("it is a %T", d.Object)
	}
	if before, ok := s.inventory.Find(inventory.Composites, c.Namespace, c.Name); ok {
		var old v1alpha1.CompositePodGroup
		if err := before.Into(&old); err != nil {
			return d.fault("%v", err)
		}
		c.Status = old.Status
	}
	pg := gang.AsPodGroup(c)
	if err := s.prioritize(ctx, d, pg); err != nil {
		return err
	}
	c.Spec.PriorityClassName, c.Spec.Priority, c.Spec.PreemptionPolicy = pg.Spec.PriorityClassName, pg.Spec.Priority, pg.Spec.PreemptionPolicy
	return s.put(inventory.Composites, d)
}
