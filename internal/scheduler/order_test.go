package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/filters"
	"github.com/reprieve-dev/reprieve/internal/metrics"
)

// zoned returns nodes that alternate between the given number of zones.
func zoned(count, zones int, cpu string) []runtime.Object {
	return inZones(0, count, cpu, func(i int) int { return i % zones })
}

// inZones returns count nodes. The number of the first node is from. zone returns the zone of the
// node with an index.
func inZones(from, count int, cpu string, zone func(i int) int) []runtime.Object {
	out := make([]runtime.Object, count)
	for i := range out {
		n := node(fmt.Sprintf("node-%02d", from+i), cpu)
		n.Labels[corev1.LabelTopologyZone] = fmt.Sprintf("zone-%d", zone(from+i))
		out[i] = n
	}
	return out
}

func spreadOver(key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelPodGroup: "g"}},
		})
	}
}

func nearRole(key, role string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": role}},
		}}}}
	}
}

// TestMembersThatMindEachOther plans gangs with affinity or spread rules between their members.
// Each member must confirm its node in its own cycle, with all filters. Some cases have other pods
// on the nodes.
func TestMembersThatMindEachOther(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		nodes   []runtime.Object
		drivers int
		members int
		rule    func(*corev1.Pod)
	}{
		"6 over zones on 3 nodes":           {nodes: zoned(3, 3, "2"), members: 6, rule: spreadOver(corev1.LabelTopologyZone)},
		"12 over zones on 3 nodes":          {nodes: zoned(3, 3, "4"), members: 12, rule: spreadOver(corev1.LabelTopologyZone)},
		"4 over hosts on 2 nodes":           {nodes: zoned(2, 1, "2"), members: 4, rule: spreadOver(corev1.LabelHostname)},
		"18 over zones":                     {nodes: zoned(6, 3, "3"), members: 18, rule: spreadOver(corev1.LabelTopologyZone)},
		"17 in one zone, after a small one": {nodes: inZones(0, 20, "1", func(i int) int { return min(i/2, 1) }), members: 17, rule: nearRole(corev1.LabelTopologyZone, "worker")},
		"driver and workers in a zone":      {nodes: zoned(6, 3, "2"), drivers: 1, members: 3, rule: nearRole(corev1.LabelTopologyZone, "driver")},
		"driver and workers on a host":      {nodes: zoned(3, 3, "4"), drivers: 1, members: 3, rule: nearRole(corev1.LabelHostname, "driver")},
	}
	for name, c := range cases {
		for _, full := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, full %v", name, full), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, c.nodes...)
				if full {
					for i, obj := range c.nodes {
						n, ok := obj.(*corev1.Node)
						if !ok {
							t.Fatal("not a node")
						}
						cpu := n.Status.Allocatable[corev1.ResourceCPU]
						for j := range cpu.Value() {
							r.create(on(pod(fmt.Sprintf("low-%d-%d", i, j), "", "1", 0), n.Name))
						}
					}
				}
				total := c.members + c.drivers
				r.gangOf("g", total, 10)
				all := members("g", total, "1", 10)
				for i, p := range all {
					p.Labels["role"] = "worker"
					if i >= c.members {
						p.Labels["role"] = "driver"
						continue
					}
					c.rule(p)
				}
				r.create(all...)
				r.cycles()
				for i := range r.evictor.orders {
					for _, v := range r.evictor.orders[i].Victims {
						r.remove(v)
					}
					r.succeed(i)
				}
				r.eventually("all members have a node", func() bool {
					r.cycles()
					for _, p := range all {
						if r.nodeOf(p.Name) == "" {
							return false
						}
					}
					return true
				})
				if n := len(r.evictor.orders); full && n != 1 || !full && n != 0 {
					t.Errorf("%d preemptions", n)
				}
			})
		}
	}
}

// TestSamePlanIsNotMadeForEver checks a gang whose plan is rejected twice at the same member. The
// gang must not be planned again until the cluster changes.
func TestSamePlanIsNotMadeForEver(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(2, "1")...)
	g := r.gangOf("g", 2, 0)
	all := members("g", 2, "1", 0)
	r.create(all...)
	plan := []engine.Assignment{{Member: string(all[0].UID), Node: "node-0"}, {Member: string(all[1].UID), Node: "node-1"}}
	for _, wantLast := range []bool{false, true} {
		r.sched.gangs.SetPlan(gangKey(g.Key), plan)
		r.plugin.notConfirmed(framework.NewCycleState(), all[0], g, framework.NewDefaultNodeToStatus())
		if _, planned := r.sched.gangs.PlannedNode(gangKey(g.Key), string(all[1].UID)); planned {
			t.Error("The rest of the plan is still there")
		}
		if got := strings.Contains(r.sched.gangs.Verdict(gangKey(g.Key)).Message, "cannot be carried out"); got != wantLast {
			t.Errorf("%q is said of the gang", r.sched.gangs.Verdict(gangKey(g.Key)).Message)
		}
	}
}

