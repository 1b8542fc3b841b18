package scheduler

import (
	"context"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/drivers"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/reporter"
)

// gates determines why a workload is blocked before any decision about it, and records the cause.
// Examples are its group, its queue, its turn and the bound on drivers. PreEnqueue, PreFilter,
// queueing hints and the main loop ask it. [Gate] is the plugin that gates the pods. It is safe for
// concurrent use.
type gates struct {
	index      *cluster.Index
	placements *cluster.Placements
	ledger     *cluster.Ledger
	quotas     *queue.Ledger
	gangs      *engine.Gangs
	reserved   *engine.Reservations
	waits      *engine.Waits
	turns      *admission.List
	clock      clock.WithTicker
	steps      *stepper
	retries    *retries
	releases   *releases
	drivers    *drivers.Bounds
	plenty     *plenty

	// moved is true if any pod has got a node, or has lost its node, since retry last checked the
	// gangs without a leader.
	moved atomic.Bool
}

// GateName is the name of Reprieve's PreEnqueue plugin, which gates pods.
const GateName = "ReprieveGate"

// Gate is the PreEnqueue plugin that gates pods. It belongs to each profile with [Plugin].
//
// Gate is separate from Plugin because of the events that each registers. At each registered event,
// the scheduler's queue asks the plugin that gated a pod whether to retry the pod. Plugin registers
// deletions of pods. So for each of thousands of deleted victims, the queue would ask Plugin about
// thousands of gated pods. Gate registers only updates of the gated pod itself. After other
// changes, the informers' handlers and the main loop retry gated pods.
type Gate struct{ sched *Scheduler }

var (
	_ fwk.PreEnqueuePlugin  = (*Gate)(nil)
	_ fwk.EnqueueExtensions = (*Gate)(nil)
)

// AddGate adds [Gate] to each profile with [Plugin], so that configurations need not name it. Call
// it on a valid configuration, before the scheduler is created.
func AddGate(profiles []config.KubeSchedulerProfile) {
	for i := range profiles {
		plugins := profiles[i].Plugins
		if plugins == nil {
			continue
		}
		named := func(name string) func(config.Plugin) bool {
			return func(p config.Plugin) bool { return p.Name == name }
		}
		ours := slices.ContainsFunc(slices.Concat(plugins.MultiPoint.Enabled, plugins.PostFilter.Enabled), named(Name))
		// In earlier versions, Plugin was the PreEnqueue plugin, so an old configuration may name
		// Plugin here.
		plugins.PreEnqueue.Enabled = slices.DeleteFunc(plugins.PreEnqueue.Enabled, named(Name))
		if ours && !slices.ContainsFunc(plugins.PreEnqueue.Enabled, named(GateName)) {
			plugins.PreEnqueue.Enabled = append(plugins.PreEnqueue.Enabled, config.Plugin{Name: GateName})
		}
	}
}

// Name returns the plugin's name.
func (*Gate) Name() string { return GateName }

// EventsToRegister returns updates of the gated pod itself. Such an update may change the pod's
// group, or the requests of its gang.
func (g *Gate) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event: fwk.ClusterEvent{
			Resource:   fwk.TargetPod,
			ActionType: fwk.UpdatePodLabel | fwk.UpdatePodScaleDown | fwk.UpdatePodToleration | fwk.UpdatePodSchedulingGatesEliminated,
		},
		QueueingHintFn: func(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
			before, ok := oldObj.(*corev1.Pod)
			if ok && before.UID == pod.UID && reconciled(before, pod) || g.sched.gates.updated(pod, newObj) {
				return fwk.Queue, nil
			}
			return fwk.QueueSkip, nil
		},
	}}, nil
}

// PreEnqueue gates pods that cannot be scheduled now:
//
//   - members of a PodGroup that is incomplete or invalid,
//   - members that wait for the plan of their gang's leader,
//   - preemptors with evictions under way,
//   - pods that wait for the turn of their queue.
//
// The queue calls PreEnqueue under its own lock, so PreEnqueue must not call the queue. It checks
// the informer's version of the pod, because the queue may still have an earlier version. The retry
// that follows a change of the pod would otherwise be lost.
func (g *Gate) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	return g.sched.gates.pod(g.sched.index.Latest(pod))
}

