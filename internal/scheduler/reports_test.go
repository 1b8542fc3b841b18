package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// hall is a Scheduler with pods, groups and a clock, but without a framework. Tests check its
// reports second by second.
type hall struct {
	t       *testing.T
	sched   *Scheduler
	groups  *groups
	pods    cache.Indexer
	nodes   cache.Indexer
	clock   *clocktesting.FakeClock
	started time.Time
	// deaf is true if written conditions do not appear in the informer.
	deaf bool

	said []saying
	// calls maps the name of each pod to the number of conditions that were written for it.
	calls map[string]int
}

// saying is a condition that was written for a pod, and the time since the start of the test.
type saying struct {
	pod  string
	at   time.Duration
	what corev1.PodCondition
}

var _ Statuses = (*hall)(nil)

func newHall(t *testing.T) *hall {
	t.Helper()
	h := &hall{
		t: t, groups: &groups{all: map[types.NamespacedName]*gang.Group{}}, clock: clocktesting.NewFakeClock(time.Unix(1000, 0)),
		pods: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
			cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
			gang.IndexName: func(obj any) ([]string, error) {
				if p, ok := obj.(*corev1.Pod); ok {
					if key, ok := gang.GroupOf(p); ok {
						return []string{key.String()}, nil
					}
				}
				return nil, nil
			},
		}),
		nodes: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		calls: map[string]int{},
	}
	h.started = h.clock.Now()
	in := &Inputs{Groups: h.groups, Statuses: h, Clock: h.clock}
	h.sched = detached(in)
	h.sched.index.Lister, h.sched.index.Pods, h.sched.index.Nodes = gang.NewLister(h.pods), corelisters.NewPodLister(h.pods), corelisters.NewNodeLister(h.nodes)
	args := &configv1alpha1.ReprieveArgs{WorkloadAware: ptr.To(true), QueueLabelKey: ptr.To(v1alpha1.LabelQueue)}
	h.sched.index.Profiles.Add("reprieve-scheduler", args, nil)
	h.add(h.nodes, node("node-0", "1"))
	return h
}

func (h *hall) add(to cache.Indexer, obj any) {
	h.t.Helper()
	if err := to.Add(obj); err != nil {
		h.t.Fatal(err)
	}
}

// gang creates a gang with count members. The first member is the leader.
func (h *hall) gang(name string, count int) []*corev1.Pod {
	h.t.Helper()
	h.groups.set(&gang.Group{Key: key(name), UID: types.UID("uid-" + name), MinCount: count, Priority: ptr.To(int32(1))})
	all := members(name, count, "1", 1)
	for _, pod := range all {
		h.update(pod)
	}
	h.sched.gangs.Admit(gangKey(key(name)), string(all[0].UID), func(engine.UID) bool { return true })
	return all
}

// update adds a version of a pod to the informer, and calls the handler.
func (h *hall) update(pod *corev1.Pod) {
	h.t.Helper()
	h.add(h.pods, pod)
	h.sched.podWatch.changed(pod, false)
}

// remove deletes a pod from the informer, and calls the handler.
func (h *hall) remove(pod *corev1.Pod) {
	h.t.Helper()
	if err := h.pods.Delete(pod); err != nil {
		h.t.Fatal(err)
	}
	h.sched.gangs.CheckReported(gangKey(key(pod.Labels[v1alpha1.LabelPodGroup])), h.clock.Now())
}

// now returns the current version of a pod from the informer.
func (h *hall) now(name string) *corev1.Pod {
	h.t.Helper()
	p, err := h.sched.index.Pods.Pods("ns").Get(name)
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

// framework sets the condition that the framework writes for a pod that found no room in its cycle.
func (h *hall) framework(name, message string) {
	h.t.Helper()
	h.show(h.now(name), corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message,
	})
}

func (h *hall) show(pod *corev1.Pod, c corev1.PodCondition) {
	h.t.Helper()
	pod = pod.DeepCopy()
	pod.Status.Conditions = []corev1.PodCondition{c}
	h.update(pod)
}

// Bound is part of Statuses.
func (*hall) Bound(types.UID) {}

