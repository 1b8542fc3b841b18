package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// queueBlocks returns the verdict on a single pod that may not use its queue, or lacks a required
// queue. Such a pod waits for a change of the queues. For pods that may use their queue, the
// verdict is zero.
func (gs *gates) queueBlocks(pod *corev1.Pod) gang.Verdict {
	if !gs.ledger.AsksForQueues() {
		return gang.Verdict{}
	}
	bar := func() gang.Verdict { return gs.ledger.ClaimOf(pod).Bar }
	key, v := podKey(pod), bar()
	if v != (gang.Verdict{}) {
		v = gs.askQueue(key, engine.Access, bar)
		gs.turns.Forget(key)
	}
	if _, drives := gs.index.DriverOf(pod); v != (gang.Verdict{}) || !drives {
		// For a driver that may use its queue, drivers.Bounds.BlockSingle sets the condition.
		gs.drivers.SetBlocked(pod, v)
	}
	return v
}

// watch registers the handlers for namespaces and PriorityClasses, which determine the access to
// queues. The returned functions report whether the handlers have seen all objects that existed at
// the start.
func (qc *queueChanges) watch(namespaces, classes cache.SharedIndexInformer) ([]cache.InformerSynced, error) {
	setNamespace := func(obj any) {
		if ns, ok := obj.(*corev1.Namespace); ok && qc.quotas.SetNamespace(ns) {
			qc.tenantsChanged(ns.Name)
		}
	}
	toldOfNamespaces, err := namespaces.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    setNamespace,
		UpdateFunc: func(_, obj any) { setNamespace(obj) },
		DeleteFunc: func(obj any) {
			if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = d.Obj
			}
			if ns, ok := obj.(*corev1.Namespace); ok {
				qc.quotas.DeleteNamespace(ns.Name)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	setClass := func(obj any) {
		if class, ok := obj.(*schedulingv1.PriorityClass); ok && qc.quotas.SetClass(class.Name, class.Value) {
			qc.priorityBoundsChanged()
		}
	}
	toldOfClasses, err := classes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    setClass,
		UpdateFunc: func(_, obj any) { setClass(obj) },
		DeleteFunc: func(obj any) {
			if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = d.Obj
			}
			if class, ok := obj.(*schedulingv1.PriorityClass); ok && qc.quotas.DeleteClass(class.Name) {
				qc.priorityBoundsChanged()
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return []cache.InformerSynced{toldOfNamespaces.HasSynced, toldOfClasses.HasSynced}, nil
}

// tenantsChanged handles a change of a namespace's access to queues, or of its default queue.
func (qc *queueChanges) tenantsChanged(namespace string) {
	if qc.quotas.Used() {
		placed, moved := qc.ledger.ChargeAll(namespace, func(*corev1.Pod) bool { return true })
		if placed > 0 {
			qc.cluster.Invalidate()
		}
		qc.victimPriorities.Review()
		qc.releases.disallowed()
		qc.retries.ended(engine.Queue)
		for key := range moved {
			qc.releases.changedQueue(key)
		}
	}
	qc.retries.ended(engine.Access)
}

// priorityBoundsChanged handles a change of the priorities that queues accept. It checks waiting
// work again; the change does not affect placed work.
func (qc *queueChanges) priorityBoundsChanged() {
	qc.rechargeWaiting()
	qc.victimPriorities.Review()
	qc.releases.disallowed()
	qc.retries.ended(engine.Queue)
	qc.retries.ended(engine.Access)
}

// rechargeWaiting charges waiting pods to their current queues, and restarts workloads whose queue
// has changed. It also charges a pod with a node if the queue of the pod has changed. For example,
// pods of other schedulers may have gained access to a queue.
func (qc *queueChanges) rechargeWaiting() {
	placed, moved := qc.ledger.ChargeAll(metav1.NamespaceAll, func(pod *corev1.Pod) bool {
		return pod.Spec.NodeName == "" || qc.quotas.CountsFor(pod.UID) != qc.ledger.QueueOf(pod)
	})
	if placed > 0 {
		qc.cluster.Invalidate()
	}
	for key := range moved {
		qc.releases.changedQueue(key)
	}
}