func (gs *gates) pod(pod *corev1.Pod) *fwk.Status {
	gs.steps.ensurePresent(pod)
	if v := gs.index.Derived.Hold(pod); v != (gang.Verdict{}) {
		return gated(v.Message)
	}
	key, ok := gs.index.GroupOf(pod)
	if !ok {
		if v := gs.queueBlocks(pod); v != (gang.Verdict{}) {
			return gated(v.Message)
		}
		return gs.single(pod)
	}
	if v := gang.Contradiction(pod); v != (gang.Verdict{}) {
		return gated(v.Message)
	}
	if _, planned := gs.gangs.PlannedNode(gangKey(key), string(pod.UID)); planned {
		if gs.gangs.Next(gangKey(key)) != string(pod.UID) {
			return gated(string(engine.HoldForOrder))
		}
		return nil
	}
	g, members, verdict := gs.of(key)
	if verdict != (gang.Verdict{}) {
		gs.blockGroup(key, pod, verdict)
		return gated(verdict.Message)
	}
	gs.notHeldAnyMore(key)
	if v := gang.Outranked(gs.index.Derived, gs.index.Groups, pod); v != (gang.Verdict{}) {
		return gated(v.Message)
	}
	if !g.IsGang() {
		return gs.single(pod)
	}
	// Forget the turn of the single pod, because its group may have become a gang since.
	gs.turns.Forget(podKey(pod))
	if !gs.index.EntersQueue(pod) {
		// Another plugin gates the pod, so the queue does not admit it. It must not become the
		// leader.
		return nil
	}
	if gs.waits.StopForEviction(gangKey(key)) {
		return gated(holdForEviction)
	}
	if gs.waitsForTurn(pod) {
		return gated(reporter.HoldForTurn)
	}
	a := gs.gangs.Admit(gangKey(key), string(pod.UID), gs.index.CanLead(&members))
	if a == engine.AdmitPlanned || a == engine.AdmitLeader {
		return nil
	}
	return gated(string(a))
}

// blockGroup records why the group of a pod is blocked. It also removes the group and the pod from
// the queued work, so that other workloads do not wait for them.
func (gs *gates) blockGroup(key types.NamespacedName, pod *corev1.Pod, verdict gang.Verdict) {
	gs.gangs.SetVerdict(gangKey(key), verdict)
	gs.turns.Forget(gangKey(key))
	gs.turns.Forget(podKey(pod))
}

func (gs *gates) single(pod *corev1.Pod) *fwk.Status {
	if gs.waits.StopForEviction(podKey(pod)) {
		return gated(holdForEviction)
	}
	if v := gs.drivers.BlockSingle(pod); v != (gang.Verdict{}) {
		return gated(v.Message)
	}
	if gs.index.EntersQueue(pod) && gs.waitsForTurn(pod) {
		return gated(reporter.HoldForTurn)
	}
	return nil
}

const (
	// holdForEviction is the message of a preemptor with evictions under way.
	holdForEviction = "room is being made for it"
)

// of returns a group, its current members, and the reason why they are blocked; the zero Verdict if
// they are not. If the queue blocks the group, of adds that cause to the waiting list.
func (gs *gates) of(key types.NamespacedName) (*gang.Group, gang.Members, gang.Verdict) {
	members := gs.placements.Members(key)
	g, verdict := gs.placements.Lacks(key, &members)
	if verdict == (gang.Verdict{}) && gs.ledger.AsksForQueues() {
		claim := func() gang.Verdict { return gs.ledger.ClaimOfGroup(g, &members).Bar }
		if claim() != (gang.Verdict{}) {
			verdict = gs.askQueue(gangKey(key), engine.Access, claim)
		}
	}
	if verdict == (gang.Verdict{}) && g.IsGang() {
		verdict = gs.drivers.BlockGang(&members)
	}
	return g, members, verdict
}

// gated returns a PreEnqueue status that keeps a pod out of the active queue until one of the
// plugin's events or a call of Activate.
func gated(why string) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
}

// represents reports whether the retry of a workload goes to this pod: a single pod, or the leader
// of a gang. It is false while the workload waits for its turn.
func (gs *gates) represents(pod *corev1.Pod) bool {
	if gs.quotas.Used() && gs.turns.Holds(gs.index.KeyOf(pod)) {
		return false
	}
	key, ok := gs.index.GroupOf(pod)
	if !ok || gs.index.GangOf(pod) == nil {
		return !gs.isEvictingFor(pod)
	}
	leader := gs.gangs.Leader(gangKey(key))
	return leader == "" || leader == string(pod.UID)
}

// updated handles an update of a gated pod and reports whether to retry that pod. For a gang member
// that is not the leader, updated schedules a retry of the gang instead.
func (gs *gates) updated(pod *corev1.Pod, newObj any) bool {
	if gs.represents(pod) {
		return true
	}
	if changed, ok := newObj.(*corev1.Pod); ok && changed.UID == pod.UID {
		if key, ok := gs.index.GroupOf(pod); ok {
			gs.retries.soon(key)
		}
	}
	return false
}

// notHeldAnyMore clears the verdict of a group that its queue or the bound on drivers blocked,
// because that cause has ended.
func (gs *gates) notHeldAnyMore(key types.NamespacedName) {
	if v := gs.gangs.Verdict(gangKey(key)); queue.IsBar(v) || v.Reason == v1alpha1.ReasonDriversWithoutWorkers {
		gs.gangs.SetVerdict(gangKey(key), gang.Verdict{})
	}
}