// Say is part of Statuses.
func (h *hall) Say(pod *corev1.Pod, c corev1.PodCondition) {
	h.said = append(h.said, saying{pod: pod.Name, at: h.clock.Now().Sub(h.started), what: c})
	h.calls[pod.Name]++
	if !h.deaf {
		h.show(h.now(pod.Name), c)
	}
}

// decided records a decision without room for a gang.
func (h *hall) decided(name, message string) {
	h.sched.reporter.say(gangKey(key(name)), gang.Verdict{Reason: v1alpha1.ReasonUnschedulable, Message: message})
}

// pass advances the clock by a number of seconds, with one tick of the reporter in each second.
func (h *hall) pass(seconds int) {
	for range seconds {
		h.clock.Step(time.Second)
		h.sched.reporter.tellMembers(h.clock.Now())
	}
}

// expect compares the conditions that were written since the last call, in order.
func (h *hall) expect(want ...string) {
	h.t.Helper()
	var got []string
	for _, s := range h.said {
		got = append(got, fmt.Sprintf("%s %s: %s", s.pod, s.what.Reason, s.what.Message))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		h.t.Errorf("Said is\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	h.said = nil
}

// holdsBack is a Derived that blocks the pod with a name.
type holdsBack struct {
	cluster.Underived
	name string
}

// Hold is part of Derived.
func (h holdsBack) Hold(pod *corev1.Pod) gang.Verdict {
	if pod.Name != h.name {
		return gang.Verdict{}
	}
	return gang.Verdict{Reason: "OwnerUnknown", Message: "it has not been read"}
}

// TestTelling checks which conditions the members of gangs get in each second.
func TestTelling(t *testing.T) {
	t.Parallel()
	cases := map[string]func(h *hall){
		"all but the one that the framework speaks of, a second later, and once": func(h *hall) {
			h.gang("g", 3)
			h.framework("g-0", "0/1 nodes are available: no room.")
			h.decided("g", "no room")
			h.expect()
			h.pass(1)
			h.expect("g-1 Unschedulable: no room", "g-2 Unschedulable: no room")
			h.decided("g", "no room")
			h.pass(60)
			h.expect()
		},
		"the leader as well where the framework has not": func(h *hall) {
			h.gang("g", 1)
			h.decided("g", "no room")
			h.pass(1)
			h.expect("g-0 Unschedulable: no room")
		},
		"nothing where room is found within a second": func(h *hall) {
			h.gang("g", 2)
			h.decided("g", "no room")
			h.clock.Step(engine.ReportDelay - time.Millisecond)
			h.sched.reporter.tellMembers(h.clock.Now())
			h.sched.gangs.FoundRoom(gangKey(key("g")))
			h.pass(60)
			h.expect()
		},
		"nothing of those that have their place": func(h *hall) {
			all := h.gang("g", 4)
			h.framework("g-0", "no room")
			h.decided("g", "no room")
			h.sched.gangs.Reserve(gangKey(key("g")), string(all[1].UID), "node-0")
			h.sched.steps.step(engine.PodAssumes{Pod: string(all[2].UID), Key: podKey(all[2]), Node: "node-0"})
			h.update(on(all[3].DeepCopy(), "node-0"))
			h.pass(60)
			h.expect()
		},
		"a message that changes, every ten seconds": func(h *hall) {
			h.gang("g", 2)
			h.framework("g-0", "no room")
			for i := range 25 {
				h.decided("g", fmt.Sprintf("%d have room", i))
				h.pass(1)
			}
			h.expect("g-1 Unschedulable: 0 have room", "g-1 Unschedulable: 10 have room", "g-1 Unschedulable: 20 have room")
			h.pass(60)
			h.expect("g-1 Unschedulable: 24 have room")
		},
		"what did not get through, again": func(h *hall) {
			h.gang("g", 2)
			h.framework("g-0", "no room")
			h.deaf = true
			h.decided("g", "no room")
			h.pass(9)
			h.expect("g-1 Unschedulable: no room")
			h.deaf = false
			h.pass(60)
			h.expect("g-1 Unschedulable: no room")
		},
		"one that comes later": func(h *hall) {
			h.gang("g", 2)
			h.framework("g-0", "no room")
			h.decided("g", "no room")
			h.pass(5)
			h.said = nil
			h.update(pod("late", "g", "1", 1))
			h.pass(60)
			h.expect("late Unschedulable: no room")
		},
		"one that led before": func(h *hall) {
			all := h.gang("g", 2)
			h.framework("g-0", "0/1 nodes are available: no room.")
			h.decided("g", "no room")
			h.pass(1)
			h.said = nil
			h.sched.gangs.Yield(gangKey(key("g")), string(all[0].UID))
			h.sched.gangs.Admit(gangKey(key("g")), string(all[1].UID), func(engine.UID) bool { return true })
			h.decided("g", "less room")
			h.pass(60)
			h.expect("g-0 Unschedulable: less room")
		},
		"that a gang has come to lack members, where they said that they lack room": func(h *hall) {
			all := h.gang("g", 3)
			h.framework("g-0", "no room")
			h.decided("g", "no room")
			h.pass(1)
			h.said = nil
			h.remove(all[2])
			h.pass(60)
			const why = "PodGroup ns/g needs 3 members and has 2"
			h.expect("g-0 NotEnoughMembers: "+why, "g-1 NotEnoughMembers: "+why)
			// The old message must not be written again before the next decision.
			h.update(pod("g-3", "g", "1", 1))
			h.pass(60)
			h.expect()
			h.decided("g", "still no room")
			h.pass(1)
			h.expect("g-0 Unschedulable: still no room", "g-1 Unschedulable: still no room", "g-3 Unschedulable: still no room")
		},
		"that the PodGroup has gone": func(h *hall) {
			h.gang("g", 1)
			h.framework("g-0", "no room")
			h.decided("g", "no room")
			h.pass(1)
			h.groups.drop(key("g"))
			h.sched.gangs.CheckReported(gangKey(key("g")), h.clock.Now())
			h.pass(60)
			h.expect("g-0 PodGroupNotFound: PodGroup ns/g does not exist")
		},
		"nothing of a limit, and no more that they lack room": func(h *hall) {
			h.gang("g", 2)
			h.framework("g-0", "no room")
			full := gang.Verdict{Reason: v1alpha1.ReasonQueueLimit, Message: "the queue is full"}
			h.sched.reporter.say(gangKey(key("g")), full)
			h.pass(60)
			h.expect()
			h.decided("g", "no room")
			h.pass(1)
			h.expect("g-1 Unschedulable: no room")
			h.sched.reporter.say(gangKey(key("g")), full)
			h.pass(60)
			h.expect("g-1 QueueLimit: the queue is full")
		},
		"nothing while members are missing that never lacked room": func(h *hall) {
			all := h.gang("g", 2)
			h.remove(all[1])
			h.pass(60)
			h.expect()
		},
		"that there is no node": func(h *hall) {
			if err := h.nodes.Replace(nil, ""); err != nil {
				h.t.Fatal(err)
			}
			h.gang("g", 2)
			h.pass(60)
			h.expect()
			h.framework("g-0", "no nodes available to schedule pods")
			h.pass(1)
			h.expect("g-1 Unschedulable: no nodes available to schedule pods")
		},
		"nothing of pods that another scheduler speaks of": func(h *hall) {
			for _, pod := range h.gang("g", 2) {
				pod.Spec.SchedulerName = "another"
				h.update(pod)
				h.framework(pod.Name, "no room there")
			}
			h.remove(h.now("g-1"))
			h.sched.gangs.CheckReport(gangKey(key("g")), h.clock.Now())
			h.pass(60)
			h.expect()
		},
		"nothing of one that is held back for its class": func(h *hall) {
			h.gang("g", 2)
			h.groups.set(&gang.Group{Key: key("g"), UID: "uid-g", MinCount: 2, Priority: ptr.To(int32(1)), Bounded: true})
			h.add(h.pods, pod("low", "g", "1", 0))
			h.show(h.now("low"), corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: v1alpha1.ReasonPriorityAbovePods})
			h.framework("g-0", "no room")
			h.decided("g", "no room")
			h.pass(60)
			h.expect("g-1 Unschedulable: no room")
		},
		"nothing of one that is held back for what it belongs to": func(h *hall) {
			h.sched.index.Derived = holdsBack{name: "g-2"}
			h.gang("g", 3)
			h.framework("g-0", "no room")
			h.decided("g", "no room")
			h.pass(60)
			h.expect("g-1 Unschedulable: no room")
		},
		"nothing of a group that is no gang": func(h *hall) {
			h.gang("g", 2)
			h.groups.set(&gang.Group{Key: key("g"), UID: "uid-g", Priority: ptr.To(int32(1))})
			h.framework("g-0", "no room")
			h.decided("g", "no room")
			h.pass(60)
			h.expect()
		},
	}
	for name, run := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHall(t)
			run(h)
			for _, pod := range h.pods.List() {
				if p, ok := pod.(*corev1.Pod); ok {
					if err := h.pods.Delete(p); err != nil {
						t.Error(err)
					}
					h.sched.gangs.CheckReported(gangKey(key("g")), h.clock.Now())
				}
			}
			h.pass(2)
			if n := h.sched.gangs.Reports(); n != 0 {
				t.Errorf("%d gangs are remembered", n)
			}
		})
	}
}

