package filters

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
)

// partyCase is a cluster and a gang of several parties. A party is a set of members that must share
// one domain.
type partyCase struct {
	drawnCase
	// key is the topology key of the domains in wantIn and wantVictims.
	key string
	// wantIn maps a role to its expected domain. Other roles may be in any domain.
	wantIn map[string]string
	// wantVictims is the expected number of victims, by domain.
	wantVictims map[string]int
}

// TestParties has gangs of several parties, some with preemption. All cases are too large for
// backtracking, so the search for parties must find the solution.
func TestParties(t *testing.T) {
	t.Parallel()
	for name, tt := range partyCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.play(t)
		})
	}
}

func (tt *partyCase) play(t *testing.T) {
	t.Helper()
	d := playDrawn(t, newWorld(t, nil), &tt.drawnCase)
	if d.Outcome == core.Infeasible {
		t.Fatalf("%s\n%s", d.Message, &tt.drawnCase)
	}
	in := make(map[string]string)
	for _, n := range tt.nodes {
		in[n.Name] = n.Labels[tt.key]
	}
	victims := make(map[string]int)
	for _, v := range d.Victims {
		for _, p := range v.Pods {
			victims[in[p.Node]]++
		}
	}
	if fmt.Sprint(victims) != fmt.Sprint(tt.wantVictims) {
		t.Errorf("victims %v, want %v", victims, tt.wantVictims)
	}
	role := make(map[string]string)
	for _, m := range tt.gang {
		role[string(m.UID)] = m.Labels["role"]
	}
	for _, p := range d.Placements {
		if want, ok := tt.wantIn[role[p.UID]]; ok && in[p.Node] != want {
			t.Errorf("%s of %s is in %s, want %s", p.UID, role[p.UID], in[p.Node], want)
		}
	}
}

func partyCases() map[string]*partyCase {
	cases := zoneCases()
	maps.Copy(cases, rackCases())
	maps.Copy(cases, jobCases(6))
	maps.Copy(cases, jobCases(32))
	maps.Copy(cases, victimCases())
	cases["room is made in a rack for each of 6 jobs"] = victimsOfJobs()
	return cases
}

func roles() []*corev1.Pod {
	return slices.Concat(party("prefill", zone, 20), party("decode", zone, 20))
}

func zoneCases() map[string]*partyCase {
	// The pod noise excludes the role decode from the third zone, although this zone has free room.
	noise := on(pod("noise", "", "1", 100), "zone-2-node-0")
	noise.Labels = map[string]string{v1alpha1.LabelPodGroup: "g", "role": "noise"}
	oneLarge := slices.Concat(domain(zone, "zone-0", 1, 10), domain(zone, "zone-1", 8, 8), domain(zone, "zone-2", 8, 8, 8, 8, 8), domain(zone, "zone-3", 8, 8))
	return map[string]*partyCase{
		"each role in a zone": {
			drawnCase: drawnCase{nodes: threeZones(zone), gang: roles()}, key: zone,
			wantIn: map[string]string{"decode": "zone-2", "prefill": "zone-1"},
		},
		"both in the only zone with room":                        {drawnCase: drawnCase{nodes: oneLarge, gang: roles()}},
		"both in the only zone with room, and a third elsewhere": {drawnCase: drawnCase{nodes: oneLarge, gang: slices.Concat(roles(), party("cache", zone, 14))}},
		"each in one of its own, though one has room for both": {
			drawnCase: drawnCase{nodes: slices.Concat(domain(zone, "zone-1", 8, 8, 8, 8, 8), domain(zone, "zone-2", 8, 8, 8, 8, 8, 8)), gang: roles()}, key: zone,
			wantIn: map[string]string{"decode": "zone-2", "prefill": "zone-1"},
		},
		"the small ones share what the large one leaves": {drawnCase: drawnCase{
			nodes: threeZones(zone),
			gang:  slices.Concat(party("router", zone, 4), party("decode", zone, 12), party("prefill", zone, 24), party("cache", zone, 8)),
		}},
		"one that is confined goes before one that is not": {drawnCase: drawnCase{
			nodes: threeZones(zone), gang: slices.Concat(party("prefill", zone, 20), only(party("decode", zone, 20), zone, "zone-1")),
		}},
		"one that is refused elsewhere goes first in the end": {drawnCase: drawnCase{
			nodes: append(threeZones(zone), domain(zone, "zone-2", 8, 8, 8, 2)[3]), running: []*corev1.Pod{noise},
			gang: slices.Concat(party("prefill", zone, 20), shuns(party("decode", zone, 20), zone, metav1.LabelSelectorOpIn, "noise")),
		}},
		"beside members that may be anywhere": {drawnCase: drawnCase{
			nodes: threeZones(zone), gang: slices.Concat(members("g", 10, "1", 10), roles()),
		}},
	}
}

