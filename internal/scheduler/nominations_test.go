package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/metrics"
)

// nominate adds a nomination to the framework's memory. The framework does this when a pod with a
// nomination in the API changes.
func (r *rig) nominate(p *corev1.Pod, node string) {
	pi, err := framework.NewPodInfo(p)
	if err != nil {
		r.t.Error(err)
		return
	}
	r.plugin.handle.AddNominatedPod(klog.Background(), pi, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node})
}

// TestNominationOfAPlanBefore adds a nomination from an earlier plan while a member is in its cycle
// on the same node. The member must be retried, and the gang must keep its reservations.
func TestNominationOfAPlanBefore(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(2, "2")...)
	r.gangOf("g", 2, 5)
	all := members("g", 2, "2", 5)
	r.create(all...)
	r.create(pod("thief", "", "1", 5))
	others := map[string]*corev1.Pod{"g-0": all[1], "g-1": all[0]}
	came := 0
	r.meanwhile = func(p *corev1.Pod) {
		if node := r.sched.reserved.NodeOf(string(p.UID)); node != "" && came == 0 {
			came++
			r.nominate(others[p.Name], node)
		}
	}
	r.eventually("the gang is placed", func() bool { r.cycles(); return r.nodeOf("g-0") != "" && r.nodeOf("g-1") != "" })
	if came != 1 {
		t.Errorf("A nomination came back %d times, want 1", came)
	}
	if on := r.nodeOf("thief"); on != "" {
		t.Errorf("The thief is on %s", on)
	}
}

// TestNominationThatWasReplaced checks that a nomination keeps no room on a node if the pod has its
// reservation on another node.
func TestNominationThatWasReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t, node("node-0", "1"), node("node-1", "1"))
	victim := on(pod("v", "", "1", 0), "node-0")
	r.create(victim, on(pod("w", "", "1", 9), "node-1"))
	nominee := pod("nominee", "", "1", 5)
	r.create(nominee)
	r.cycle()
	if got := r.sched.reserved.NodeOf(string(nominee.UID)); got != "node-0" {
		t.Fatalf("The nominee is promised %q", got)
	}
	r.nominate(nominee, "node-1")
	r.create(pod("next", "", "1", 5))
	r.cycles()
	r.remove(on(pod("w", "", "1", 9), "node-1"))
	r.eventually("the next is placed", func() bool { r.cycles(); return r.nodeOf("next") == "node-1" })
}

// TestNominationOfOneThatStandsLower checks that a nomination keeps no room from a pod whose group
// has a higher priority. The pod's own priority is low.
func TestNominationOfOneThatStandsLower(t *testing.T) {
	t.Parallel()
	for name, minCount := range map[string]int{"a gang": 1, "a pod of a basic group": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(1, "2")...)
			leaves := on(pod("leaves", "", "1", 0), "node-0")
			leaves.Finalizers = []string{"test/stays"}
			now := metav1.Now()
			leaves.DeletionTimestamp = &now
			nominee := pod("nominee", "", "2", 5)
			r.create(leaves, nominee)
			r.cycle()
			if got := r.sched.reserved.NodeOf(string(nominee.UID)); got != "node-0" {
				t.Fatalf("The nominee is promised %q", got)
			}
			r.nominate(nominee, "node-0")
			r.gangOf("g", minCount, 9)
			r.create(members("g", 1, "1", 0)...)
			r.eventually("it is placed", func() bool { r.cycles(); return r.nodeOf("g-0") == "node-0" })
		})
	}
}

// TestNominationOfOneThatIsDeleted checks that the nomination of a deleted pod keeps no room, even
// if a finalizer keeps the pod.
func TestNominationOfOneThatIsDeleted(t *testing.T) {
	t.Parallel()
	for name, minCount := range map[string]int{"a gang": 2, "pods of a basic group": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(1, "3")...)
			// Add a valid nomination of a pending pod, which keeps its room. Because of this
			// nomination, the scheduler looks at the nominations of the node.
			waits := pod("waits", "", "1", 5)
			waits.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "test/stays"}}
			waits.Status.NominatedNodeName = "node-0"
			r.create(waits)
			nominee := pod("nominee", "", "1", 5)
			nominee.Finalizers = []string{"test/stays"}
			now := metav1.Now()
			nominee.DeletionTimestamp = &now
			// The test uses a scheduling gate so that the scheduler's queue still has the deleted
			// pod. A pod that returns to the queue just before the informer reports the deletion
			// also stays there.
			nominee.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "test/stays"}}
			r.create(nominee)
			r.nominate(nominee, "node-0")
			r.gangOf("g", minCount, 5)
			r.create(members("g", 2, "1", 5)...)
			r.eventually("both are placed", func() bool { r.cycles(); return r.nodeOf("g-0") == "node-0" && r.nodeOf("g-1") == "node-0" })
			if n := r.counted("reprieve_gang_plans_unconfirmed_total", "refusal", string(metrics.FirstTime)); n != 0 {
				t.Errorf("%v plans could not be carried out", n)
			}
		})
	}
}

// TestNominationEnds checks that workloads that wait for the room of a nomination are retried when
// the nomination ends, even if no plan made the nomination.
func TestNominationEnds(t *testing.T) {
	t.Parallel()
	ends := map[string]func(r *rig, p *corev1.Pod){
		"the pod is deleted": func(r *rig, p *corev1.Pod) { r.remove(p) },
		"the pod terminates": func(r *rig, p *corev1.Pod) {
			now := metav1.Now()
			p.DeletionTimestamp, p.Finalizers = &now, []string{"test/stays"}
			r.update(p)
		},
		"another component withdraws it": func(r *rig, p *corev1.Pod) {
			p.Status.NominatedNodeName = ""
			r.update(p)
		},
	}
	for how, end := range ends {
		for name, waiting := range map[string]struct {
			grouped  bool
			minCount int
			own      int32
		}{
			"single pods":                    {own: 5},
			"pods of a basic group":          {grouped: true, own: 5},
			"a gang":                         {grouped: true, minCount: 2, own: 5},
			"a gang with important members":  {grouped: true, minCount: 2, own: 9},
			"a group with important members": {grouped: true, own: 9},
		} {
			t.Run(how+"/"+name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, nodes(1, "2")...)
				nominee := pod("nominee", "", "1", 7)
				nominee.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "test/stays"}}
				nominee.Status.NominatedNodeName = "node-0"
				r.create(nominee)
				if waiting.grouped {
					r.gangOf("g", waiting.minCount, 5)
					r.create(members("g", 2, "1", waiting.own)...)
				} else {
					r.create(pod("g-0", "", "1", waiting.own), pod("g-1", "", "1", waiting.own))
				}
				r.cycles()
				r.cycles()
				end(r, nominee.DeepCopy())
				r.waitBound("g-0", "g-1")
			})
		}
	}
}

// update writes a new version of a pod and its status.
func (r *rig) update(p *corev1.Pod) {
	r.t.Helper()
	p.ResourceVersion = "2"
	if _, err := r.client.CoreV1().Pods(p.Namespace).Update(r.t.Context(), p, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}
