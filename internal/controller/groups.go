package controller

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/native"
)

// Groups holds the PodGroups of one API, as its informer shows them.
type Groups struct {
	gang.Store
	told toolscache.InformerSynced
}

var _ gang.Source = (*Groups)(nil)

// GroupHandlers are called with the name of a PodGroup, in the informer's goroutine.
type GroupHandlers struct {
	// Changed is called for every PodGroup that is created or deleted, or whose change affects
	// scheduling.
	Changed func(types.NamespacedName)
	// Saved is called if only the cost of evicting the PodGroup has changed. That is its
	// [gang.Progress], or the record of its stops.
	Saved func(types.NamespacedName)
}

// NewGroups adds a handler for PodGroups of reprieve.dev to c, which must not be running yet.
func NewGroups(ctx context.Context, c cache.Cache, handlers GroupHandlers) (*Groups, error) {
	return newGroups(ctx, c, &v1alpha1.PodGroup{}, gang.FromPodGroup, handlers)
}

// NewNativeGroups is NewGroups for the PodGroups of scheduling.k8s.io, of the kind that the cluster
// serves.
func NewNativeGroups(ctx context.Context, c cache.Cache, kind schema.GroupVersionKind, handlers GroupHandlers) (*Groups, error) {
	read := func(u *unstructured.Unstructured) *gang.Group { return gang.FromPodGroup(native.FromObject(u)) }
	return newGroups(ctx, c, native.NewObject(kind), read, handlers)
}

// newGroups watches the PodGroups of one API. example has their kind, and read converts them to
// groups.
func newGroups[T client.Object](ctx context.Context, c cache.Cache, example T, read func(T) *gang.Group, handlers GroupHandlers) (*Groups, error) {
	informer, err := c.GetInformer(ctx, example, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watch PodGroups: %w", err)
	}
	groups := &Groups{}
	handler, err := informer.AddEventHandler(groups.handler(func(obj any) (*gang.Group, bool) {
		pg, ok := obj.(T)
		if !ok {
			return nil, false
		}
		return read(pg), true
	}, handlers))
	if err != nil {
		return nil, fmt.Errorf("watch PodGroups: %w", err)
	}
	groups.told = handler.HasSynced
	return groups, nil
}

// handler keeps the store equal to the informer's state, and reports the changes that affect
// scheduling. The status changes with every member, and most of these changes do not affect
// scheduling.
func (g *Groups) handler(read func(any) (*gang.Group, bool), handlers GroupHandlers) toolscache.ResourceEventHandler {
	set := func(obj any) {
		after, ok := read(obj)
		if !ok {
			return
		}
		before, known := g.Group(after.Key)
		if known && reflect.DeepEqual(before, after) {
			return
		}
		if known && before.UID != after.UID {
			// The PodGroup was deleted and created again while the watch was interrupted. The
			// informer reports one update, but the new PodGroup must not inherit the plan of the
			// deleted one.
			g.Delete(before.Key)
			handlers.Changed(before.Key)
		}
		g.Set(after)
		if known && sameButCost(before, after) {
			handlers.Saved(after.Key)
			return
		}
		handlers.Changed(after.Key)
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, obj any) { set(obj) },
		DeleteFunc: func(obj any) {
			if d, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = d.Obj
			}
			if gone, ok := read(obj); ok {
				g.Delete(gone.Key)
				handlers.Changed(gone.Key)
			}
		},
	}
}

// sameButCost reports whether only the progress of a group or the record of its stops has changed.
func sameButCost(before, after *gang.Group) bool {
	then := *before
	then.Progress, then.Stops, then.StoppedAt = after.Progress, after.Stops, after.StoppedAt
	return reflect.DeepEqual(&then, after)
}

// WaitForSync waits until Changed has been called for every PodGroup that existed at the start. It
// returns false if ctx is done first.
func (g *Groups) WaitForSync(ctx context.Context) bool {
	return toolscache.WaitForCacheSync(ctx.Done(), g.told)
}
