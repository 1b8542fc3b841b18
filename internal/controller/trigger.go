package controller

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Trigger is a source of reconcile requests that the scheduler makes, for one or more controllers.
// The zero value is ready to use. A controller gets no requests that were made before its start. It
// does not need them, because it reconciles every object when it starts.
type Trigger struct {
	mu     sync.RWMutex
	queues []workqueue.TypedRateLimitingInterface[reconcile.Request]
}

var _ source.Source = (*Trigger)(nil)

// Start registers the queue of a controller.
func (t *Trigger) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queues = append(t.queues, queue)
	return nil
}

// Request adds a request to reconcile an object. Any goroutine may call it. It does not block.
func (t *Trigger) Request(key types.NamespacedName) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, queue := range t.queues {
		queue.Add(reconcile.Request{NamespacedName: key})
	}
}
