package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// resize changes the CPU request of a running pod.
func (r *rig) resize(name, cpu string) {
	r.t.Helper()
	got, err := r.client.CoreV1().Pods("ns").Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	got = got.DeepCopy()
	got.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
	if _, err := r.client.CoreV1().Pods("ns").Update(r.t.Context(), got, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// robbers maps the ways to lose two of the seven CPUs of node-0 to functions that do it.
var robbers = map[string]func(*rig){
	"a higher priority": func(r *rig) {
		high := pod("high", "", "2", 20)
		high.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-0"}
		r.create(high)
	},
	"a pod of another scheduler": func(r *rig) {
		foreign := on(pod("foreign", "", "2", 20), "node-0")
		foreign.Spec.SchedulerName = "another"
		r.create(foreign)
	},
	"a pod of another scheduler that is bound later": func(r *rig) {
		foreign := pod("foreign", "", "2", 20)
		foreign.Spec.SchedulerName = "another"
		created, err := r.client.CoreV1().Pods("ns").Create(r.t.Context(), foreign, metav1.CreateOptions{})
		if err != nil {
			r.t.Fatal(err)
		}
		if _, err := r.client.CoreV1().Pods("ns").Update(r.t.Context(), on(created.DeepCopy(), "node-0"), metav1.UpdateOptions{}); err != nil {
			r.t.Fatal(err)
		}
	},
	"a pod that is resized": func(r *rig) { r.resize("stays", "4") },
	"a node that shrinks": func(r *rig) {
		r.sched.dips.SetDuration(0)
		r.changeNode("node-0", func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("5") })
	},
}

// eachRobber runs a test for each robber, once with a single pod and once with a gang. The
// preemptor needs five CPUs of node-0, and the gang has a second member on node-2. It has two
// victims on node-0: one is gone, and the other one is terminating. The test calls rob to lose two
// CPUs.
func eachRobber(t *testing.T, others []*corev1.Node, run func(t *testing.T, r *rig, p *corev1.Pod, rob func(*rig))) {
	t.Helper()
	for way, rob := range robbers {
		for kind, group := range map[string]string{"a pod": "", "a gang": "p"} {
			t.Run(way+", "+kind, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, node("node-0", "7"), node("node-2", "1"))
				for _, other := range others {
					if _, err := r.client.CoreV1().Nodes().Create(t.Context(), other.DeepCopy(), metav1.CreateOptions{}); err != nil {
						t.Fatal(err)
					}
					r.eventually("the node is known", func() bool { _, err := r.sched.index.Nodes.Get(other.Name); return err == nil })
				}
				gone := on(pod("v-1", "", "2", 0), "node-0")
				r.create(on(pod("stays", "", "2", 30), "node-0"), gone, on(pod("v-2", "", "2", 0), "node-0"))
				if len(others) > 0 {
					r.create(on(pod("dearer", "", "5", 1), others[0].Name))
				}
				p := pod("p-0", group, "5", 10)
				all := []*corev1.Pod{p}
				if group != "" {
					r.gangOf(group, 2, 10)
					small := pod("p-1", group, "1", 10)
					small.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-2"}
					all = append(all, small)
				}
				r.create(all...)
				r.eventually("room is made", func() bool { r.cycles(); return len(r.evictor.orders) > 0 })
				if got := r.taken(0); !slices.Equal(got, []string{"v-1", "v-2"}) {
					t.Fatalf("%v are taken", got)
				}
				r.terminate("v-1", time.Now().Add(time.Hour))
				r.terminate("v-2", time.Now().Add(time.Hour))
				r.succeed(0)
				r.remove(gone)
				r.eventually("nothing is to be tried", func() bool { r.cycles(); return len(r.active()) == 0 })
				run(t, r, p, rob)
			})
		}
	}
}

// TestRobbedOfOneVictimsRoom checks that a preemptor does not wait for its last victim if the room
// would be too small even without that victim. The preemptor must look for room on other nodes.
func TestRobbedOfOneVictimsRoom(t *testing.T) {
	t.Parallel()
	eachRobber(t, []*corev1.Node{node("node-1", "5")}, func(t *testing.T, r *rig, p *corev1.Pod, rob func(*rig)) {
		if node, _ := r.reservedOn(p.UID); node != "node-0" {
			t.Fatalf("Room is reserved on %q", node)
		}
		rob(r)
		r.eventually("other room is made", func() bool { r.cycles(); return len(r.evictor.orders) > 1 })
		if got := r.taken(1); !slices.Equal(got, []string{"dearer"}) {
			t.Errorf("%v are taken then", got)
		}
		if node, _ := r.reservedOn(p.UID); node != "node-1" {
			t.Errorf("Room is reserved on %q", node)
		}
	})
}

