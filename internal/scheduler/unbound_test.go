package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// These constants are the names of a plugin and of steps at which it makes a pod fail.
const (
	// failsAt is the name of the plugin, and of the annotation with the step.
	failsAt = "Failing"
	// atBind makes the API server of the rig reject the binding.
	atBind = "Bind"
	// afterBind makes the API server of the rig bind the pod, but return an error.
	afterBind = "after Bind"
)

var errFailing = errors.New("it never works")

type failing struct{}

func (failing) Name() string { return failsAt }

func (failing) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	switch pod.Annotations[failsAt] {
	case "Reserve":
		return fwk.AsStatus(errFailing)
	case "Reserve, rejecting":
		return fwk.NewStatus(fwk.Unschedulable, errFailing.Error())
	default:
		return nil
	}
}

func (failing) Unreserve(context.Context, fwk.CycleState, *corev1.Pod, string) {}

func (failing) Permit(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
	switch pod.Annotations[failsAt] {
	case "Permit":
		return fwk.NewStatus(fwk.Unschedulable, errFailing.Error()), 0
	case "Permit, timeout":
		return fwk.NewStatus(fwk.Wait, "not yet"), 10 * time.Millisecond
	default:
		return nil, 0
	}
}

func (failing) PreBindPreFlight(context.Context, fwk.CycleState, *corev1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, nil
}

func (failing) PreBind(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	switch pod.Annotations[failsAt] {
	case "PreBind":
		return fwk.AsStatus(errFailing)
	case "PreBind, rejecting":
		return fwk.NewStatus(fwk.Unschedulable, errFailing.Error())
	default:
		return nil
	}
}

func fails(p *corev1.Pod, step string) *corev1.Pod {
	p.Annotations = map[string]string{failsAt: step}
	return p
}

// replaceVictims creates replacements for the victims of an order that has ended, as a controller
// does.
func (r *rig) replaceVictims(order int, cpu string) {
	r.t.Helper()
	for _, victim := range r.evictor.orders[order].Victims {
		r.create(on(pod(fmt.Sprintf("%s-%d", victim.Name, order), "", cpu, 0), victim.Spec.NodeName))
	}
}

// makeRoom removes the victims of an order and ends the order.
func (r *rig) makeRoom(order int) {
	r.t.Helper()
	for _, victim := range r.evictor.orders[order].Victims {
		r.remove(victim)
	}
	r.finish(order, eviction.Outcome{})
}

// isPaused runs cycles until a workload is in a pause, so that it must not preempt.
func (r *rig) isPaused(key workload.Key) {
	r.t.Helper()
	r.eventually("it backs off from preempting", func() bool {
		r.cycles()
		return r.sched.ledger.BacksOff(key)
	})
}

// scheduled returns the message of a pod's PodScheduled condition in the API.
func (r *rig) scheduled(name string) string {
	r.t.Helper()
	p, err := r.client.CoreV1().Pods("ns").Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.Message
		}
	}
	return ""
}

