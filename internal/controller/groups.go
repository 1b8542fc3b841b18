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

// Groups has the PodGroups of one API, kept equal to the cache of an informer.
type Groups struct {
	gang.Store
	told toolscache.InformerSynced
}

var _ gang.Source = (*Groups)(nil)

// GroupHandlers are called with the name of a PodGroup, in the informer's goroutine.
type GroupHandlers struct {
	// Changed is called for each PodGroup that is created, is deleted, or changes in a way that
	// affects scheduling.
	Changed func(types.NamespacedName)
	// Saved is called if a change affects only the cost of evicting the PodGroup: its
	// [gang.Progress], or the record of its stops.
	Saved func(types.NamespacedName)
}

// NewGroups returns the PodGroups of reprieve.dev in c, and adds a handler for them to c. Call
// NewGroups before c runs.
func NewGroups(ctx context.Context, c cache.Cache, handlers GroupHandlers) (*Groups, error) {
	return newGroups(ctx, c, &v1alpha1.PodGroup{}, gang.FromPodGroup, handlers)
}

// NewNativeGroups is like [NewGroups], for the PodGroups of scheduling.k8s.io. kind is the version
// that the cluster serves.
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

// handler returns an event handler that keeps the store equal to the cache of the informer. It
// reports only changes that affect scheduling. Most changes have no such effect: for example, the
// status changes with every member.
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

// sameButCost reports whether two states of a group differ at most in its progress and the record
// of its stops.
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