// TestRoomThatIsNoUse checks that reserved room is released when it has become too small, so that
// other work of equal standing can use it.
func TestRoomThatIsNoUse(t *testing.T) {
	t.Parallel()
	eachRobber(t, nil, func(t *testing.T, r *rig, p *corev1.Pod, rob func(*rig)) {
		equal := pod("equal", "", "1", 10)
		equal.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-0"}
		r.create(equal)
		r.eventually("it has been tried", func() bool { r.cycles(); return len(r.active()) == 0 })
		if node := r.nodeOf("equal"); node != "" {
			t.Fatalf("It is on %s, where all that is free is reserved for %s", node, p.Name)
		}
		rob(r)
		r.waitBound("equal")
		if got := len(r.evictor.orders); got != 1 {
			t.Errorf("There are %d evictions", got)
		}
		if _, ok := r.reservedOn(p.UID); ok {
			t.Error("Room is still reserved for one that cannot have it")
		}
	})
}

// TestRoomThatIsNoUseWithALateCache checks the same if the scheduler's cache learns of the pod that
// has taken the room only after the preemptor was planned on the same node twice more.
func TestRoomThatIsNoUseWithALateCache(t *testing.T) {
	t.Parallel()
	var decisions atomic.Int32
	r := newRigOn(t, clientWith(nodes(1, "7")...), &groups{all: map[types.NamespacedName]*gang.Group{}}, schedulerYAML, nil,
		func(in *Inputs) { in.Recorder = &looking{looks: func() { decisions.Add(1) }} })
	r.create(on(pod("stays", "", "2", 30), "node-0"), on(pod("v", "", "2", 0), "node-0"))
	p := pod("p", "", "5", 10)
	r.create(p)
	r.eventually("room is made", func() bool { r.cycles(); return len(r.evictor.orders) > 0 })
	r.terminate("v", time.Now().Add(time.Hour))
	r.succeed(0)
	r.eventually("nothing is to be tried", func() bool { r.cycles(); return len(r.active()) == 0 })

	foreign := on(pod("foreign", "", "2", 20), "node-0")
	foreign.Spec.SchedulerName = "another"
	before := decisions.Load()
	r.create(foreign)
	late, err := r.upstream.Cache.GetPod(foreign)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.upstream.Cache.RemovePod(klog.Background(), late); err != nil {
		t.Fatal(err)
	}
	r.eventually("it is planned with the late cache twice", func() bool { r.cycles(); return decisions.Load() >= before+2 })
	if node, _ := r.reservedOn(p.UID); node != "node-0" {
		t.Fatalf("Room is reserved on %q", node)
	}
	if err := r.upstream.Cache.AddPod(klog.Background(), late); err != nil {
		t.Fatal(err)
	}
	r.create(pod("equal", "", "1", 10))
	r.waitBound("equal")
	if _, ok := r.reservedOn(p.UID); ok {
		t.Error("Room is still reserved for one that cannot have it")
	}
}

// TestKeptOutByAReservation checks that the message of a pod names the reservation that excludes
// it, and does not report insufficient resources.
func TestKeptOutByAReservation(t *testing.T) {
	t.Parallel()
	r := newRig(t, node("node-0", "4"))
	gone := on(pod("v-1", "", "2", 0), "node-0")
	r.create(gone, on(pod("v-2", "", "2", 0), "node-0"))
	p := pod("p", "", "4", 10)
	r.create(p)
	r.cycle()
	r.terminate("v-1", time.Now().Add(time.Hour))
	r.terminate("v-2", time.Now().Add(time.Hour))
	r.succeed(0)
	r.remove(gone)
	r.eventually("nothing is to be tried", func() bool { r.cycles(); return len(r.active()) == 0 })
	for i := range 3 {
		equal := pod(fmt.Sprintf("equal-%d", i), "", "1", 10)
		r.create(equal)
		r.eventually("it has been tried", func() bool { r.cycles(); return len(r.active()) == 0 })
		r.eventually("it is told", func() bool { return r.said(equal) != "" })
		said := r.said(equal)
		if !strings.Contains(said, "room on node node-0 is reserved for ns/p (priority 10)") {
			t.Errorf("It is told %q", said)
		}
		if strings.Contains(said, "short of") || strings.Contains(said, "Insufficient") {
			t.Errorf("It is told that it is short of something: %q", said)
		}
	}
	// The message of a pod that is too large for the node must not name the reservation.
	large := pod("large", "", "5", 10)
	r.create(large)
	r.eventually("it has been tried", func() bool { r.cycles(); return len(r.active()) == 0 })
	r.eventually("it is told", func() bool { return r.said(large) != "" })
	if said := r.said(large); strings.Contains(said, "reserved for") {
		t.Errorf("One that does not fit anyway is told %q", said)
	}
}