func rackCases() map[string]*partyCase {
	return map[string]*partyCase{
		"each role in a rack": {drawnCase: drawnCase{
			nodes: threeZones(rack), gang: slices.Concat(party("prefill", rack, 20), party("decode", rack, 20)),
		}},
		"one in a rack and one in a zone": {drawnCase: drawnCase{
			nodes: slices.Concat(
				both("zone-0", "rack-0", 1, 10), both("zone-1", "rack-1", 8, 8, 4), both("zone-1", "rack-2", 1, 1, 1),
				both("zone-2", "rack-3", 8), both("zone-2", "rack-4", 8), both("zone-2", "rack-5", 8),
			),
			gang: slices.Concat(party("prefill", rack, 20), party("decode", zone, 20)),
		}},
		"each in a rack, with one to a host": {drawnCase: drawnCase{
			nodes: slices.Concat(
				domain(rack, "rack-0", 1, 6), domain(rack, "rack-1", 9, 9), domain(rack, "rack-2", 3, 3, 3, 3, 3, 3, 3, 3, 3),
				domain(rack, "rack-3", 8, 9), domain(rack, "rack-4", 3, 3, 3, 3, 3, 3, 3, 3, 3),
			),
			gang: slices.Concat(
				shuns(party("prefill", rack, 9), rack, metav1.LabelSelectorOpNotIn, "prefill"),
				shuns(party("decode", rack, 9), corev1.LabelHostname, metav1.LabelSelectorOpIn, "decode"),
			),
		}},
		"in racks of a zone, near which a third role has to be": {
			drawnCase: drawnCase{
				nodes: slices.Concat(
					both("zone-0", "rack-0", 1, 20), both("zone-0", "rack-1", 8, 7),
					both("zone-1", "rack-2", 8, 8, 8), both("zone-1", "rack-3", 8, 8, 8), both("zone-1", "rack-4", 4), both("zone-2", "rack-5", 8, 8, 8),
				),
				gang: slices.Concat(party("prefill", rack, 20), party("decode", rack, 20), near(party("router", zone, 4), "prefill", "decode")),
			},
			key: zone, wantIn: map[string]string{"prefill": "zone-1", "decode": "zone-1", "router": "zone-1"},
		},
	}
}

// jobCases returns gangs of several jobs, where each job must be in one rack.
func jobCases(jobs int) map[string]*partyCase {
	nodes := domain(rack, "rack-00", 1, 6)
	var plain, exclusive []*corev1.Pod
	for i := range jobs {
		nodes = append(nodes, domain(rack, fmt.Sprintf("rack-%02d", i+1), 4, 4)...)
		job := fmt.Sprintf("job-%02d", i)
		plain = append(plain, party(job, rack, 8)...)
		// These pods have the rules of a JobSet with exclusive placement.
		exclusive = append(exclusive, shuns(party(job, rack, 8), rack, metav1.LabelSelectorOpNotIn, job)...)
	}
	return map[string]*partyCase{
		fmt.Sprintf("%d jobs, each in a rack", jobs):            {drawnCase: drawnCase{nodes: nodes, gang: plain}},
		fmt.Sprintf("%d jobs, each in a rack of its own", jobs): {drawnCase: drawnCase{nodes: nodes, gang: exclusive}},
	}
}

