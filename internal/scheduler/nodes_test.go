package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// changeNode changes a node and waits until the scheduler's informer and cache have the change.
func (r *rig) changeNode(name string, change func(*corev1.Node)) {
	r.t.Helper()
	got, err := r.client.CoreV1().Nodes().Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	got = got.DeepCopy()
	change(got)
	if _, err := r.client.CoreV1().Nodes().Update(r.t.Context(), got, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	isNew := func(known *corev1.Node) bool {
		return known != nil && known.Spec.Unschedulable == got.Spec.Unschedulable && len(known.Spec.Taints) == len(got.Spec.Taints)
	}
	r.eventually("the change of "+name+" is known", func() bool {
		known, err := r.sched.index.Nodes.Get(name)
		cached := r.upstream.Cache.Dump().Nodes[name]
		return err == nil && isNew(known) && cached != nil && isNew(cached.Node())
	})
}

func (r *rig) removeNode(name string) {
	r.t.Helper()
	if err := r.client.CoreV1().Nodes().Delete(r.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
	// The cache keeps an entry for a deleted node while pods are on the node.
	r.eventually("the scheduler notices that "+name+" has gone", func() bool {
		_, err := r.sched.index.Nodes.Get(name)
		for known, info := range r.upstream.Cache.Dump().Nodes {
			if known == name && info.Node() != nil {
				return false
			}
		}
		return err != nil
	})
}

func cordon(n *corev1.Node) { n.Spec.Unschedulable = true }

func notReady(n *corev1.Node) {
	n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
}

// ways maps the ways to lose a node to functions that do it.
var ways = map[string]func(*rig, string){
	"it goes":        (*rig).removeNode,
	"it is cordoned": func(r *rig, name string) { r.changeNode(name, cordon) },
	"it has a taint of an owner": func(r *rig, name string) {
		r.changeNode(name, func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoSchedule}}
		})
	},
	"it is not ready for too long": (*rig).failNode,
}

// failNode makes a node not ready. It shortens the time of dips, and returns after that time.
func (r *rig) failNode(name string) {
	r.t.Helper()
	r.sched.dips.SetDuration(time.Millisecond)
	r.changeNode(name, notReady)
	r.eventually("the dip is over", func() bool { return !r.dips(name) })
}

// nominatedTo returns the node of each nomination in the framework's memory. It looks at node-0,
// node-1 and so on, up to the given number of nodes.
func (r *rig) nominatedTo(nodes int) []string {
	var out []string
	for i := range nodes {
		name := fmt.Sprintf("node-%d", i)
		if len(r.plugin.handle.NominatedPodsForNode(name)) > 0 {
			out = append(out, name)
		}
	}
	return out
}

// lastNomination returns the node of the last nomination of a pod that the evictor has written.
func (r *rig) lastNomination(name string) (node string, told bool) {
	r.evictor.mu.Lock()
	defer r.evictor.mu.Unlock()
	for _, n := range r.evictor.nominations {
		if n.Pod.Name == name {
			node, told = n.Node, true
		}
	}
	return node, told
}

// promised creates a preemptor that waits for its victims on two of four full nodes. The preemptor
// is a gang of two pods, or two single pods. It returns the keys of the workloads and the two
// nodes.
func promised(r *rig, isGang bool) (keys []workload.Key, on2 []string) {
	r.t.Helper()
	for i := range 4 {
		r.create(on(pod(fmt.Sprintf("v-%d", i), "", "1", 0), fmt.Sprintf("node-%d", i)))
	}
	if isGang {
		r.gangOf("p", 2, 10)
		r.create(members("p", 2, "1", 10)...)
		keys = []workload.Key{gangKey(key("p"))}
	} else {
		r.create(pod("p-0", "", "1", 10), pod("p-1", "", "1", 10))
		keys = []workload.Key{podKey(pod("p-0", "", "1", 0)), podKey(pod("p-1", "", "1", 0))}
	}
	r.cycles()
	for i := range r.evictor.orders {
		for _, v := range r.evictor.orders[i].Victims {
			r.terminate(v.Name, time.Now())
		}
		r.succeed(i)
	}
	r.eventually("they wait for their victims", func() bool { return len(r.active()) > 0 })
	r.cycles()
	for node := range r.sched.reserved.Nodes() {
		on2 = append(on2, node)
	}
	slices.Sort(on2)
	if len(on2) != 2 || len(r.nominatedTo(4)) != 2 {
		r.t.Fatalf("Room is promised on %v, and shown on %v", on2, r.nominatedTo(4))
	}
	return keys, on2
}

