package scheduler

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/logging"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// retries moves pods to the active queue. No other component activates a pod: components call
// retries when a cause of waiting has ended. It also begins the turns of queued work. It is safe
// for concurrent use.
type retries struct {
	index      *cluster.Index
	placements *cluster.Placements
	ledger     *cluster.Ledger
	quotas     *queue.Ledger
	handle     framework.Framework
	gangs      *engine.Gangs
	waits      *engine.Waits
	turns      *admission.List
	clock      clock.WithTicker
	steps      *stepper

	// leads is true once this process schedules, and false on a standby.
	leads atomic.Bool
}

// Retry retries a workload at once, because of a change that affects it, and ends its backoff. It
// uses these methods:
//
//   - requeue retries workloads and keeps their backoff.
//   - group and gang choose the pods of a workload.
//   - activate moves pods to the active queue.
func (t *retries) Retry(key workload.Key) {
	t.turns.EndBackoff(key)
	t.requeue(key)
}

// requeue retries workloads. A workload whose turn failed must first get another turn.
func (t *retries) requeue(keys ...workload.Key) {
	for _, key := range keys {
		if key.Gang {
			t.group(nameOf(key))
		} else if pod, ok := t.index.PodOf(key); ok {
			t.activate(pod)
		}
	}
}

// ended retries the workloads that wait for a cause, because the cause has ended.
func (t *retries) ended(c engine.Cause) {
	t.steps.step(engine.CauseEnds{Cause: c})
}

// atLimit retries workloads that wait at the limit of a queue whose usage has dropped. limited
// lists these queues.
func (t *retries) atLimit(limited []string) {
	if len(limited) == 0 {
		return
	}
	ended := t.waits.EndFor(engine.Queue, func(key workload.Key) bool {
		name, ok := t.ledger.QueueOfWork(key)
		return !ok || slices.ContainsFunc(t.quotas.LimitsOn(name), func(name string) bool { return slices.Contains(limited, name) })
	})
	for _, key := range ended {
		logging.Of(context.Background(), key).V(6).Info("Usage dropped in the queue whose limit blocked the workload", "queues", limited)
		t.Retry(key)
	}
}

// group retries the members of a group. For a gang, it retries only the member that plans.
func (t *retries) group(key types.NamespacedName) {
	if g, ok := t.index.Groups.Group(key); ok && !g.IsGang() {
		t.activate(t.index.Lister.Members(key).Pending...)
		return
	}
	t.gang(key)
}

// gang retries the member that plans for a gang: the leader, or the oldest member that can lead. If
// enough members have passed their cycles, it also lets the members at Permit continue. For
// example, minCount was lowered, or terminating members keep running after all.
func (t *retries) gang(key types.NamespacedName) {
	members := t.placements.Members(key)
	t.allowGang(key, &members)
	if pod := t.representative(key, &members); pod != nil {
		t.activate(pod)
		return
	}
	// Other plugins gate all members. Activate the members although they cannot be scheduled now.
	// The queue then records which plugins gate it, and retries it at the events of these plugins.
	t.activate(slices.DeleteFunc(slices.Clone(members.Pending), func(pod *corev1.Pod) bool { return members.Reserved.Has(pod.UID) })...)
}

// allowGang lets the members of a gang at Permit continue if enough members have passed their
// cycles.
func (t *retries) allowGang(key types.NamespacedName, members *gang.Members) {
	if g, ok := t.index.Groups.Group(key); ok && g.IsGang() && members.Reserved.Len() > 0 && !t.placements.IsInPart(g, members, nil) && !t.gangs.Lacks(gangKey(key)) {
		t.allow(key)
	}
}

// allow lets all members of a gang pass Permit.
func (t *retries) allow(key types.NamespacedName) {
	t.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		if k, ok := t.index.GroupOf(w.GetPod()); ok && k == key {
			w.Allow(Name)
		}
	})
}

