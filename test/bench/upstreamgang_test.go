package bench

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// outcome is one decision for a gang.
type outcome struct {
	// took is CPU time.
	took time.Duration
	// victims are the evicted pods, and placed is the number of members with a node.
	victims []*corev1.Pod
	placed  int
}

// duel is a rig on which Reprieve and upstream decide for the same gang, on the same snapshot.
// Upstream's feature gate is on while the duel exists. The gate belongs to the process, and all
// other rigs run without it.
type duel struct {
	*rig
	leader *leaderCycle
	// victims are the victims of upstream's current decision.
	mu      sync.Mutex
	victims []*corev1.Pod
}

func newDuel(tb testing.TB, s *scene) *duel {
	tb.Helper()
	setGenericWorkload(tb, true)
	tb.Cleanup(func() { setGenericWorkload(tb, false) })
	d := &duel{rig: newSceneRig(tb, s)}
	d.leader = d.rig.leader()
	return d
}

func (d *duel) end() {
	d.close()
	setGenericWorkload(d.tb, false)
}

func setGenericWorkload(tb testing.TB, on bool) {
	tb.Helper()
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{string(features.GenericWorkload): on}); err != nil {
		tb.Fatal(err)
	}
}

// enough bounds the time for which one side is repeated on a rig, after its first two runs.
const enough = 2 * time.Second

// mine returns the plans of Reprieve for the gang with their orders, for the given number of runs.
// It runs before theirs.
func (d *duel) mine(times int) []outcome {
	d.tb.Helper()
	watch, started := &meter{}, time.Now()
	var out []outcome
	for len(out) < times && (len(out) < 2 || time.Since(started) < enough) {
		order := d.leader.carryOut(watch)
		decided := outcome{took: watch.took, placed: len(order.Decision.Placements)}
		for _, pod := range order.Victims {
			decided.victims = append(decided.victims, pod)
		}
		out = append(out, decided)
	}
	for _, node := range d.leader.nodes {
		if promised := d.framework(ours).NominatedPodsForNode(node.Node().Name); len(promised) > 0 {
			d.tb.Fatalf("%d pods are still nominated to %s", len(promised), node.Node().Name)
		}
	}
	return out
}

// theirs returns upstream's preemption for the gang, in a cycle of upstream's scheduler. The
// earlier attempts of the cycle to place the gang do not count. A rig has only one such cycle: a
// second decision would use the data that the first one left in upstream's caches.
func (d *duel) theirs(watch stopwatch) outcome {
	d.tb.Helper()
	plugin := defaultPreemptionOf(d.tb, d.framework(upstream))
	plugin.Executor.PreemptPod = d.preempt
	used := &meter{}
	fw := &timed{Framework: d.framework(upstream), watches: []stopwatch{watch, used}}
	d.sched.Profiles[upstream] = fw
	d.sched.FailureHandler = func(context.Context, framework.Framework, *framework.QueuedPodInfo, *fwk.Status, *fwk.NominatingInfo, time.Time) {
	}
	d.enqueue()
	d.sched.ScheduleOne(d.ctx)
	if !fw.status.IsSuccess() {
		d.tb.Fatalf("Upstream's preemption for the gang: %v", fw.status)
	}
	for plugin.Executor.IsPodGroupRunningPreemption(d.gang.UID) {
		runtime.Gosched()
	}
	if len(d.victims) == 0 {
		d.tb.Fatal("Upstream's preemption for the gang takes no pod")
	}
	decided := outcome{took: used.took, victims: d.victims}
	for _, info := range fw.result.NominatingInfos {
		if info.NominatedNodeName != "" {
			decided.placed++
		}
	}
	return decided
}

// enqueue adds the PodGroups to upstream's cache, and the gang to its queue.
func (d *duel) enqueue() {
	d.tb.Helper()
	for _, group := range d.groups {
		d.sched.Cache.AddPodGroup(group)
	}
	d.sched.Cache.AddPodGroup(d.gang)
	d.sched.SchedulingQueue.AddPodGroup(klog.FromContext(d.ctx), d.gang)
	var members []*corev1.Pod
	for _, pod := range d.pending {
		pod = pod.DeepCopy()
		pod.Spec.SchedulerName = upstream
		members = append(members, pod)
		d.must(d.pods.Update(pod))
		d.sched.Cache.AddPodGroupMember(pod)
	}
	for _, pod := range members {
		d.sched.SchedulingQueue.Add(d.ctx, pod)
	}
}

// preempt replaces the eviction by upstream's executor. It may be called from any goroutine.
func (d *duel) preempt(_ context.Context, _ preemption.Candidate, _ preemption.ExecutorPreemptor, victim *corev1.Pod, _ string) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.victims = append(d.victims, victim)
	return false, nil
}

// timed measures the framework's preemption for PodGroups.
type timed struct {
	framework.Framework
	watches []stopwatch
	result  *fwk.PodGroupPostFilterResult
	status  *fwk.Status
}

// RunPodGroupPostFilterPlugins is part of framework.Framework.
func (t *timed) RunPodGroupPostFilterPlugins(
	ctx context.Context, state *framework.CycleState, pg fwk.PodGroupInfo, place fwk.PodGroupSchedulingFunc,
) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	for _, watch := range t.watches {
		watch.StartTimer()
	}
	t.result, t.status = t.Framework.RunPodGroupPostFilterPlugins(ctx, state, pg, place)
	for _, watch := range t.watches {
		watch.StopTimer()
	}
	return t.result, t.status
}

// upstreamGang returns a decision by upstream for a gang, with a new rig each time.
func upstreamGang(tb testing.TB, of func() *scene) trial {
	tb.Helper()
	return func(watch stopwatch) {
		d := newDuel(tb, of())
		defer d.end()
		d.theirs(watch)
	}
}

// face runs both sides on a scene, round by round, each with a new rig. The first decision of
// Reprieve does not count: it fills the columns, which stay up to date from then on.
func face(tb testing.TB, of func() *scene, rounds, laps int) (mine, theirs []outcome) {
	tb.Helper()
	for range rounds {
		d := newDuel(tb, of())
		runtime.GC()
		mine = append(mine, d.mine(laps + 1)[1:]...)
		runtime.GC()
		theirs = append(theirs, d.theirs(&recorder{}))
		d.end()
	}
	return mine, theirs
}

func tookOf(outcomes []outcome) samples {
	out := make(samples, len(outcomes))
	for i := range outcomes {
		out[i] = outcomes[i].took
	}
	return out
}
