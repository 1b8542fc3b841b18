package scheduler

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// aDip is a way in which a node becomes unusable for a moment, and the way in which it recovers.
type aDip struct{ begin, end func(*corev1.Node) }

func offersCPU(cpu string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse(cpu) }
}

func untainted(n *corev1.Node) { n.Spec.Taints = nil }

// dipsOfNodes are dips of node-0, which offers 5 CPUs.
var dipsOfNodes = map[string]aDip{
	"it offers less":  {offersCPU("0"), offersCPU("5")},
	"it is not ready": {notReady, untainted},
	"it is unreachable": {func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{
			{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule}, {Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute},
		}
	}, untainted},
}

// TestNodeThatDips checks a node that offers less, or is not ready, for a short time. The
// reservations on the node must be kept, even if another pod is placed in the remaining room. If
// the state is permanent, the reservations must be released.
func TestNodeThatDips(t *testing.T) {
	t.Parallel()
	for name, recovers := range map[string]bool{"for a moment": true, "for good": false} {
		for kind, group := range map[string]string{"a pod": "", "a gang": "g"} {
			for where, others := range map[string][]*corev1.Node{"with other room": {node("node-1", "4")}, "alone": nil} {
				for state, dip := range dipsOfNodes {
					t.Run(strings.Join([]string{state, name, kind, where}, ", "), func(t *testing.T) {
						t.Parallel()
						r, p := waitingForRoom(t, group, others)
						if recovers {
							r.dipsFor(time.Hour, dip.begin)
							r.recovers(p, dip.end)
							return
						}
						r.dipsFor(2*time.Second, dip.begin)
						if others == nil {
							r.eventually("it gives up its room", func() bool { r.cycles(); _, ok := r.reservedOn(p.UID); return !ok })
							return
						}
						r.eventually("other room is made", func() bool { r.cycles(); return len(r.evictor.orders) > 1 })
						if got := r.taken(1); !slices.Equal(got, []string{"dearer"}) {
							t.Errorf("%v is taken then", got)
						}
					})
				}
			}
		}
	}
}

// TestPlanOnANodeThatDips checks that a gang keeps its plan if the node of its next member is not
// ready for a moment. A new plan would evict pods on another node.
func TestPlanOnANodeThatDips(t *testing.T) {
	t.Parallel()
	for name, recovers := range map[string]bool{"for a moment": true, "for good": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(3, "1")...)
			r.create(on(pod("v", "", "1", 0), "node-2"))
			g := members("g", 2, "1", 10)
			r.gangOf("g", 2, 10)
			r.create(g...)
			r.eventually("one member waits for the other", func() bool {
				if len(r.active()) > 0 && r.sched.gangs.Planned(gangKey(key("g"))) != 1 {
					r.cycle()
				}
				return r.sched.gangs.Planned(gangKey(key("g"))) == 1
			})
			next := r.sched.gangs.Next(gangKey(key("g")))
			planned, _ := r.sched.gangs.PlannedNode(gangKey(key("g")), next)
			r.sched.dips.SetDuration(map[bool]time.Duration{true: time.Hour, false: time.Second}[recovers])
			r.changeNode(planned, notReady)
			if !recovers {
				r.eventually("other room is made", func() bool { r.cycles(); return len(r.evictor.orders) > 0 })
				return
			}
			r.never("the plan is released", time.Second, func() bool {
				r.cycles()
				return r.sched.gangs.Planned(gangKey(key("g"))) != 1 || len(r.evictor.orders) > 0
			})
			r.changeNode(planned, untainted)
			r.waitBound("g-0")
			r.waitBound("g-1")
			if n := len(r.evictor.orders); n > 0 {
				t.Errorf("%v is taken", r.taken(0))
			}
		})
	}
}

// TestEvictionOnANodeThatDips checks that an order stays wanted while the preemptor's node has a
// temporary taint.
func TestEvictionOnANodeThatDips(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, newPreemptor func(r *rig) *corev1.Pod) {
		r := newRig(t, node("node-0", "1"))
		r.create(on(pod("v", "", "1", 0), "node-0"))
		r.create(newPreemptor(r))
		r.cycle()
		r.changeNode("node-0", notReady)
		r.never("it is not wanted", 200*time.Millisecond, func() bool { return !r.wants(0) })
		r.changeNode("node-0", untainted)
		r.failNode("node-0")
		r.eventually("it is wanted no more", func() bool { return !r.wants(0) })
	})
}