// annotate changes the annotations of a pod, as its owner would.
func (r *rig) annotate(name string, annotations map[string]string) {
	r.t.Helper()
	p, err := r.client.CoreV1().Pods("ns").Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	p = p.DeepCopy()
	p.Annotations = annotations
	if _, err := r.client.CoreV1().Pods("ns").Update(r.t.Context(), p, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// withoutBinding returns the value of the metric for preemptions whose preemptor was not bound.
func (r *rig) withoutBinding() float64 {
	r.t.Helper()
	families, err := r.measured.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() == "reprieve_preemptions_without_binding_total" {
			for _, metric := range family.GetMetric() {
				sum += metric.GetCounter().GetValue()
			}
		}
	}
	return sum
}

const longPause = "{gang: {permitTimeout: 1s}, retry: {initialBindingBackoff: 1h, maxBindingBackoff: 2h}}"

// TestFailsAfterPreempting checks a workload that fails at a step after the decision, when its
// victims are gone. After the failure, the workload must not preempt and must have no reservation,
// and its message must report this. When the owner changes the workload, it must be bound, and the
// record of its preemptions must end.
func TestFailsAfterPreempting(t *testing.T) {
	t.Parallel()
	for step, stage := range map[string]string{
		"Reserve":            "Reserve plugin Failing",
		"Reserve, rejecting": "Reserve or Permit plugin Failing",
		"Permit":             "Reserve or Permit plugin Failing",
		"Permit, timeout":    "Permit plugin Failing",
		"PreBind":            "PreBind plugin Failing",
		"PreBind, rejecting": "PreBind plugin Failing",
		atBind:               "Bind plugin DefaultBinder",
	} {
		for _, asGang := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, gang %t", step, asGang), func(t *testing.T) {
				t.Parallel()
				r := newRigArgs(t, longPause, nodes(2, "1")...)
				r.create(on(pod("v-0", "", "1", 0), "node-0"), on(pod("v-1", "", "1", 0), "node-1"))
				name, victims, failed := "p", 1, pod("p", "", "1", 10)
				of, paused := []*corev1.Pod{failed}, podKey(failed)
				if asGang {
					name, victims, paused = "g-1", 2, gangKey(key("g"))
					r.gangOf("g", 2, 10)
					of = members("g", 2, "1", 10)
					failed = of[1]
				}
				fails(failed, step)
				r.create(of...)
				r.cycles()
				r.makeRoom(0)
				r.isPaused(paused)
				if n := r.withoutBinding(); n != 1 {
					t.Errorf("%v preemptions without a binding are counted, want 1", n)
				}
				r.eventually("it says so", func() bool {
					said := r.scheduled(name)
					return strings.Contains(said, "1 preemption for this") && strings.Contains(said, stage)
				})
				r.replaceVictims(0, "1")
				r.eventually("it finds no room, and says why", func() bool {
					r.cycles()
					said := r.scheduled(name)
					return strings.Contains(said, "so it preempts nothing before") && strings.Contains(said, stage+": ") && strings.Contains(said, "backs off from preempting")
				})
				if n := len(r.evictor.orders); n != 1 {
					t.Fatalf("%d preemptions, want 1", n)
				}
				if !r.sched.reserved.Empty() {
					t.Error("Room is reserved for it")
				}
				r.annotate(name, nil)
				r.eventually("it preempts again", func() bool { r.cycles(); return len(r.evictor.orders) == 2 })
				// A member that passed Permit before the failure of the other member is bound.
				if got := len(r.taken(1)); got == 0 || got > victims {
					t.Errorf("%d are taken", got)
				}
				r.makeRoom(1)
				for _, p := range of {
					r.waitBound(p.Name)
				}
				r.eventually("the record ends", func() bool { return r.sched.unbound.Len() == 0 })
			})
		}
	}
}

// TestPreemptsAgainLater checks that a workload preempts again at the end of its pause, without
// another event. The next pause must be longer.
func TestPreemptsAgainLater(t *testing.T) {
	t.Parallel()
	r := newRigArgs(t, "{retry: {initialBindingBackoff: 3s, maxBindingBackoff: 1h}}", nodes(1, "1")...)
	p := fails(pod("p", "", "1", 10), atBind)
	r.create(on(pod("v", "", "1", 0), "node-0"), p)
	r.cycles()
	r.makeRoom(0)
	r.isPaused(podKey(p))
	first, _ := r.sched.unbound.Pause(podKey(p), r.sched.clock.Now())
	r.replaceVictims(0, "1")
	r.eventually("it preempts again", func() bool { r.cycles(); return len(r.evictor.orders) == 2 })
	if now := time.Now(); now.Before(first.Until) {
		t.Errorf("It preempts again %v too early", first.Until.Sub(now))
	}
	began := r.sched.clock.Now()
	r.makeRoom(1)
	r.isPaused(podKey(p))
	if p, _ := r.sched.unbound.Pause(podKey(p), r.sched.clock.Now()); p.Preemptions != 2 || p.Until.Before(began.Add(6*time.Second)) {
		t.Errorf("The next pause is %+v, after %v", p, began)
	}
}

