package scheduler

import (
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// watchTolerations registers the handlers for PriorityClasses. When the toleration or the value of
// a class changes, they invalidate the snapshot. They also retry preemptors that wait for the end
// of a protection.
func (qc *queueChanges) watchTolerations(informer cache.SharedIndexInformer) error {
	changed := func(any) {
		qc.cluster.Invalidate()
		qc.victimPriorities.Review()
		qc.retries.ended(engine.Protection)
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		DeleteFunc: changed,
		UpdateFunc: func(before, after any) {
			b, ok1 := before.(*schedulingv1.PriorityClass)
			a, ok2 := after.(*schedulingv1.PriorityClass)
			if ok1 && (!ok2 || !snapshot.SameToleration(b, a)) {
				changed(after)
			}
		},
	})
	return err
}