// TestReplacedNodeHasNoDips checks a node that was deleted and created again within one update of
// the informer. The resources of the old node are no dip of the new one.
func TestReplacedNodeHasNoDips(t *testing.T) {
	t.Parallel()
	r, p := waitingForRoom(t, "", nil)
	r.sched.dips.ReadNodes(nil)
	old, err := r.sched.index.Nodes.Get("node-0")
	if err != nil {
		t.Fatal(err)
	}
	now := old.DeepCopy()
	offersCPU("1")(now)
	r.sched.nodes.noteDips(old, now)
	if _, dips := r.sched.dips.EndOf("node-0"); !dips {
		t.Fatal("The same node has no dip")
	}
	now.UID = "another"
	r.sched.nodes.noteDips(old, now)
	if _, dips := r.sched.dips.EndOf("node-0"); dips {
		t.Error("Another node has a dip")
	}
	if _, ok := r.reservedOn(p.UID); !ok {
		t.Error("The room was released although the node offers enough")
	}
}

// waitingForRoom returns a rig with a preemptor that waits for its victim on node-0 to terminate.
// The preemptor is a pod, or the only member of a gang if group is set.
func waitingForRoom(t *testing.T, group string, others []*corev1.Node) (*rig, *corev1.Pod) {
	t.Helper()
	return waitingFor(t, pod("p", group, "4", 10), others, nil)
}

// waitingFor is like waitingForRoom, but has the given preemptor p and more objects in the cluster.
func waitingFor(t *testing.T, p *corev1.Pod, others []*corev1.Node, more []runtime.Object) (*rig, *corev1.Pod) {
	t.Helper()
	objects := append([]runtime.Object{node("node-0", "5")}, more...)
	for _, other := range others {
		objects = append(objects, other.DeepCopy())
	}
	r := newRig(t, objects...)
	r.create(on(pod("v", "", "4", 0), "node-0"))
	for _, other := range others {
		r.create(on(pod("dearer", "", "4", 1), other.Name))
	}
	if group := p.Labels[v1alpha1.LabelPodGroup]; group != "" {
		r.gangOf(group, 1, 10)
	}
	r.create(p)
	r.eventually("room is made", func() bool { r.cycles(); return len(r.evictor.orders) > 0 })
	if got := r.taken(0); !slices.Equal(got, []string{"v"}) {
		t.Fatalf("%v is taken", got)
	}
	r.terminate("v", time.Now().Add(time.Hour))
	r.succeed(0)
	r.eventually("nothing is to be tried", func() bool { r.cycles(); return len(r.active()) == 0 })
	return r, p
}

// dips reports whether a node has a dip.
func (r *rig) dips(node string) bool {
	_, dips := r.sched.dips.EndOf(node)
	return dips
}

// dipsFor begins a dip of node-0, and then places a pod of another scheduler there. On a slow
// machine, a short dip may end before dipsFor sees it.
func (r *rig) dipsFor(lasts time.Duration, begin func(*corev1.Node)) {
	r.t.Helper()
	r.sched.dips.SetDuration(lasts)
	begun := time.Now()
	r.changeNode("node-0", begin)
	r.eventually("the dip is followed", func() bool { return r.dips("node-0") || time.Since(begun) > lasts })
	foreign := on(pod("foreign", "", "1", 30), "node-0")
	foreign.Spec.SchedulerName = "another"
	r.create(foreign)
}

// recovers checks that the pod keeps its reservation during the dip of node-0, although it is
// retried. Then it ends the dip and checks that the pod is placed.
func (r *rig) recovers(p *corev1.Pod, end func(*corev1.Node)) {
	r.t.Helper()
	r.sched.releases.review(r.sched.index.KeyOf(p))
	r.never("it gives up its room", 2*time.Second, func() bool {
		r.cycles()
		node, _ := r.reservedOn(p.UID)
		return node != "node-0" || len(r.evictor.orders) > 1
	})
	r.changeNode("node-0", end)
	r.eventually("the dip is over", func() bool { return !r.dips("node-0") })
	r.remove(r.evictor.orders[0].Victims["uid-v"])
	r.waitBound("p")
	if n := len(r.evictor.orders); n != 1 {
		r.t.Errorf("%d preemptions, want 1", n)
	}
}

// TestReviewsEndWithTheirNode checks that a deleted node is not reviewed, and that later events do
// not add it again.
func TestReviewsEndWithTheirNode(t *testing.T) {
	t.Parallel()
	exists := map[string]bool{"a": true, "b": true}
	d := newReviews(func(node string) bool { return exists[node] })
	d.add("a", true)
	d.looks(func(string) bool { return false })
	d.add("a", true)
	d.add("b", true)
	exists["a"] = false
	d.forget("a")
	d.add("a", true)
	if d.isRecent("a") || !d.isRecent("b") {
		t.Error("The node that is gone counts as changed, or the other one does not")
	}
	if got := d.take(); got.Len() != 1 || !got.Has("b") {
		t.Errorf("%v are looked at", got)
	}
	if got := d.take(); got.Len() != 0 {
		t.Errorf("%v are looked at again", got)
	}
}