// refusedBy is the name of a filter that rejects a pod in the pod's own cycle, and not while
// another member plans. An extender can behave like this.
const refusedBy = "Refusing"

type refusing struct {
	// meanwhile is called in every cycle after Reprieve's PreFilter.
	meanwhile func(*corev1.Pod)
}

func (refusing) Name() string { return refusedBy }

// PreFilter skips the filter for pods without the annotation. The value of the annotation decides
// whether PreFilter rejects a pod always, only while no pod runs, or never. The plugin runs before
// DynamicResources. If this plugin rejects a pod, PreFilter of DynamicResources does not run, and
// its PostFilter fails.
func (r refusing) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if !filters.Simulates(state) {
		r.meanwhile(pod)
	}
	runs := slices.ContainsFunc(nodes, func(n fwk.NodeInfo) bool { return len(n.GetPods()) > 0 })
	switch how := pod.Annotations[refusedBy]; {
	case how == "":
		return nil, fwk.NewStatus(fwk.Skip)
	case how == "for good":
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "refused")
	case how == "once there is room" && !runs && !filters.Simulates(state):
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "refused")
	case how == "with an error" && !runs && !filters.Simulates(state):
		return nil, fwk.AsStatus(errors.New("it cannot be asked"))
	default:
		return nil, nil
	}
}

// PreEnqueue gates pods with a certain value of the annotation.
func (refusing) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	if pod.Annotations[refusedBy] == "before the queue" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "held back")
	}
	return nil
}

func (refusing) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// EventsToRegister makes the queue retry rejected pods only when a node is added. Without this
// method, the framework would retry them on every event, including the return of another member to
// the queue.
func (refusing) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}}}, nil
}

func (refusing) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ fwk.NodeInfo) *fwk.Status {
	if filters.Simulates(state) || pod.Annotations[refusedBy] != "yes" {
		return nil
	}
	return fwk.NewStatus(fwk.Unschedulable, "refused")
}

// TestPlanThatIsRefusedForEver checks a plan that is rejected each time. The gang is planned twice
// in a row, and then again only after a change. Each time, the member that waits at Permit returns
// to the queue.
func TestPlanThatIsRefusedForEver(t *testing.T) {
	t.Parallel()
	r := newRig(t, node("node-0", "2"), node("node-1", "1"))
	g := r.gangOf("g", 2, 0)
	// The larger member comes first in the plan. So it waits at Permit when the other member is
	// rejected.
	all := []*corev1.Pod{pod("g-0", "g", "2", 0), pod("g-1", "g", "1", 0)}
	for i, p := range all {
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: fmt.Sprintf("node-%d", i)}
		p.Annotations = map[string]string{refusedBy: []string{"no", "yes"}[i]}
	}
	r.create(all...)
	hasWaited := false
	r.eventually("the gang is stuck", func() bool {
		if len(r.active()) > 0 {
			r.cycle()
		}
		hasWaited = hasWaited || r.waiting() > 0
		return r.sched.gangs.Stuck(gangKey(g.Key))
	})
	if !hasWaited {
		t.Error("No member was at Permit")
	}
	r.eventually("all members are back", func() bool { return len(r.sched.gangs.Reserved(gangKey(g.Key))) == 0 })
	r.settles(3 * time.Second)
	for _, refusal := range []metrics.PlanFailure{metrics.FirstTime, metrics.Repeated} {
		if n := r.counted("reprieve_gang_plans_unconfirmed_total", "refusal", string(refusal)); n != 1 {
			t.Errorf("%d plans were refused (%s), want 1", n, refusal)
		}
	}
	if _, err := r.client.CoreV1().Nodes().Create(t.Context(), node("node-2", "1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("it is tried again", func() bool { return len(r.active()) > 0 })
}

// TestPlanOfAGangThatIsHeldBack checks a member that the gate blocks before it can confirm its
// node. The block must not count as a rejection on the node.
func TestPlanOfAGangThatIsHeldBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(2, "1")...)
	g := r.gangOf("g", 2, 0)
	r.create(members("g", 2, "1", 0)...)
	r.eventually("a member is at Permit", func() bool {
		if len(r.active()) > 0 && r.waiting() == 0 {
			r.cycle()
		}
		return r.waiting() > 0
	})
	r.eventually("the other one comes", func() bool { return len(r.active()) > 0 })
	more := *g
	more.MinCount = 3
	r.groups.set(&more)
	r.eventually("the plan is given up", func() bool {
		r.cycles()
		return r.sched.reserved.Empty() && len(r.sched.gangs.Reserved(gangKey(g.Key))) == 0
	})
	for _, refusal := range []metrics.PlanFailure{metrics.FirstTime, metrics.Repeated} {
		if n := r.counted("reprieve_gang_plans_unconfirmed_total", "refusal", string(refusal)); n != 0 {
			t.Errorf("%d plans were refused (%s)", n, refusal)
		}
	}
}