// TestAffinityToALeavingPod checks a pod or gang with affinity to a terminating pod on a cordoned
// node. The decision finds a place on another node without victims. When the terminating pod is
// gone, the workload must be retried.
func TestAffinityToALeavingPod(t *testing.T) {
	t.Parallel()
	for kind, group := range map[string]string{"a pod": "", "a gang": "p"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, node("node-0", "4"), node("node-1", "4"))
			alike := func(p *corev1.Pod) *corev1.Pod {
				if p.Labels == nil {
					p.Labels = make(map[string]string)
				}
				p.Labels["app"] = "x"
				p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
						TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}},
					}},
				}}
				return p
			}
			like, lingers := on(alike(pod("like", "", "1", 0)), "node-0"), on(pod("lingers", "", "1", 0), "node-0")
			r.create(like, lingers)
			r.changeNode("node-0", cordon)
			r.terminate("like", time.Now().Add(time.Hour))
			r.terminate("lingers", time.Now().Add(time.Hour))
			if group != "" {
				r.gangOf(group, 1, 10)
			}
			p := alike(pod("p-0", group, "1", 10))
			r.create(p)
			r.eventually("it has been tried", func() bool { r.cycles(); return len(r.active()) == 0 })
			if node, _ := r.reservedOn(p.UID); node != "node-1" {
				t.Fatalf("Room is reserved on %q", node)
			}
			if said := r.said(p); group != "" && !strings.Contains(said, "waits for ns/like on node-0") {
				t.Errorf("It is told %q", said)
			}
			r.remove(like)
			r.waitBound(p.Name)
		})
	}
}

// TestPortThatIsTaken checks a preemptor that can no longer use its reserved node: a pod of another
// scheduler uses its host port, or the node loses a required label. The preemptor must not wait for
// its last victim.
func TestPortThatIsTaken(t *testing.T) {
	t.Parallel()
	for way, rob := range map[string]func(*rig){
		"its port is taken": func(r *rig) {
			foreign := on(pod("foreign", "", "0", 30), "node-0")
			foreign.Spec.SchedulerName = "another"
			foreign.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
			r.create(foreign)
		},
		"a pod has come that keeps it away": func(r *rig) {
			foreign := on(pod("foreign", "", "0", 30), "node-0")
			foreign.Spec.SchedulerName = "another"
			foreign.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
					TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}},
				}},
			}}
			r.create(foreign)
		},
		"a label is lost": func(r *rig) {
			r.changeNode("node-0", func(n *corev1.Node) { delete(n.Labels, "pool") })
		},
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			first, second := node("node-0", "4"), node("node-1", "4")
			first.Labels["pool"], second.Labels["pool"] = "x", "x"
			r := newRig(t, first, second)
			r.create(on(pod("v", "", "4", 0), "node-0"), on(pod("dearer", "", "4", 1), "node-1"))
			p := pod("p", "", "4", 10)
			p.Labels = map[string]string{"app": "x"}
			p.Spec.NodeSelector = map[string]string{"pool": "x"}
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
			r.create(p)
			r.cycle()
			if got := r.taken(0); !slices.Equal(got, []string{"v"}) {
				t.Fatalf("%v is taken", got)
			}
			r.terminate("v", time.Now().Add(time.Hour))
			r.succeed(0)
			r.eventually("nothing is to be tried", func() bool { r.cycles(); return len(r.active()) == 0 })
			rob(r)
			r.eventually("other room is made", func() bool { r.cycles(); return len(r.evictor.orders) > 1 })
			if got := r.taken(1); !slices.Equal(got, []string{"dearer"}) {
				t.Errorf("%v is taken then", got)
			}
		})
	}
}
