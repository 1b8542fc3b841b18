package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// TestNotWorkloadAware checks that a profile that is not workload-aware preempts pod by pod.
// Neither the preemptors nor the victims count as gangs.
func TestNotWorkloadAware(t *testing.T) {
	t.Parallel()
	r := newRigArgs(t, "{workloadAware: false}", nodes(2, "1")...)
	r.gangOf("victims", 2, 0).Whole = true
	victims := members("victims", 2, "1", 0)
	r.gangOf("g", 3, 10)
	all := members("g", 1, "1", 10)
	r.create(on(victims[0], "node-0"), on(victims[1], "node-1"), all[0])
	r.cycle()
	if n := len(r.evictor.orders); n != 1 {
		t.Fatalf("%d evictions for the first member, want 1", n)
	}
	d := r.evictor.orders[0].Decision
	if len(d.Victims) != 1 || d.Victims[0].Group || len(d.Victims[0].Pods) != 1 || d.Preemptor.Gang {
		t.Errorf("%+v takes %+v, want a pod that takes a pod", d.Preemptor, d.Victims)
	}
}

// TestNotWorkloadAwarePlacesPods checks that, in a profile that is not workload-aware, members of
// an incomplete gang are placed one by one.
func TestNotWorkloadAwarePlacesPods(t *testing.T) {
	t.Parallel()
	r := newRigArgs(t, "{workloadAware: false}", nodes(1, "1")...)
	r.gangOf("g", 3, 10)
	r.create(members("g", 2, "1", 10)...)
	r.cycles()
	r.eventually("one member is bound", func() bool { return r.nodeOf("g-0") != "" || r.nodeOf("g-1") != "" })
}

// TestOwnPriorityWithoutWorkloads checks that, in a profile that is not workload-aware, the
// priority of a group has no effect.
func TestOwnPriorityWithoutWorkloads(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args string
		want core.Outcome
	}{
		"aware of workloads":     {args: "{}", want: core.Infeasible},
		"not aware of workloads": {args: "{workloadAware: false}", want: core.Preempts},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigArgs(t, c.args, nodes(1, "1")...)
			r.gangOf("victims", 1, 100)
			p := pod("p", "", "1", 10)
			r.create(on(pod("v", "victims", "1", 0), "node-0"), p)
			if d := r.decideFor(p); d.Outcome != c.want {
				t.Errorf("%s: %s, want %s", d.Outcome, d.Message, c.want)
			}
		})
	}
}

// TestVictimsOfAnotherProfile checks that the profile of the victim decides whether the victim is
// evicted as a gang. The profile of the preemptor must have no effect.
func TestVictimsOfAnotherProfile(t *testing.T) {
	t.Parallel()
	const byPods = `- schedulerName: by-pods
  plugins:
    multiPoint: {enabled: [{name: Reprieve}], disabled: [{name: DefaultPreemption}]}
    preFilter: {enabled: [{name: Reprieve}]}
  pluginConfig: [{name: Reprieve, args: {workloadAware: false}}]
`
	for name, c := range map[string]struct {
		preemptor, victims string
		wantWhole          bool
	}{
		"by groups, from by groups":         {preemptor: "reprieve-scheduler", victims: "reprieve-scheduler", wantWhole: true},
		"by groups, from by pods":           {preemptor: "reprieve-scheduler", victims: "by-pods"},
		"by groups, from another scheduler": {preemptor: "reprieve-scheduler", victims: "other", wantWhole: true},
		"by pods, from by groups":           {preemptor: "by-pods", victims: "reprieve-scheduler", wantWhole: true},
		"by pods, from by pods":             {preemptor: "by-pods", victims: "by-pods"},
		"by pods, from another scheduler":   {preemptor: "by-pods", victims: "other", wantWhole: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigWith(t, schedulerYAML+byPods, nil, nodes(2, "1")...)
			r.gangOf("g", 2, 0).Whole = true
			victims, p := members("g", 2, "1", 0), pod("p", "", "1", 10)
			for i, victim := range victims {
				victim.Spec.SchedulerName = c.victims
				on(victim, fmt.Sprintf("node-%d", i))
			}
			p.Spec.SchedulerName = c.preemptor
			r.create(append(victims, p)...)
			r.cycle()
			if n := len(r.evictor.orders); n != 1 {
				t.Fatalf("%d evictions, want 1", n)
			}
			taken, want := r.evictor.orders[0].Decision.Victims, map[bool]int{true: 2, false: 1}[c.wantWhole]
			if len(taken) != 1 || taken[0].Group != c.wantWhole || len(taken[0].Pods) != want {
				t.Errorf("It takes %+v, want one victim of %d pods", taken, want)
			}
		})
	}
}