// TestTellingAThousand checks the number of API calls for a gang of a thousand members. The number
// in each second is bounded, and is 0 once all members have the condition. Both must hold even if
// the message changes all the time. Other gangs must still get their conditions.
func TestTellingAThousand(t *testing.T) {
	t.Parallel()
	const count = 1000
	h := newHall(t)
	h.gang("g", count)
	h.framework("g-0", "no room")
	h.decided("g", "no room")
	h.clock.Step(time.Millisecond)
	h.gang("later", 2)
	h.framework("later-0", "no room")
	h.decided("later", "no room")
	perSecond := func() map[time.Duration]int {
		out := map[time.Duration]int{}
		for _, s := range h.said {
			out[s.at]++
		}
		h.said = nil
		return out
	}
	for at, n := range func() map[time.Duration]int { h.pass(20); return perSecond() }() {
		if n > tellBatch {
			t.Errorf("%d calls at %v, want %d at most", n, at, tellBatch)
		}
	}
	if len(h.calls) != count || h.calls["later-1"] != 1 {
		t.Errorf("%d members have been told, want %d; the other gang's %d times", len(h.calls), count, h.calls["later-1"])
	}
	for name, n := range h.calls {
		if n != 1 {
			t.Errorf("%s is told %d times", name, n)
		}
	}
	h.pass(60)
	h.expect()
	clear(h.calls)
	const seconds = 60
	for i := range seconds {
		h.decided("g", fmt.Sprintf("%d have room", i))
		h.pass(1)
	}
	for at, n := range perSecond() {
		if n > tellBatch {
			t.Errorf("%d calls at %v, want %d at most", n, at, tellBatch)
		}
	}
	for name, n := range h.calls {
		if n > seconds/int(engine.ReportAgain.Seconds()) {
			t.Errorf("%s is told %d times in %d seconds", name, n, seconds)
		}
	}
}