func (r *rig) terminate(name string, since time.Time) {
	r.t.Helper()
	r.terminateWithin(name, since, nil)
}

// terminateWithin sets the deletion timestamp and the grace period, in seconds, of a pod.
func (r *rig) terminateWithin(name string, until time.Time, seconds *int64) {
	r.t.Helper()
	got, err := r.client.CoreV1().Pods("ns").Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	got = got.DeepCopy()
	got.DeletionTimestamp, got.DeletionGracePeriodSeconds = &metav1.Time{Time: until}, seconds
	if _, err := r.client.CoreV1().Pods("ns").Update(r.t.Context(), got, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.eventually("it is known that "+name+" is terminating", func() bool {
		known, err := r.upstream.Cache.GetPod(got)
		listed, errOfList := r.sched.index.Pods.Pods("ns").Get(name)
		return err == nil && known.DeletionTimestamp != nil && errOfList == nil && listed.DeletionTimestamp != nil
	})
}

// TestPromiseOnALostNode checks that workloads with reservations on a lost node are planned again
// at once. The new plan counts terminating victims as gone. The old nominations are deleted.
func TestPromiseOnALostNode(t *testing.T) {
	t.Parallel()
	for way, lose := range ways {
		for _, isGang := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, gang %t", way, isGang), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, nodes(4, "1")...)
				keys, on2 := promised(r, isGang)
				orders := len(r.evictor.orders)
				lose(r, on2[0])
				r.eventually("it is planned again", func() bool { r.cycles(); return len(r.evictor.orders) > orders })
				if got := r.victims(); len(got) != 3 {
					t.Errorf("Victims were %v, want one more than the two before", got)
				}
				var now []string
				for _, k := range keys {
					for _, reserved := range r.sched.reserved.Of(k) {
						now = append(now, reserved.Node)
					}
				}
				slices.Sort(now)
				if len(now) != 2 || slices.Contains(now, on2[0]) || !slices.Contains(now, on2[1]) {
					t.Errorf("Room is promised on %v, before that on %v", now, on2)
				}
				if shown := r.nominatedTo(4); !slices.Equal(shown, now) {
					t.Errorf("Shown are %v, promised %v", shown, now)
				}
			})
		}
	}
}

// TestPromiseOnTheLastNode checks that a reservation is released when no node is left. The
// framework runs no cycles then.
func TestPromiseOnTheLastNode(t *testing.T) {
	t.Parallel()
	for _, isGang := range []bool{true, false} {
		t.Run(fmt.Sprintf("gang %t", isGang), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(4, "1")...)
			_, _ = promised(r, isGang)
			for i := range 4 {
				r.removeNode(fmt.Sprintf("node-%d", i))
			}
			r.eventually("nothing is promised", func() bool { return r.sched.reserved.Empty() && len(r.nominatedTo(4)) == 0 })
			for _, name := range []string{"p-0", "p-1"} {
				if node, told := r.lastNomination(name); !told || node != "" {
					t.Errorf("The API was told that %s is expected on %q (%t)", name, node, told)
				}
			}
			if isGang {
				if v := r.sched.gangs.Verdict(gangKey(key("p"))); v.Reason != v1alpha1.ReasonUnschedulable || !strings.Contains(v.Message, "has gone") {
					t.Errorf("The gang is told %+v", v)
				}
			}
			// A new node is added. Nothing of the old reservation may be left.
			if _, err := r.client.CoreV1().Nodes().Create(t.Context(), node("new", "2"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			r.eventually("it is tried again", func() bool { return len(r.active()) > 0 })
			r.cycles()
			r.eventually("it runs there", func() bool {
				r.cycles()
				return r.nodeOf("p-0") == "new" && r.nodeOf("p-1") == "new"
			})
		})
	}
}

