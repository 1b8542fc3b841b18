package controller

import (
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// fair orders the requests of a controller: namespaces take turns, and the requests of one
// namespace keep their order. So a namespace with many changes delays each other namespace by only
// one request per turn. The methods need no lock, because the work queue that uses fair serializes
// the calls.
type fair struct {
	// namespaces lists the namespaces with requests, in the order of their turns.
	namespaces []string
	requests   map[string][]reconcile.Request
	count      int
}

var _ workqueue.Queue[reconcile.Request] = (*fair)(nil)

// newFairQueue returns the work queue of a controller with a fair order.
func newFairQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	type request = reconcile.Request
	ordered := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[request]{Name: name, Queue: &fair{requests: make(map[string][]request)}})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[request]{
		Name: name, DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[request]{Name: name, Queue: ordered}),
	})
}

// Touch is part of workqueue.Queue.
func (*fair) Touch(reconcile.Request) {}

// Len is part of workqueue.Queue.
func (f *fair) Len() int { return f.count }

// Push is part of workqueue.Queue.
func (f *fair) Push(r reconcile.Request) {
	waiting := f.requests[r.Namespace]
	if len(waiting) == 0 {
		f.namespaces = append(f.namespaces, r.Namespace)
	}
	f.requests[r.Namespace] = append(waiting, r)
	f.count++
}

// Pop is part of workqueue.Queue.
func (f *fair) Pop() reconcile.Request {
	namespace := f.namespaces[0]
	f.namespaces = f.namespaces[1:]
	waiting := f.requests[namespace]
	next := waiting[0]
	if waiting = waiting[1:]; len(waiting) == 0 {
		delete(f.requests, namespace)
	} else {
		f.requests[namespace] = waiting
		f.namespaces = append(f.namespaces, namespace)
	}
	f.count--
	return next
}
