package reporter

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// TestTelling checks which conditions the members of gangs get in each second.
func TestTelling(t *testing.T) {
	t.Parallel()
	cases := map[string]func(f *fixture){
		"all but the one that the framework speaks of, a second later, and once": func(f *fixture) {
			f.gang("g", 3)
			f.framework("g-0", "0/1 nodes are available: no room.")
			f.decided("g", "no room")
			f.expect()
			f.pass(1)
			f.expect("g-1 Unschedulable: no room", "g-2 Unschedulable: no room")
			f.decided("g", "no room")
			f.pass(60)
			f.expect()
		},
		"the leader as well where the framework has not": func(f *fixture) {
			f.gang("g", 1)
			f.decided("g", "no room")
			f.pass(1)
			f.expect("g-0 Unschedulable: no room")
		},
		"nothing where room is found within a second": func(f *fixture) {
			f.gang("g", 2)
			f.decided("g", "no room")
			f.clock.Step(engine.ReportDelay - time.Millisecond)
			f.reporter.ReportMembers(f.clock.Now())
			f.engine.Gangs.FoundRoom(gang.KeyOf(key("g")))
			f.pass(60)
			f.expect()
		},
		"nothing of those that have their place": func(f *fixture) {
			all := f.gang("g", 4)
			f.framework("g-0", "no room")
			f.decided("g", "no room")
			f.engine.Gangs.Reserve(gang.KeyOf(key("g")), string(all[1].UID), "node-0")
			f.engine.Step(f.clock.Now(), engine.PodAssumes{Pod: string(all[2].UID), Key: gang.KeyOfPod(all[2]), Node: "node-0"})
			bound := all[3].DeepCopy()
			bound.Spec.NodeName = "node-0"
			f.update(bound)
			f.pass(60)
			f.expect()
		},
		"a message that changes, every ten seconds": func(f *fixture) {
			f.gang("g", 2)
			f.framework("g-0", "no room")
			for i := range 25 {
				f.decided("g", fmt.Sprintf("%d have room", i))
				f.pass(1)
			}
			f.expect("g-1 Unschedulable: 0 have room", "g-1 Unschedulable: 10 have room", "g-1 Unschedulable: 20 have room")
			f.pass(60)
			f.expect("g-1 Unschedulable: 24 have room")
		},
		"what did not get through, again": func(f *fixture) {
			f.gang("g", 2)
			f.framework("g-0", "no room")
			f.deaf = true
			f.decided("g", "no room")
			f.pass(9)
			f.expect("g-1 Unschedulable: no room")
			f.deaf = false
			f.pass(60)
			f.expect("g-1 Unschedulable: no room")
		},
		"one that comes later": func(f *fixture) {
			f.gang("g", 2)
			f.framework("g-0", "no room")
			f.decided("g", "no room")
			f.pass(5)
			f.said = nil
			f.update(pod("late", "g", 1))
			f.pass(60)
			f.expect("late Unschedulable: no room")
		},
		"one that led before": func(f *fixture) {
			all := f.gang("g", 2)
			f.framework("g-0", "0/1 nodes are available: no room.")
			f.decided("g", "no room")
			f.pass(1)
			f.said = nil
			f.engine.Gangs.Yield(gang.KeyOf(key("g")), string(all[0].UID))
			f.engine.Gangs.Admit(gang.KeyOf(key("g")), string(all[1].UID), func(engine.UID) bool { return true })
			f.decided("g", "less room")
			f.pass(60)
			f.expect("g-0 Unschedulable: less room")
		},
		"that a gang has come to lack members, where they said that they lack room": func(f *fixture) {
			all := f.gang("g", 3)
			f.framework("g-0", "no room")
			f.decided("g", "no room")
			f.pass(1)
			f.said = nil
			f.remove(all[2])
			f.pass(60)
			const why = "PodGroup ns/g needs 3 members and has 2"
			f.expect("g-0 NotEnoughMembers: "+why, "g-1 NotEnoughMembers: "+why)
			// The old message must not be written again before the next decision.
			f.update(pod("g-3", "g", 1))
			f.pass(60)
			f.expect()
			f.decided("g", "still no room")
			f.pass(1)
			f.expect("g-0 Unschedulable: still no room", "g-1 Unschedulable: still no room", "g-3 Unschedulable: still no room")
		},
		"that the PodGroup has gone": func(f *fixture) {
			f.gang("g", 1)
			f.framework("g-0", "no room")
			f.decided("g", "no room")
			f.pass(1)
			delete(f.groups, key("g"))
			f.engine.Gangs.CheckReported(gang.KeyOf(key("g")), f.clock.Now())
			f.pass(60)
			f.expect("g-0 PodGroupNotFound: PodGroup ns/g does not exist")
		},
		"nothing of a limit, and no more that they lack room": func(f *fixture) {
			f.gang("g", 2)
			f.framework("g-0", "no room")
			full := gang.Verdict{Reason: v1alpha1.ReasonQueueLimit, Message: "the queue is full"}
			f.reporter.NoRoom(gang.KeyOf(key("g")), full)
			f.pass(60)
			f.expect()
			f.decided("g", "no room")
			f.pass(1)
			f.expect("g-1 Unschedulable: no room")
			f.reporter.NoRoom(gang.KeyOf(key("g")), full)
			f.pass(60)
			f.expect("g-1 QueueLimit: the queue is full")
		},
		"nothing while members are missing that never lacked room": func(f *fixture) {
			all := f.gang("g", 2)
			f.remove(all[1])
			f.pass(60)
			f.expect()
		},
		"that there is no node": func(f *fixture) {
			if err := f.nodes.Replace(nil, ""); err != nil {
				f.t.Fatal(err)
			}
			f.gang("g", 2)
			f.pass(60)
			f.expect()
			f.framework("g-0", "no nodes available to schedule pods")
			f.pass(1)
			f.expect("g-1 Unschedulable: no nodes available to schedule pods")
		},
		"nothing of pods that another scheduler speaks of": func(f *fixture) {
			for _, pod := range f.gang("g", 2) {
				pod.Spec.SchedulerName = "another"
				f.update(pod)
				f.framework(pod.Name, "no room there")
			}
			f.remove(f.now("g-1"))
			f.engine.Gangs.CheckReport(gang.KeyOf(key("g")), f.clock.Now())
			f.pass(60)
			f.expect()
		},
		"nothing of one that is held back for its class": func(f *fixture) {
			f.gang("g", 2)
			f.groups[key("g")] = &gang.Group{Key: key("g"), UID: "uid-g", MinCount: 2, Priority: ptr.To(int32(1)), Bounded: true}
			f.add(f.pods, pod("low", "g", 0))
			f.show(f.now("low"), corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: v1alpha1.ReasonPriorityAbovePods})
			f.framework("g-0", "no room")
			f.decided("g", "no room")
			f.pass(60)
			f.expect("g-1 Unschedulable: no room")
		},
		"nothing of one that is held back for what it belongs to": func(f *fixture) {
			f.reporter.index.Derived = holdsBack{name: "g-2"}
			f.gang("g", 3)
			f.framework("g-0", "no room")
			f.decided("g", "no room")
			f.pass(60)
			f.expect("g-1 Unschedulable: no room")
		},
		"nothing of a group that is no gang": func(f *fixture) {
			f.gang("g", 2)
			f.groups[key("g")] = &gang.Group{Key: key("g"), UID: "uid-g", Priority: ptr.To(int32(1))}
			f.framework("g-0", "no room")
			f.decided("g", "no room")
			f.pass(60)
			f.expect()
		},
	}
	for name, run := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			run(f)
			for _, pod := range f.pods.List() {
				if p, ok := pod.(*corev1.Pod); ok {
					if err := f.pods.Delete(p); err != nil {
						t.Error(err)
					}
					f.engine.Gangs.CheckReported(gang.KeyOf(key("g")), f.clock.Now())
				}
			}
			f.pass(2)
			if n := f.engine.Gangs.Reports(); n != 0 {
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
	f := newFixture(t)
	f.gang("g", count)
	f.framework("g-0", "no room")
	f.decided("g", "no room")
	f.clock.Step(time.Millisecond)
	f.gang("later", 2)
	f.framework("later-0", "no room")
	f.decided("later", "no room")
	perSecond := func() map[time.Duration]int {
		out := map[time.Duration]int{}
		for _, s := range f.said {
			out[s.at]++
		}
		f.said = nil
		return out
	}
	for at, n := range func() map[time.Duration]int { f.pass(20); return perSecond() }() {
		if n > maxReports {
			t.Errorf("%d calls at %v, want %d at most", n, at, maxReports)
		}
	}
	if len(f.calls) != count || f.calls["later-1"] != 1 {
		t.Errorf("%d members have been told, want %d; the other gang's %d times", len(f.calls), count, f.calls["later-1"])
	}
	for name, n := range f.calls {
		if n != 1 {
			t.Errorf("%s is told %d times", name, n)
		}
	}
	f.pass(60)
	f.expect()
	clear(f.calls)
	const seconds = 60
	for i := range seconds {
		f.decided("g", fmt.Sprintf("%d have room", i))
		f.pass(1)
	}
	for at, n := range perSecond() {
		if n > maxReports {
			t.Errorf("%d calls at %v, want %d at most", n, at, maxReports)
		}
	}
	for name, n := range f.calls {
		if n > seconds/int(engine.ReportAgain.Seconds()) {
			t.Errorf("%s is told %d times in %d seconds", name, n, seconds)
		}
	}
}

