package scheduler

import (
	"k8s.io/klog/v2"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// deleted handles the deletion of a Queue. If work of the Queue runs, the ledger keeps the Queue
// for deletedTimeout, so that its work is still protected. If no work runs, or if the deletion is
// confirmed, deleted drops the Queue at once. Any goroutine may call it.
//
// The Queue is kept in memory only, so a restart of the scheduler drops it. A finalizer would keep
// the Queue over a restart, but has two drawbacks. An operator could not recreate a Queue that was
// deleted by mistake. Also, the removal of the CRDs would wait for a scheduler that may no longer
// run.
func (qc *queueChanges) deleted(q *v1alpha1.Queue) {
	until := qc.clock.Now().Add(qc.index.Profiles.DeletedTimeout())
	if q.Annotations[v1alpha1.AnnotationConfirmDeletion] != "true" && qc.clock.Now().Before(until) && qc.quotas.KeepQueue(q.Name, until) {
		klog.Background().Info("A Queue with running work was deleted; the work keeps its place for now, and others may preempt it after that",
			"queue", klog.KObj(q), "until", until)
		qc.changed()
		return
	}
	if qc.quotas.DeleteQueue(q.Name) {
		qc.rechargeWaiting()
	}
	qc.changed()
}

// expire drops the deleted Queues whose timeout has passed, or whose work has ended.
func (qc *queueChanges) expire() {
	dropped, confining := qc.quotas.DropExpired(qc.clock.Now())
	qc.metrics.KeptPods(qc.quotas.KeptPods())
	if len(dropped) == 0 {
		return
	}
	klog.Background().Info("The time of deleted Queues is over; work of them that still runs counts for no queue", "queues", dropped)
	if confining {
		qc.rechargeWaiting()
	}
	qc.changed()
}