// TestReservesWhenThePauseEnds checks a workload that waits for a terminating pod. During its
// pause, it has no reservation. When the pause ends, it must get a reservation without another
// event.
func TestReservesWhenThePauseEnds(t *testing.T) {
	t.Parallel()
	for kind, group := range map[string]string{"a pod": "", "a gang": "g"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := newRigArgs(t, "{retry: {initialBindingBackoff: 3s, maxBindingBackoff: 1h}}", nodes(1, "1")...)
			if group != "" {
				r.gangOf(group, 1, 10)
			}
			p := fails(pod("p", group, "1", 10), atBind)
			r.create(on(pod("v", "", "1", 0), "node-0"), p)
			r.cycles()
			r.makeRoom(0)
			r.isPaused(r.sched.index.KeyOf(p))
			r.replaceVictims(0, "1")
			r.terminate("v-0", time.Now().Add(time.Hour))
			r.eventually("it waits for the pod that leaves", func() bool { r.cycles(); return r.sched.waits.WaitsForVictims(r.sched.index.KeyOf(p)) })
			if !r.sched.reserved.Empty() {
				t.Error("Room is reserved for it")
			}
			r.eventually("room is reserved for it", func() bool { r.cycles(); _, ok := r.reservedOn(p.UID); return ok })
			if n := len(r.evictor.orders); n != 1 {
				t.Errorf("%d preemptions, want 1", n)
			}
		})
	}
}

// TestRecreatedPreemptorsBackOff checks that the pods that a controller creates as replacements
// have the pause of the earlier pods.
func TestRecreatedPreemptorsBackOff(t *testing.T) {
	t.Parallel()
	for name, asGang := range map[string]bool{"of a ReplicaSet": false, "of a gang": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigArgs(t, longPause, nodes(1, "1")...)
			r.gangOf("g", 1, 10)
			made := func(name string) *corev1.Pod {
				p := fails(pod(name, map[bool]string{true: "g"}[asGang], "1", 10), atBind)
				p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", UID: "uid-rs", Controller: ptr.To(true)}}
				return p
			}
			first, second := made("first"), made("second")
			r.create(on(pod("v", "", "1", 0), "node-0"), first)
			r.cycles()
			r.makeRoom(0)
			r.isPaused(r.sched.index.KeyOf(first))
			r.replaceVictims(0, "1")
			r.remove(first)
			r.create(second)
			r.eventually("the next pod says why it finds no room", func() bool {
				r.cycles()
				return strings.Contains(r.scheduled("second"), "1 preemption for this")
			})
			if n := len(r.evictor.orders); n != 1 {
				t.Errorf("%d preemptions, want 1", n)
			}
			r.remove(second)
			if n := r.sched.unbound.Len(); n != 1 {
				t.Errorf("%d records, want 1", n)
			}
			if asGang {
				r.groups.drop(key("g"))
				r.sched.GroupChanged(key("g"))
				if n := r.sched.unbound.Len(); n != 0 {
					t.Errorf("%d records once the PodGroup is gone", n)
				}
			}
		})
	}
}

// TestPodGroupChanges checks that a change of the PodGroup's spec ends the pause of its gang. A
// change of the status does not.
func TestPodGroupChanges(t *testing.T) {
	t.Parallel()
	r := newRigArgs(t, longPause, nodes(1, "1")...)
	g := r.gangOf("g", 1, 10)
	r.create(on(pod("v", "", "1", 0), "node-0"), fails(pod("p", "g", "1", 10), atBind))
	r.cycles()
	r.makeRoom(0)
	r.isPaused(gangKey(g.Key))
	r.replaceVictims(0, "1")
	change := func(how func(*gang.Group)) {
		changed := *g
		how(&changed)
		g = &changed
		r.groups.set(g)
		r.sched.GroupChanged(g.Key)
	}
	change(func(g *gang.Group) { g.StartTime = time.Now() })
	if !r.sched.ledger.BacksOff(gangKey(g.Key)) {
		t.Error("A status ends the pause")
	}
	change(func(g *gang.Group) { g.PriorityClassName = "other" })
	if r.sched.ledger.BacksOff(gangKey(g.Key)) {
		t.Error("A change of the PodGroup does not end the pause")
	}
	r.eventually("it preempts again", func() bool { r.cycles(); return len(r.evictor.orders) == 2 })
}

