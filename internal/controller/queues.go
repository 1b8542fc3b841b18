package controller

import (
	"context"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// QueueFollower receives changes of Queues, in the goroutine of an informer. It must not change the
// Queues.
type QueueFollower interface {
	QueueSet(q *v1alpha1.Queue)
	// QueueDeleted receives the last known state of a deleted Queue.
	QueueDeleted(q *v1alpha1.Queue)
}

// FollowQueues reports Queues to f: each Queue that is created, is deleted, or changes its spec. It
// adds a handler to c and must be called before c runs. The returned function reports whether f has
// received all Queues that existed at the start.
func FollowQueues(ctx context.Context, c cache.Cache, f QueueFollower) (toolscache.InformerSynced, error) {
	informer, err := c.GetInformer(ctx, &v1alpha1.Queue{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watch Queues: %w", err)
	}
	handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if q, ok := obj.(*v1alpha1.Queue); ok {
				f.QueueSet(q)
			}
		},
		UpdateFunc: func(oldObj, newObj any) {
			before, ok1 := oldObj.(*v1alpha1.Queue)
			after, ok2 := newObj.(*v1alpha1.Queue)
			if ok1 && ok2 && (before.UID != after.UID || before.Generation != after.Generation) {
				f.QueueSet(after)
			}
		},
		DeleteFunc: func(obj any) {
			if d, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = d.Obj
			}
			if q, ok := obj.(*v1alpha1.Queue); ok {
				f.QueueDeleted(q)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch Queues: %w", err)
	}
	return handler.HasSynced, nil
}