// TestConditionOfATold checks that a written condition has the observed generation of the pod, like
// kube-scheduler's conditions.
func TestConditionOfATold(t *testing.T) {
	t.Parallel()
	p := pod("p", "g", 1)
	p.Generation = 7
	want := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "room is being made",
		ObservedGeneration: 7,
	}
	if got := Condition(p, gang.Verdict{Reason: v1alpha1.ReasonPreempting, Message: "room is being made"}); got != want {
		t.Errorf("It is %+v, want %+v", got, want)
	}
}

// TestMemberThatComesTooSoon checks the message for a member whose cycle comes too early. The
// member must get the verdict of its gang, and not the message that another member plans.
func TestMemberThatComesTooSoon(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.gang("g", 1)
	if got := f.reporter.WhyHeld(key("g"), engine.HoldForLeader); strings.Contains(got, "another member") {
		t.Errorf("It hears %q", got)
	}
	if got := f.reporter.WhyHeld(key("g"), engine.HoldForPlan); got != string(engine.HoldForPlan) {
		t.Errorf("It hears %q", got)
	}
	f.engine.Gangs.SetVerdict(gang.KeyOf(key("g")), gang.Verdict{Reason: v1alpha1.ReasonUnschedulable, Message: "no room"})
	for _, a := range []engine.Admission{engine.HoldForLeader, engine.HoldForPlan} {
		if got := f.reporter.WhyHeld(key("g"), a); got != "no room" {
			t.Errorf("It hears %q of a gang that finds no room", got)
		}
	}
}