// TestToleratedIsNotLost checks that a pod keeps its reservation when its node gets a taint that
// the pod tolerates.
func TestToleratedIsNotLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, node("node-0", "1"))
	r.create(on(pod("v", "", "1", 0), "node-0"))
	p := pod("p", "", "1", 10)
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	r.create(p)
	r.cycle()
	r.succeed(0)
	for _, change := range []func(){
		func() { r.changeNode("node-0", cordon) },
		func() { r.failNode("node-0") },
		func() {
			r.changeNode("node-0", func(n *corev1.Node) {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule})
			})
		},
	} {
		change()
		r.sched.nodes.releaseLost()
		if !r.sched.reserved.Has(string(p.UID)) || !r.wants(0) {
			t.Fatal("Its room was taken back")
		}
	}
}

// TestFiltersThatAreOff checks that a taint does not release a reservation if the profile of the
// pod does not run the filters for taints.
func TestFiltersThatAreOff(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, strings.Replace(schedulerYAML, "{name: DefaultPreemption}", "{name: DefaultPreemption}, {name: TaintToleration}, {name: NodeUnschedulable}", 1),
		nil, node("node-0", "1"))
	r.create(on(pod("v", "", "1", 0), "node-0"))
	p := pod("p", "", "1", 10)
	r.create(p)
	r.cycle()
	r.succeed(0)
	r.changeNode("node-0", cordon)
	r.failNode("node-0")
	r.sched.nodes.releaseLost()
	if !r.sched.reserved.Has(string(p.UID)) {
		t.Error("Its room was taken back")
	}
	r.removeNode("node-0")
	r.eventually("nothing is promised", r.sched.reserved.Empty)
}

// TestNodeLostDuringAnEviction checks that no victim is evicted for room on a lost node. The
// reservation is released when the eviction ends.
func TestNodeLostDuringAnEviction(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, newPreemptor func(r *rig) *corev1.Pod) {
		r := newRig(t, nodes(2, "1")...)
		r.create(on(pod("v-0", "", "1", 0), "node-0"), on(pod("v-1", "", "1", 5), "node-1"))
		p := newPreemptor(r)
		r.create(p)
		r.cycle()
		if !r.wants(0) {
			t.Fatal("It is not wanted before")
		}
		r.removeNode("node-0")
		// The lister knows the deletion of the node a moment before the handlers do, so wait.
		r.eventually("no victim is to go from a node that has gone", func() bool { return !r.wants(0) })
		if !r.sched.reserved.Has(string(p.UID)) {
			t.Error("The promise has ended, with calls under way")
		}
		// The reservation must be released even though all API calls of the order succeed.
		r.finish(0, eviction.Outcome{})
		if r.sched.reserved.Has(string(p.UID)) {
			t.Error("The promise goes on")
		}
		r.eventually("it is tried again", func() bool { return len(r.active()) > 0 })
		r.cycle()
		if node, _ := r.reservedOn(p.UID); node != "node-1" {
			t.Errorf("Room is promised on %q", node)
		}
	})
}

// TestUnwantedOnTheLastNode checks a gang whose order is dropped because no node is left. Its
// verdict must not stay at Preempting.
func TestUnwantedOnTheLastNode(t *testing.T) {
	t.Parallel()
	r := newRig(t, node("node-0", "1"))
	r.create(on(pod("v", "", "1", 0), "node-0"))
	r.gangOf("g", 1, 10)
	r.create(members("g", 1, "1", 10)...)
	r.cycle()
	if got := r.sched.gangs.Verdict(gangKey(key("g"))).Reason; got != v1alpha1.ReasonPreempting {
		t.Fatalf("It is told %s", got)
	}
	r.removeNode("node-0")
	r.finish(0, eviction.Outcome{Err: eviction.ErrOutdated, Unwanted: true})
	if got := r.sched.gangs.Verdict(gangKey(key("g"))); got.Reason != v1alpha1.ReasonUnschedulable {
		t.Errorf("It is told %+v", got)
	}
}

// TestPlannedOnALostNode checks a cycle that reserves room on a node that was lost after the cycle
// began. The reservation must be released.
func TestPlannedOnALostNode(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, newPreemptor func(r *rig) *corev1.Pod) {
		r := newRig(t, node("node-0", "1"))
		r.create(on(pod("v", "", "1", 0), "node-0"))
		p := newPreemptor(r)
		r.create(p)
		r.snapshot()
		r.terminate("v", time.Now())
		made := r.decide(p)
		r.removeNode("node-0")
		r.plugin.carryOut(t.Context(), p, made)
		_, settle := r.sched.cycles.attemptEnds(nil, p, fwk.NewStatus(fwk.Unschedulable))
		settle()
		r.eventually("nothing is promised", func() bool {
			return r.sched.reserved.Empty() && len(r.nominatedTo(1)) == 0 && !r.sched.waits.WaitsForVictims(r.sched.index.KeyOf(p))
		})
	})
}