// victimCases returns the cases with preemption.
func victimCases() map[string]*partyCase {
	nodes := slices.Concat(threeZones(zone), domain(zone, "zone-3", 8, 8, 8), domain(zone, "zone-4", 8, 8, 8))
	large := slices.Concat(threeZones(zone), domain(zone, "zone-3", 8, 8, 8, 8, 8, 8))
	racks := slices.Concat(
		both("zone-1", "rack-1", 8, 8, 8), both("zone-1", "rack-2", 8, 8, 8),
		both("zone-2", "rack-3", 8, 8, 8), both("zone-2", "rack-4", 8, 8, 8), both("zone-3", "rack-5", 8, 8, 8),
	)
	return map[string]*partyCase{
		"room is made where the least has to go": {
			drawnCase: drawnCase{nodes: nodes, gang: roles(), running: slices.Concat(
				running(nodes, "zone-1", 1, 24), running(nodes, "zone-2", 1, 14), running(nodes, "zone-3", 1, 12), running(nodes, "zone-4", 1, 23),
			)},
			key: zone, wantVictims: map[string]int{"zone-2": 10, "zone-3": 8},
		},
		"room is made where the least important are": {
			drawnCase: drawnCase{nodes: nodes, gang: roles(), running: slices.Concat(
				running(nodes, "zone-1", 5, 10), running(nodes, "zone-2", 1, 24), running(nodes, "zone-3", 5, 10), running(nodes, "zone-4", 1, 24),
			)},
			key: zone, wantVictims: map[string]int{"zone-2": 20, "zone-4": 20},
		},
		"room is made where there is most, though both share it": {
			drawnCase: drawnCase{nodes: large, gang: roles(), running: slices.Concat(
				running(large, "zone-1", 1, 24), running(large, "zone-2", 1, 24), running(large, "zone-3", 1, 18),
			)},
			key: zone, wantVictims: map[string]int{"zone-3": 10},
		},
		"the free room is for the one that needs most": {
			drawnCase: drawnCase{nodes: threeZones(zone), gang: slices.Concat(
				party("a", zone, 4), party("b", zone, 4), party("c", zone, 4), party("d", zone, 4), party("e", zone, 20),
			), running: slices.Concat(
				running(nodes, "zone-0", 100, 11), running(nodes, "zone-1", 1, 4), running(nodes, "zone-2", 1, 24),
			)},
			// The key "" stands for all domains together.
			wantVictims: map[string]int{"": 16},
		},
		"room is made in racks of a zone": {
			drawnCase: drawnCase{nodes: racks, running: slices.Concat(
				running(racks, "rack-1", 1, 24), running(racks, "rack-2", 1, 24), running(racks, "rack-3", 1, 12), running(racks, "rack-4", 1, 10),
			), gang: slices.Concat(party("prefill", rack, 20), party("decode", rack, 20), near(party("router", zone, 2), "prefill", "decode"))},
			key: zone, wantVictims: map[string]int{"zone-2": 16},
		},
	}
}

func victimsOfJobs() *partyCase {
	nodes, want := domain(rack, "rack-0", 1, 6), make(map[string]int)
	var gang, there []*corev1.Pod
	for i := range 9 {
		r := i + 1
		name := fmt.Sprintf("rack-%d", r)
		nodes = append(nodes, domain(rack, name, 4, 4)...)
		if r%4 == 1 {
			// These pods have a higher priority than the pods below.
			there = append(there, running(nodes, name, 5, 1)...)
			continue
		}
		there = append(there, running(nodes, name, 1, r-1)...)
		gang = append(gang, party("job-"+name, rack, 8)...)
		want[name] = r - 1
	}
	return &partyCase{drawnCase: drawnCase{nodes: nodes, gang: gang, running: there}, key: rack, wantVictims: want}
}

// threeZones returns three domains. The first domain by name is too small for any role. Each of the
// others has room for one role of 20 members.
func threeZones(key string) []*corev1.Node {
	return slices.Concat(domain(key, "zone-0", 1, 10), domain(key, "zone-1", 8, 8, 8), domain(key, "zone-2", 8, 8, 8))
}

// domain returns one node for each number of CPUs, all in one domain.
func domain(key, value string, cpus ...int) []*corev1.Node {
	var out []*corev1.Node
	for i, cpu := range cpus {
		n := node(fmt.Sprintf("%s-node-%d", value, i), fmt.Sprint(cpu))
		n.Labels[key] = value
		out = append(out, n)
	}
	return out
}

// both returns nodes in one rack and one zone.
func both(zoneName, rackName string, cpus ...int) []*corev1.Node {
	out := domain(rack, rackName, cpus...)
	for _, n := range out {
		n.Labels[zone] = zoneName
	}
	return out
}

