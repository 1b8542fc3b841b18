package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// disrupted records the members that a PodGroup lists as disrupted, and handles members that are no
// longer listed.
func (ds *departures) disrupted(key types.NamespacedName, pods []v1alpha1.DisruptedPod) {
	for _, p := range ds.leaving.List(key, pods) {
		if pod, err := ds.index.Pods.Pods(key.Namespace).Get(p.Name); err == nil && pod.UID == p.UID {
			ds.stays(pod)
		}
	}
}

// sweep handles victims that keep running after their eviction ended. For example, the deletion of
// a member failed and its PodGroup was deleted. Or a pod was returned to the queue and was bound
// after all. The main loop calls it.
func (ds *departures) sweep(now time.Time) {
	for _, pod := range ds.leaving.Sweep(now) {
		ds.stays(pod)
	}
}

// stays handles a pod that will not terminate after all. It retries and returns the workloads that
// wait for the end of the pod. It does nothing if the pod is terminating or gone. pod may be an old
// version from a snapshot.
func (ds *departures) stays(pod *corev1.Pod) []workload.Key {
	now, err := ds.index.Pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || now.UID != pod.UID || ds.placements.IsLeaving(now) {
		return nil
	}
	ds.cluster.NodeChanged(pod.Spec.NodeName)
	ds.rooms.requestReview(now.Spec.NodeName)
	misled := retriedBy(ds.steps.step(engine.VictimStays{Pod: string(pod.UID)}))
	// Work at its limit may count on the end of a pod on any node.
	ds.retries.atLimit(ds.quotas.LimitsOn(ds.ledger.QueueOf(now)))
	if g := ds.index.GangOf(now); g != nil {
		// The pod does not terminate, so other members of its gang can be placed again.
		ds.ledger.UpdateGroupState(g.Key)
		ds.retries.soon(g.Key)
	}
	return misled
}
