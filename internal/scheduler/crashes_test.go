package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/engine"
)

// afterTwo is the argument that pauses a preemptor after its second crash.
const afterTwo = "{retry: {crashLimit: 2, initialBindingBackoff: 1h, maxBindingBackoff: 2h}}"

// changeStatus changes the status of a pod, as a kubelet does, and waits until the informer of the
// scheduler has the change.
func (r *rig) changeStatus(name string, change func(*corev1.Pod)) {
	r.t.Helper()
	pods := r.client.CoreV1().Pods("ns")
	p, err := pods.Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	p = p.DeepCopy()
	change(p)
	p.ResourceVersion = fmt.Sprint(len(p.ResourceVersion), p.Status.String())
	if _, err := pods.UpdateStatus(r.t.Context(), p, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.eventually("the scheduler knows the status of "+name, func() bool {
		known, err := r.sched.index.Pods.Pods("ns").Get(name)
		return err == nil && known.ResourceVersion == p.ResourceVersion
	})
	r.awaitHandlers()
}

// awaitHandlers waits until the scheduler has handled all earlier changes of pods. The informer
// stores a change before it calls the handlers, so its store shows nothing about the handlers.
// Therefore, awaitHandlers adds a pod and waits for a fact that only the handlers record.
func (r *rig) awaitHandlers() {
	r.t.Helper()
	last := pod("last-"+rand.String(8), "", "1", 0)
	last.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "test/stays"}}
	last.Status.NominatedNodeName = "no-node"
	r.create(last)
	r.eventually("the handlers have heard the last pod", func() bool {
		_, ok := r.sched.records.Nominated()[string(last.UID)]
		return ok
	})
	r.remove(last)
}

func readyIs(status corev1.ConditionStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	}
}

// restarts raises the restart count of the pod's container.
func restarts(p *corev1.Pod) {
	if len(p.Status.ContainerStatuses) == 0 {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "train"}}
	}
	s := &p.Status.ContainerStatuses[0]
	s.RestartCount++
	s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}
}

// crashes waits until the scheduler counts the wanted number of crashes for the workload of a pod.
func (r *rig) crashes(p *corev1.Pod, want int) {
	r.t.Helper()
	r.eventually(fmt.Sprintf("%d crashes count", want), func() bool {
		pause, _ := r.sched.engine.Crashes.Pause(r.sched.index.KeyOf(p), r.sched.clock.Now())
		return pause.Crashes == want
	})
}

// TestCrashesAfterPreempting checks a preemptor whose container crashes, and whose controller then
// replaces its pods. The victims are also replaced by their controller. The preemptor must not
// preempt any more, its message must report this, and it must be placed in free room.
func TestCrashesAfterPreempting(t *testing.T) {
	t.Parallel()
	for name, asGang := range map[string]bool{"of a ReplicaSet": false, "of a gang": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigArgs(t, afterTwo, nodes(2, "1")...)
			group, count, kind := "", 1, "pod"
			if asGang {
				group, count, kind = "g", 2, "gang"
				r.gangOf("g", 2, 10)
			}
			made := func(prefix string) (of []*corev1.Pod) {
				for i := range count {
					p := pod(fmt.Sprintf("%s-%d", prefix, i), group, "1", 10)
					p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", UID: "uid-rs", Controller: ptr.To(true)}}
					of = append(of, p)
				}
				return of
			}
			for i := range count {
				r.create(on(pod(fmt.Sprintf("v-%d", i), "", "1", 0), fmt.Sprintf("node-%d", i)))
			}
			if !asGang {
				r.create(on(pod("other", "", "1", 20), "node-1"))
			}
			first, second := made("first"), made("second")
			r.create(first...)
			r.cycles()
			r.makeRoom(0)
			for _, p := range first {
				r.waitBound(p.Name)
			}
			last := first[count-1]
			r.changeStatus(last.Name, restarts)
			if _, paused := r.sched.engine.Pause(r.sched.index.KeyOf(last), r.sched.clock.Now()); paused {
				t.Error("It is paused after 1 crash, want 2")
			}
			r.changeStatus(last.Name, restarts)
			r.crashes(last, 2)
			for _, p := range first {
				r.remove(p)
			}
			r.replaceVictims(0, "1")
			r.create(second...)
			r.eventually("the next one says why it finds no room", func() bool {
				r.cycles()
				// For a gang, only the leader's condition has the message.
				said := ""
				for _, p := range second {
					said += r.scheduled(p.Name)
				}
				return strings.Contains(said, "2 starts in a row of this "+kind+" crashed after a preemption, before it was ready for 10s") &&
					strings.Contains(said, "the last crash is of container train of pod "+last.Name+": exit code 1 (Error)") &&
					strings.Contains(said, "backs off from preempting")
			})
			if n := len(r.evictor.orders); n != 1 {
				t.Errorf("%d preemptions, want 1", n)
			}
			for _, victim := range r.evictor.orders[0].Victims {
				r.remove(pod(victim.Name+"-0", "", "1", 0))
			}
			for _, p := range second {
				r.waitBound(p.Name)
			}
		})
	}
}

// TestWorksAfterPreempting checks crashes that do not count, and one that counts. After each case
// except the last, the workload must preempt again.
func TestWorksAfterPreempting(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		crash func(r *rig)
		want  int
	}{
		"none": {crash: func(*rig) {}},
		"one":  {crash: func(r *rig) { r.changeStatus("p", restarts) }},
		"while terminated": {crash: func(r *rig) {
			r.terminate("p", time.Now())
			r.changeStatus("p", restarts)
			r.changeStatus("p", restarts)
		}},
		"while evicted": {crash: func(r *rig) {
			r.changeStatus("p", func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
			})
			r.changeStatus("p", restarts)
			r.changeStatus("p", restarts)
		}},
		"ready between": {crash: func(r *rig) {
			r.changeStatus("p", readyIs(corev1.ConditionTrue))
			r.sched.engine.Crashes.Observes(r.sched.index.KeyOf(pod("p", "", "1", 10)), false, r.sched.clock.Now().Add(engine.SettledAfter))
			r.changeStatus("p", restarts)
			r.changeStatus("p", restarts)
		}},
		"one with the next readiness": {crash: func(r *rig) {
			r.changeStatus("p", func(p *corev1.Pod) { restarts(p); readyIs(corev1.ConditionTrue)(p) })
			r.sched.engine.Crashes.Observes(r.sched.index.KeyOf(pod("p", "", "1", 10)), false, r.sched.clock.Now().Add(engine.SettledAfter))
			r.changeStatus("p", restarts)
			r.changeStatus("p", restarts)
		}},
		"two":               {want: 2, crash: func(r *rig) { r.changeStatus("p", restarts); r.changeStatus("p", restarts) }},
		"a restart, failed": {want: 2, crash: func(r *rig) { r.changeStatus("p", restarts); r.changeStatus("p", failed) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigArgs(t, afterTwo, nodes(1, "1")...)
			p := pod("p", "", "1", 10)
			r.create(on(pod("v", "", "1", 0), "node-0"), p)
			r.cycles()
			r.makeRoom(0)
			r.waitBound("p")
			c.crash(r)
			pause, paused := r.sched.engine.Pause(podKey(p), r.sched.clock.Now())
			if pause.Crashes != c.want || paused != (c.want > 0) {
				t.Errorf("The pause is %+v, want one after %d crashes", pause, c.want)
			}
			r.remove(p)
			r.eventually("no record is left of a pod without a controller", r.sched.engine.Crashes.IsEmpty)
		})
	}
}

func failed(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
