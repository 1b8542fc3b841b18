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
	// victims are the pods that go, placed is how many members get a place.
	victims []*corev1.Pod
	placed  int
}

// duel is a rig on which both sides decide for the same gang, on the same snapshot. Upstream's gate is on as long as it
// is open: it belongs to the process, and all other rigs run without it.
type duel struct {
	*rig
	leader *leaderCycle
	// victims are those of upstream's decision that is under way.
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

// enough is how long one side is repeated on one rig at most, once it has been twice.
const enough = 2 * time.Second

// mine is Reprieve's plan for the gang with its orders, so many times over. It comes before theirs.
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

// theirs is upstream's preemption for the gang, in a cycle of upstream's scheduler. It places the gang once on its own; what
// the cycle itself tries before does not count. There is only one such cycle on a rig: a second decision would find what the
// first has left in upstream's caches.
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

// enqueue tells upstream of the PodGroups, and puts the gang into its queue.
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

// preempt takes the place of what upstream's executor does to a victim, from any goroutine.
func (d *duel) preempt(_ context.Context, _ preemption.Candidate, _ preemption.ExecutorPreemptor, victim *corev1.Pod, _ string) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.victims = append(d.victims, victim)
	return false, nil
}

// timed takes the time of the framework's preemption for PodGroups.
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

// upstreamGang is a decision by upstream for a gang, with a rig of its own each time.
func upstreamGang(tb testing.TB, of func() *scene) trial {
	tb.Helper()
	return func(watch stopwatch) {
		d := newDuel(tb, of())
		defer d.end()
		d.theirs(watch)
	}
}

// face runs both sides on a scene, round by round, each with a rig of its own. A first decision of Reprieve's does not
// count: it fills columns that stay level from then on.
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
