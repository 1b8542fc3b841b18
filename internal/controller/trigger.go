package controller

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Trigger is a source of reconcile requests, for one controller or several, that come from the scheduler rather than from the API. The
// zero value is ready to use; requests made before a controller starts are dropped for it, since a controller looks at every object when
// it starts.
type Trigger struct {
	mu     sync.RWMutex
	queues []workqueue.TypedRateLimitingInterface[reconcile.Request]
}

var _ source.Source = (*Trigger)(nil)

// Start is called by each controller.
func (t *Trigger) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queues = append(t.queues, queue)
	return nil
}

// Request asks for an object to be reconciled. It may be called from any goroutine and does not block.
func (t *Trigger) Request(key types.NamespacedName) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, queue := range t.queues {
		queue.Add(reconcile.Request{NamespacedName: key})
	}
}