// representative returns the member to retry for a gang. It is the next member of the plan, or the
// leader, or the oldest member that can lead. It returns nil if no member can enter the queue.
func (t *retries) representative(key types.NamespacedName, members *gang.Members) *corev1.Pod {
	leader := cmp.Or(t.gangs.Next(gangKey(key)), t.gangs.Leader(gangKey(key)))
	gang.SortByAge(members.Pending)
	var oldest *corev1.Pod
	for _, pod := range members.Pending {
		if members.Reserved.Has(pod.UID) || !t.index.EntersQueue(pod) {
			continue
		}
		if string(pod.UID) == leader {
			return pod
		}
		if oldest == nil {
			oldest = pod
		}
	}
	return oldest
}

// soon is group after a short delay. It combines frequent changes into one retry, such as the
// creation of many members. It may be called under the lock of the scheduler's queue.
func (t *retries) soon(key types.NamespacedName) {
	t.waits.Gather(gangKey(key), t.clock.Now().Add(t.index.SettleTime(key)))
}

// RetryFrom retries all unplaced workloads with at least a certain priority.
func (t *retries) RetryFrom(least int32) {
	pods, err := t.index.Pods.List(labels.Everything())
	if err != nil {
		return
	}
	retried := sets.New[workload.Key]()
	for _, pod := range pods {
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || t.index.Profiles.Of(pod.Spec.SchedulerName) == nil || t.index.PriorityOf(pod) < least {
			continue
		}
		if key := t.index.KeyOf(pod); !retried.Has(key) {
			retried.Insert(key)
			t.Retry(key)
		}
	}
}

// returned schedules a retry of a gang whose members are back in the queue. The retry has a delay,
// because activating the gang during its own cycle would make the gang back off.
func (t *retries) returned(gang workload.Key) {
	t.waits.Gather(gang, t.clock.Now().Add(leastCacheDelay))
}

// beginTurns admits the workloads that have the next turns.
func (t *retries) beginTurns(now time.Time) {
	// A standby must begin no turns. A standby schedules nothing, so each turn would time out, and
	// the next turn would begin. When the standby becomes the leader, all queued work would be
	// admitted already, in any order.
	//
	// Computing shares is slow, and each end of a turn calls this function. So check first whether
	// a turn can begin.
	if !t.leads.Load() || !t.turns.CanBegin(now) {
		return
	}
	for _, key := range t.turns.Admit(t.ledger.Shares(), now) {
		logging.Of(context.Background(), key).V(2).Info("Its turn has come")
		t.Retry(key)
	}
}

// retryTurns retries workloads whose turn failed, if the share of their queue has grown since.
func (t *retries) retryTurns() {
	if s := t.ledger.Shares(); s != nil {
		for _, key := range t.turns.RetryForShares(s) {
			t.Retry(key)
		}
	}
}

// protectionEnded retries workloads that wait for the end of a protection. It is called when a
// protection ends earlier than expected.
func (t *retries) protectionEnded() { t.ended(engine.Protection) }

// nextLeader makes another member the leader, because the leader was rejected before it could plan.
// It returns false if all members have been leaders already. In that case, the next event that
// concerns a member makes all members eligible again.
func (t *retries) nextLeader(key types.NamespacedName, leader types.UID) bool {
	next := t.gangs.PassOn(gangKey(key), string(leader))
	members := t.index.Lister.Members(key)
	gang.SortByAge(members.Pending)
	for _, pod := range members.Pending {
		if next(string(pod.UID)) && t.index.EntersQueue(pod) {
			t.activate(pod)
			return true
		}
	}
	t.gangs.Planning(gangKey(key))
	return false
}

// activate moves pods to the active queue. PreEnqueue and queueing hints must not call it, because
// they run under the queue's lock.
func (t *retries) activate(pods ...*corev1.Pod) {
	if len(pods) == 0 {
		return
	}
	byName := make(map[string]*corev1.Pod, len(pods))
	for _, pod := range pods {
		byName[pod.Namespace+"/"+pod.Name] = pod
	}
	t.handle.Activate(klog.Background(), byName)
}
