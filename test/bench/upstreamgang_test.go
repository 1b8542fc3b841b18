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

// outcome is the result of one decision for a gang.
type outcome struct {
	// took is the CPU time of the decision.
	took time.Duration
	// victims has the evicted pods. placed is the number of members that got a node.
	victims []*corev1.Pod
	placed  int
}

// duel runs Reprieve and upstream for the same gang on the same snapshot. Upstream's decision needs
// a feature gate, which is global to the process. The duel switches the gate on at its start and
// off at its end, because other rigs need it off.
type duel struct {
	*rig
	leader *leaderCycle
	// victims has the victims of upstream's current decision. mu guards it, because upstream evicts
	// in other goroutines.
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

// enough bounds the repetitions of Reprieve's decision on one rig. After this time, mine stops, but
// it makes at least two decisions.
const enough = 2 * time.Second

// mine returns the outcomes of Reprieve's decisions for the gang, at most the given number. Call
// mine before theirs, because theirs changes the rig.
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

// theirs returns the outcome of upstream's preemption for the gang, in a scheduling cycle of
// upstream. The measured time excludes the attempts of the cycle to place the gang without an
// eviction. Call it once for each rig: a second decision would use cached data of the first.
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

// enqueue adds the PodGroups to upstream's cache, and the gang to upstream's queue.
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

// preempt replaces the function of upstream's executor that evicts a pod. It is safe for concurrent
// use.
func (d *duel) preempt(_ context.Context, _ preemption.Candidate, _ preemption.ExecutorPreemptor, victim *corev1.Pod, _ string) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.victims = append(d.victims, victim)
	return false, nil
}

// timed is a framework that measures its preemption for PodGroups.
type timed struct {
	framework.Framework
	watches []stopwatch
	result  *fwk.PodGroupPostFilterResult
	status  *fwk.Status
}

// RunPodGroupPostFilterPlugins implements framework.Framework.
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

// upstreamGang returns a trial: upstream preempts for a gang. Each run uses a new rig.
func upstreamGang(tb testing.TB, of func() *scene) trial {
	tb.Helper()
	return func(watch stopwatch) {
		d := newDuel(tb, of())
		defer d.end()
		d.theirs(watch)
	}
}

// face measures Reprieve and upstream on a scene. Each round uses a new rig. The first decision of
// Reprieve on a rig is not recorded, because it builds the columns of the core. Later decisions
// only update the columns.
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