// TestSynchronous checks a profile with synchronous eviction. The cycle ends only after the API
// calls, and the preemptor is not gated.
func TestSynchronous(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{"that works": nil, "that fails": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigArgs(t, "{asynchronous: false, retry: {initialBackoff: 1s}}", nodes(1, "1")...)
			made, cycled := false, make(chan struct{})
			r.evictor.atOnce = func() error {
				// A cycle that does not wait for the call ends in this time.
				select {
				case <-cycled:
				case <-time.After(20 * time.Millisecond):
				}
				made = true
				return failure
			}
			p := pod("p", "", "1", 10)
			r.create(on(pod("v", "", "1", 0), "node-0"), p)
			r.cycle()
			close(cycled)
			if !made {
				t.Fatal("the cycle has ended before the calls")
			}
			if r.sched.gates.isEvictingFor(p) {
				t.Error("the preemptor is gated")
			}
			if reserved := !r.sched.reserved.Empty(); reserved != (failure == nil) {
				t.Errorf("a reservation is kept: %t", reserved)
			}
			if failure != nil {
				r.eventually("it is tried again", func() bool { return slices.Contains(r.active(), "p") })
			}
		})
	}
}

// TestTolerationsOff checks that a profile can ignore tolerations.
func TestTolerationsOff(t *testing.T) {
	t.Parallel()
	r := newRigArgs(t, "{preemptionToleration: false}", append([]runtime.Object{tolerantClass("c", "100", "-1")}, nodes(1, "1")...)...)
	p := pod("p", "", "1", 10)
	r.create(on(classed(pod("v", "", "1", 0), "c", time.Now()), "node-0"), p)
	if d := r.decideFor(p); d.Outcome != core.Preempts {
		t.Errorf("%s: %s, want %s", d.Outcome, d.Message, core.Preempts)
	}
}

// TestMinRuntimeOfTheVictimsProfile checks that the min-runtime of the victim's profile protects
// the victim, whichever profile the preemptor has. The group's status shows the same min-runtime.
func TestMinRuntimeOfTheVictimsProfile(t *testing.T) {
	t.Parallel()
	const patient = `- schedulerName: patient
  plugins:
    multiPoint: {enabled: [{name: Reprieve}], disabled: [{name: DefaultPreemption}]}
    preFilter: {enabled: [{name: Reprieve}]}
  pluginConfig: [{name: Reprieve, args: {preemptMinRuntime: 1h}}]
`
	for name, c := range map[string]struct {
		preemptor, victim, group string
		want                     core.Outcome
	}{
		"a pod of a hasty profile, for a patient one":     {preemptor: "patient", victim: "reprieve-scheduler", want: core.Preempts},
		"a pod of a patient profile, from a hasty one":    {preemptor: "reprieve-scheduler", victim: "patient", want: core.Infeasible},
		"a gang of a hasty profile, for a patient one":    {preemptor: "patient", victim: "reprieve-scheduler", group: "whole", want: core.Preempts},
		"a gang of a patient profile, from a hasty one":   {preemptor: "reprieve-scheduler", victim: "patient", group: "whole", want: core.Infeasible},
		"a member of a patient profile, from a hasty one": {preemptor: "reprieve-scheduler", victim: "patient", group: "elastic", want: core.Infeasible},
		"a pod of another scheduler, from a hasty one":    {preemptor: "reprieve-scheduler", victim: "another", want: core.Preempts},
		"a pod of another scheduler, for a patient one":   {preemptor: "patient", victim: "another", want: core.Infeasible},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigWith(t, schedulerYAML+patient, nil, nodes(1, "1")...)
			r.gangOf("whole", 1, 0).Whole = true
			r.gangOf("elastic", 1, 0)
			p, v := pod("p", "", "1", 10), on(pod("v", c.group, "1", 0), "node-0")
			p.Spec.SchedulerName, v.Spec.SchedulerName = c.preemptor, c.victim
			v.Status.Phase = corev1.PodRunning
			r.create(v, p)
			r.cycle()
			if preempts := len(r.evictor.orders) > 0; preempts != (c.want == core.Preempts) {
				t.Errorf("it preempts: %t, want %s", preempts, c.want)
			}
			if c.group == "" {
				return
			}
			g, _ := r.sched.index.Groups.Group(key(c.group))
			members := r.sched.index.Lister.Members(key(c.group))
			if protected := r.sched.MinRuntime(g, &members) > 0; protected != (c.want == core.Infeasible) {
				t.Errorf("the status has a protection: %t, and the decision is %s", protected, c.want)
			}
		})
	}
}