// TestTakenBackInItsCycle releases a reservation before the end of the cycle that made it. At the
// end of the cycle, the framework writes the nomination. The nomination must be deleted, the wait
// for the victims must end, and the pod must be retried.
func TestTakenBackInItsCycle(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, newPreemptor func(r *rig) *corev1.Pod) {
		r := newRig(t, node("node-0", "1"))
		r.create(on(pod("v", "", "1", 0), "node-0"))
		p := newPreemptor(r)
		r.create(p)
		r.terminate("v", time.Now())
		key := r.sched.index.KeyOf(p)
		made := r.decide(p)
		result, _ := r.plugin.carryOut(t.Context(), p, made)
		// The cycle may record its wait for victims after the release of the reservation.
		r.sched.releases.All(key, "its queue has changed")
		r.sched.waits.WaitForVictims(key, []string{"uid-v"}, nil)
		pi, err := framework.NewPodInfo(p)
		if err != nil {
			t.Fatal(err)
		}
		r.plugin.handle.AddNominatedPod(klog.Background(), pi, result.NominatingInfo)
		if len(r.nominatedTo(1)) == 0 {
			t.Fatal("Nothing is shown")
		}
		_, settle := r.sched.cycles.attemptEnds(nil, p, fwk.NewStatus(fwk.Unschedulable))
		settle()
		r.eventually("nothing is shown", func() bool { return len(r.nominatedTo(1)) == 0 && !r.sched.waits.WaitsForVictims(key) })
		if node, told := r.lastNomination(p.Name); !told || node != "" {
			t.Errorf("The API was told last that it is expected on %q (%t)", node, told)
		}
	})
}

// TestPermitOnALostNode checks that a member at Permit is not bound to a node that was deleted.
func TestPermitOnALostNode(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(2, "1")...)
	r.gangOf("g", 2, 10)
	r.create(members("g", 2, "1", 10)...)
	r.cycle()
	var first string
	r.eventually("a member waits at Permit", func() bool {
		first = ""
		for _, name := range []string{"g-0", "g-1"} {
			if w := r.plugin.handle.GetWaitingPod(pod(name, "", "1", 0).UID); w != nil {
				first = w.GetPod().Spec.NodeName
			}
		}
		return first != ""
	})
	r.removeNode(first)
	r.eventually("no member waits", func() bool {
		return r.plugin.handle.GetWaitingPod("uid-g-0") == nil && r.plugin.handle.GetWaitingPod("uid-g-1") == nil
	})
	r.eventually("nothing is promised", r.sched.reserved.Empty)
	for _, name := range []string{"g-0", "g-1"} {
		if node := r.nodeOf(name); node != "" {
			t.Errorf("%s is bound to %s", name, node)
		}
	}
}

// TestNodeThatGrowsWhileVictimsLeave checks a preemptor that needs the room of all its victims until
// its node grows. Then the room of one victim is enough, so the preemptor waits only for one.
func TestNodeThatGrowsWhileVictimsLeave(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, newPreemptor func(r *rig) *corev1.Pod) {
		r := newRig(t, node("node-0", "3"))
		victims := []string{"v-0", "v-1", "v-2"}
		for _, name := range victims {
			r.create(on(pod(name, "", "1", 0), "node-0"))
		}
		p := newPreemptor(r)
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("3")
		r.create(p)
		r.eventually("room is made", func() bool { r.cycles(); return len(r.evictor.orders) > 0 })
		for _, name := range victims {
			r.terminate(name, time.Now().Add(time.Hour))
		}
		r.succeed(0)
		r.changeNode("node-0", offersCPU("5"))
		r.eventually("no victim is needed", func() bool {
			r.cycles()
			key := r.sched.index.KeyOf(p)
			return r.sched.waits.WaitsForVictims(key) && !r.sched.waits.IsShort(key)
		})
		r.remove(on(pod("v-1", "", "1", 0), "node-0"))
		r.waitBound(p.Name)
	})
}