// TestBoundInSpiteOfAnError checks that a binding counts as a success if the API server made it but
// returned an error.
func TestBoundInSpiteOfAnError(t *testing.T) {
	t.Parallel()
	r := newRigArgs(t, longPause, nodes(1, "1")...)
	r.create(on(pod("v", "", "1", 0), "node-0"), fails(pod("p", "", "1", 10), afterBind))
	r.cycles()
	r.makeRoom(0)
	r.waitBound("p")
	r.eventually("the record ends", func() bool { return r.sched.unbound.Len() == 0 })
	r.cycles()
	if n := len(r.evictor.orders); n != 1 {
		t.Errorf("%d preemptions, want 1", n)
	}
}

// TestTurnedBackIsNoFailure checks a preemptor that is preempted itself before it is bound. This
// counts as no failure, so it may preempt again.
func TestTurnedBackIsNoFailure(t *testing.T) {
	t.Parallel()
	for name, asGang := range map[string]bool{"in PreBind": false, "at Permit": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigArgs(t, "{retry: {initialBindingBackoff: 1h, maxBindingBackoff: 2h}}", nodes(1, "1")...)
			p := slow([]*corev1.Pod{pod("p", "", "1", 10)})[0]
			if asGang {
				// In this case, the pod is the only member of a gang.
				r.gangOf("g", 1, 10)
				p.Labels = pod("p", "g", "1", 10).Labels
			}
			r.create(on(pod("v", "", "1", 0), "node-0"), p)
			r.cycles()
			r.makeRoom(0)
			r.eventually("it is about to be bound", func() bool { r.cycles(); return r.sched.handle.GetPodInPreBind(p.UID) != nil })
			if !r.plugin.TurnBack(p) {
				t.Fatal("it is not turned back")
			}
			r.eventually("it has given its place up", func() bool { return !r.sched.records.IsAssumed(string(p.UID)) })
			r.eventually("it is in its queue again", func() bool {
				pods, _ := r.upstream.SchedulingQueue.PendingPods()
				return slices.ContainsFunc(pods, func(waits *corev1.Pod) bool { return waits.UID == p.UID })
			})
			if r.sched.ledger.BacksOff(r.sched.index.KeyOf(p)) || r.withoutBinding() != 0 {
				t.Error("it backs off from preempting")
			}
		})
	}
}

// TestBacksOffBelowOthers checks that a workload in a pause respects all reservations of other
// workloads, regardless of its priority.
func TestBacksOffBelowOthers(t *testing.T) {
	t.Parallel()
	r := newRigArgs(t, longPause, nodes(2, "1")...)
	p := fails(pod("p", "", "1", 20), atBind)
	r.create(on(pod("v-0", "", "1", 0), "node-0"), on(pod("v-1", "", "1", 15), "node-1"), p)
	r.cycles()
	r.makeRoom(0)
	r.isPaused(podKey(p))
	r.replaceVictims(0, "1")
	before, _ := r.sched.unbound.Pause(podKey(p), r.sched.clock.Now())
	lesser := pod("lesser", "", "1", 10)
	r.create(lesser)
	r.eventually("the lesser one preempts", func() bool { r.cycles(); return len(r.evictor.orders) == 2 })
	for _, victim := range r.evictor.orders[1].Victims {
		r.remove(victim)
	}
	// The room is free, but the pod of lower priority is gated until its order ends.
	var tried atomic.Bool
	r.meanwhile = func(pod *corev1.Pod) {
		if pod.UID == p.UID {
			tried.Store(true)
		}
	}
	r.sched.retries.activate(p)
	r.eventually("it is tried", func() bool { r.cycles(); return tried.Load() })
	if _, ok := r.reservedOn(lesser.UID); !ok {
		t.Error("The lesser one has lost its room")
	}
	r.finish(1, eviction.Outcome{})
	r.waitBound("lesser")
	if after, _ := r.sched.unbound.Pause(podKey(p), r.sched.clock.Now()); after != before {
		t.Errorf("It has failed again: %+v, before %+v", after, before)
	}
}