// running returns count pods of one CPU on the nodes of a domain. The pods fill one node after the
// other.
func running(nodes []*corev1.Node, in string, priority int32, count int) []*corev1.Pod {
	var out []*corev1.Pod
	for _, n := range nodes {
		cpu := n.Status.Allocatable[corev1.ResourceCPU]
		for i := 0; i < int(cpu.Value()) && len(out) < count && strings.HasPrefix(n.Name, in+"-node"); i++ {
			out = append(out, on(pod(fmt.Sprintf("r-%s-%d", n.Name, i), "", "1", priority), n.Name))
		}
	}
	return out
}

// party returns count members of a role that must share a domain of key.
func party(role, key string, count int) []*corev1.Pod {
	out := make([]*corev1.Pod, count)
	for i := range out {
		out[i] = pod(fmt.Sprintf("%s-%02d", role, i), "g", "1", 10)
		out[i].Labels["role"] = role
		out[i].Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{ofRole(key, metav1.LabelSelectorOpIn, role)},
		}}
	}
	return out
}

// ofRole returns an affinity term that selects members of the gang by their roles.
func ofRole(key string, operator metav1.LabelSelectorOperator, roles ...string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: &metav1.LabelSelector{
		MatchLabels:      map[string]string{v1alpha1.LabelPodGroup: "g"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "role", Operator: operator, Values: roles}},
	}}
}

// near changes the members' affinity term to select the given roles in place of their own role.
func near(pods []*corev1.Pod, roles ...string) []*corev1.Pod {
	for _, p := range pods {
		p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchExpressions[0].Values = roles
	}
	return pods
}

// shuns adds an anti-affinity term to members. It excludes them from the domains of the selected
// roles of the gang.
func shuns(pods []*corev1.Pod, key string, operator metav1.LabelSelectorOperator, roles ...string) []*corev1.Pod {
	for _, p := range pods {
		p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{ofRole(key, operator, roles...)},
		}
	}
	return pods
}

// only limits members to the nodes with the given label.
func only(pods []*corev1.Pod, key, value string) []*corev1.Pod {
	for _, p := range pods {
		p.Spec.NodeSelector = map[string]string{key: value}
	}
	return pods
}

// TestTwoParties has two roles, and each of them must be in one zone. The gang must fit in two
// cases: two zones have room for one role each, or one zone has room for both roles. In all other
// cases, the gang must not fit.
func TestTwoParties(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	rapid.Check(t, func(t *rapid.T) {
		pick := func(n int, what string) int { return rapid.IntRange(0, n-1).Draw(t, what) }
		zones, c := drawZones(pick)
		first, second := 1+pick(16, "first"), 1+pick(16, "second")
		c.gang = slices.Concat(party("prefill", zone, first), party("decode", zone, second))
		want := false
		for a, rooms := range sums(zones) {
			for b, others := range sums(zones) {
				want = want || a != b && rooms >= first && others >= second || rooms >= first+second
			}
		}
		d := playDrawn(t, w, c)
		if got := d.Outcome != core.Infeasible; got != want {
			t.Fatalf("%s: %s, want a place: %v\n%s", d.Outcome, d.Message, want, c)
		}
	})
}

// TestNoNodes checks a gang whose members must share a domain, in a cluster without nodes. Then a
// node is added. After a decision, the node is removed, so the cluster has no nodes again.
func TestNoNodes(t *testing.T) {
	t.Parallel()
	all := members("g", 2, "1", 10)
	for _, p := range all {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
			}},
		}}
	}
	w := newWorld(t, nil)
	if d := w.decide(all...); d.Outcome != core.Infeasible {
		t.Errorf("%s: %s", d.Outcome, d.Message)
	}
	last := node("node-0", "8")
	w.cache.AddNode(klog.Background(), last)
	w.level()
	if d := w.decide(all...); d.Outcome != core.Fits {
		t.Errorf("%s: %s; want it to fit", d.Outcome, d.Message)
	}
	if err := w.cache.RemoveNode(klog.Background(), last); err != nil {
		t.Fatal(err)
	}
	w.level()
	if d := w.decide(all...); d.Outcome != core.Infeasible {
		t.Errorf("%s after the last node has gone: %s", d.Outcome, d.Message)
	}
}