// TestConditionOfATold checks that a written condition has the observed generation of the pod, like
// kube-scheduler's conditions.
func TestConditionOfATold(t *testing.T) {
	t.Parallel()
	p := pod("p", "g", "1", 1)
	p.Generation = 7
	w := gangReport{Verdict: gang.Verdict{Reason: v1alpha1.ReasonPreempting, Message: "room is being made"}}
	want := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "room is being made",
		ObservedGeneration: 7,
	}
	if got := w.condition(p); got != want {
		t.Errorf("It is %+v, want %+v", got, want)
	}
}

// TestMemberThatComesTooSoon checks the message for a member whose cycle comes too early. The
// member must get the verdict of its gang, and not the message that another member plans.
func TestMemberThatComesTooSoon(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	h.gang("g", 1)
	if got := h.sched.reporter.whyHeld(key("g"), engine.HoldForLeader); strings.Contains(got, "another member") {
		t.Errorf("It hears %q", got)
	}
	if got := h.sched.reporter.whyHeld(key("g"), engine.HoldForPlan); got != string(engine.HoldForPlan) {
		t.Errorf("It hears %q", got)
	}
	h.sched.gangs.SetVerdict(gangKey(key("g")), gang.Verdict{Reason: v1alpha1.ReasonUnschedulable, Message: "no room"})
	for _, a := range []engine.Admission{engine.HoldForLeader, engine.HoldForPlan} {
		if got := h.sched.reporter.whyHeld(key("g"), a); got != "no room" {
			t.Errorf("It hears %q of a gang that finds no room", got)
		}
	}
}