// TestTurnedAwayByAnotherPlugin checks that reservations are released if PreFilter of another
// plugin rejects the workload as unresolvable. The framework then calls none of Reprieve's
// extension points. A gang is planned twice, and then only after a change.
func TestTurnedAwayByAnotherPlugin(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, newPreemptor func(r *rig) *corev1.Pod) {
		r := newRig(t, node("node-0", "1"))
		r.create(on(pod("v", "", "1", 0), "node-0"))
		p := newPreemptor(r)
		p.Annotations = map[string]string{refusedBy: "once there is room"}
		r.create(p)
		r.cycle()
		r.succeed(0)
		r.remove(pod("v", "", "1", 0))
		r.eventually("it is tried with its victim gone", func() bool { return len(r.active()) > 0 })
		r.cycle()
		r.eventually("its room goes to others", func() bool { r.cycles(); return r.sched.reserved.Empty() })
		r.settles(3 * admission.Interval)
		if got := r.nominatedTo(1); len(got) > 0 {
			t.Errorf("%v is still shown as nominated", got)
		}
		r.create(pod("other", "", "1", 0))
		r.eventually("other has come", func() bool { return len(r.active()) > 0 })
		r.cycles()
		r.waitBound("other")
	})
}

// TestNextAttemptBeginsEarly checks that the end of an attempt does not change the record of the
// pod's next attempt. The framework returns a pod to its queue before it ends the attempt.
func TestNextAttemptBeginsEarly(t *testing.T) {
	t.Parallel()
	r, p := preempting(t)
	r.succeed(0)
	plugins := &Plugins{}
	plugins.sched.Store(r.sched)
	over := plugins.AfterFailures(func(_ context.Context, _ framework.Framework, _ *framework.QueuedPodInfo, _ *fwk.Status, _ *fwk.NominatingInfo, _ time.Time) {
		r.sched.records.Begins(string(p.UID), r.sched.index.KeyOf(p))
		r.sched.records.HasReservation(string(p.UID))
	})
	over(t.Context(), nil, &framework.QueuedPodInfo{PodInfo: &framework.PodInfo{Pod: p}}, fwk.NewStatus(fwk.Unschedulable), nil, time.Now())
	if next, _ := r.sched.records.Ends(string(p.UID)); !next.Reserved || !r.sched.reserved.Has(string(p.UID)) {
		t.Errorf("The next attempt knows its reservation: %t, and there is one: %t", next.Reserved, r.sched.reserved.Has(string(p.UID)))
	}
}

// TestErrorsTakeNothingBack checks that a workload keeps its reservations if its cycle ends with an
// error.
func TestErrorsTakeNothingBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, node("node-0", "1"))
	r.create(on(pod("v", "", "1", 0), "node-0"))
	p := pod("p", "", "1", 10)
	p.Annotations = map[string]string{refusedBy: "with an error"}
	r.create(p)
	r.cycle()
	r.succeed(0)
	r.remove(pod("v", "", "1", 0))
	r.eventually("it is tried with its victim gone", func() bool { return len(r.active()) > 0 })
	r.cycle()
	r.never("its promise is taken back", 4*admission.Interval, func() bool { return r.sched.reserved.Empty() })
}

// TestHeldBackByAnotherPlugin checks that reservations are released if another plugin gates the
// workload.
func TestHeldBackByAnotherPlugin(t *testing.T) {
	t.Parallel()
	for name, group := range map[string]string{"a pod": "", "a gang": "g"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, node("node-0", "2"))
			r.create(on(pod("v", "", "2", 0), "node-0"))
			if group != "" {
				r.gangOf(group, 2, 10)
				r.create(pod("other", group, "1", 10))
			}
			p := pod("p", group, "1", 10)
			r.create(p)
			r.cycles()
			r.succeed(0)
			if r.sched.reserved.Empty() {
				t.Fatal("Nothing is promised")
			}
			p.Annotations = map[string]string{refusedBy: "before the queue"}
			if _, err := r.client.CoreV1().Pods("ns").Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			if group != "" {
				// The deletion makes another member plan.
				r.remove(pod("v", "", "2", 0))
			}
			r.eventually("nothing is promised any more", func() bool { r.cycles(); return r.sched.reserved.Empty() })
		})
	}
}

// settles runs cycles until the active queue has been empty for the time quiet. It fails if a
// workload is retried forever.
func (r *rig) settles(quiet time.Duration) {
	r.t.Helper()
	since := time.Now()
	r.eventually("no try is to come", func() bool {
		if queue := r.upstream.SchedulingQueue; len(queue.PodsInActiveQ())+len(queue.PodsInBackoffQ()) > 0 {
			r.cycles()
			since = time.Now()
			return false
		}
		return time.Since(since) > quiet
	})
}
