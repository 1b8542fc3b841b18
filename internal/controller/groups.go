package controller

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// Groups finds PodGroups in the cache of reprieve.dev.
type Groups struct{ store toolscache.Store }

var _ gang.Source = (*Groups)(nil)

// NewGroups hooks into c, which must not have been started yet. The function changed is called, from the
// informer's goroutine, with the name of every PodGroup that comes, changes or goes.
func NewGroups(ctx context.Context, c cache.Cache, changed func(types.NamespacedName)) (*Groups, error) {
	informer, err := c.GetInformer(ctx, &v1alpha1.PodGroup{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watch PodGroups: %w", err)
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return nil, fmt.Errorf("watch PodGroups: informer %T has no store", informer)
	}
	tell := func(obj any) {
		if d, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = d.Obj
		}
		if pg, ok := obj.(*v1alpha1.PodGroup); ok {
			changed(types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name})
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: tell,
		// Status changes with every member; of that, only the start bears on scheduling.
		UpdateFunc: func(old, obj any) {
			before, ok1 := old.(*v1alpha1.PodGroup)
			after, ok2 := obj.(*v1alpha1.PodGroup)
			if ok1 && ok2 && (before.Generation != after.Generation || !before.Status.StartTime.Equal(after.Status.StartTime)) {
				tell(after)
			}
		},
		DeleteFunc: tell,
	}); err != nil {
		return nil, fmt.Errorf("watch PodGroups: %w", err)
	}
	return &Groups{store: shared.GetStore()}, nil
}

// Group reads one PodGroup. It is safe for concurrent use and does not block.
func (g *Groups) Group(key types.NamespacedName) (*gang.Group, bool) {
	obj, ok, err := g.store.GetByKey(key.String())
	if err != nil || !ok {
		return nil, false
	}
	pg, ok := obj.(*v1alpha1.PodGroup)
	if !ok {
		return nil, false
	}
	return gang.FromPodGroup(pg), true
}
