package whatif

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/derived"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// Alone returns the decision for a pending pod of a PodGroup as if the PodGroup were not part of a
// tree. It returns false if reprieve.dev has no such PodGroup.
func Alone(ctx context.Context, objects *inventory.Inventory, cfg *config.KubeSchedulerConfiguration, group, pod types.NamespacedName) (Step, bool, error) {
	found, ok := objects.Find(inventory.PodGroups, group.Namespace, group.Name)
	if !ok {
		return Step{}, false, nil
	}
	pg := &v1alpha1.PodGroup{}
	if err := found.Into(pg); err != nil {
		return Step{}, false, fmt.Errorf("PodGroup %s: %w", group, err)
	}
	pg.Spec.ParentCompositePodGroupName = nil
	alone, err := objects.With(inventory.Change{Resource: inventory.PodGroups, Object: pg})
	if err != nil {
		return Step{}, false, err
	}
	cluster, err := New(ctx, alone, cfg)
	if err != nil {
		return Step{}, false, err
	}
	defer cluster.Close()
	step, err := cluster.Decide(ctx, pod)
	return step, true, err
}

// withClass returns the changes that give the groups of the workload a PriorityClass, which permits
// preemption. The groups are the PodGroup, or all groups of its tree. The result is nil for pods
// without a group.
func (s *search) withClass(class *schedulingv1.PriorityClass) ([]inventory.Change, error) {
	if s.group == nil {
		return nil, nil
	}
	key := types.NamespacedName{Namespace: s.group.Namespace, Name: s.group.Name}
	if !gang.IsTree(key) {
		pg := s.group.DeepCopy()
		pg.Spec.Priority, pg.Spec.PriorityClassName = &class.Value, &class.Name
		pg.Spec.PreemptionPolicy = ptr.To(corev1.PreemptLowerPriority)
		return []inventory.Change{{Resource: inventory.PodGroups, Object: pg}}, nil
	}
	trees, _, err := derived.Trees(s.objects, gang.Named{})
	if err != nil {
		return nil, err
	}
	var out []inventory.Change
	above := trees.KeysOf(key)
	for _, part := range trees.Below(above[len(above)-1]) {
		changed, err := s.groupWithClass(part, class)
		if err != nil {
			return nil, err
		}
		out = append(out, changed...)
	}
	return out, nil
}

// groupWithClass returns the change that gives one group of a tree the PriorityClass. It returns
// nil for a group that is not of reprieve.dev.
func (s *search) groupWithClass(key types.NamespacedName, class *schedulingv1.PriorityClass) ([]inventory.Change, error) {
	resource, name := inventory.PodGroups, key.Name
	composite, isTree := gang.CompositeOf(key)
	if isTree {
		resource, name = inventory.Composites, composite.Name
	}
	found, ok := s.objects.Find(resource, key.Namespace, name)
	if !ok {
		return nil, nil
	}
	if isTree {
		c := &v1alpha1.CompositePodGroup{}
		err := found.Into(c)
		c.Spec.Priority, c.Spec.PriorityClassName = &class.Value, &class.Name
		c.Spec.PreemptionPolicy = ptr.To(corev1.PreemptLowerPriority)
		return []inventory.Change{{Resource: resource, Object: c}}, err
	}
	pg := &v1alpha1.PodGroup{}
	err := found.Into(pg)
	pg.Spec.Priority, pg.Spec.PriorityClassName = &class.Value, &class.Name
	pg.Spec.PreemptionPolicy = ptr.To(corev1.PreemptLowerPriority)
	return []inventory.Change{{Resource: resource, Object: pg}}, err
}
