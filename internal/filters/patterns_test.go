package filters

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// TestPlainPatterns checks gangs of any size with common rules. A gang must be placed if, and only
// if, a short calculation says that it fits.
func TestPlainPatterns(t *testing.T) {
	t.Parallel()
	for name, p := range patterns() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			rapid.Check(t, func(t *rapid.T) { playPattern(t, w, p) })
		})
	}
}

// pattern is a rule for the members of a gang. Each member requests one CPU.
type pattern struct {
	rule func(p *corev1.Pod)
	// drivers is the number of members without the rule.
	drivers int
	// fits reports whether this number of members fit. zones has the free CPUs of each node, by
	// zone.
	fits func(zones [][]int, members int) bool
}

func patterns() map[string]pattern {
	workers := &metav1.LabelSelector{MatchLabels: map[string]string{"role": "worker"}}
	affinity := func(key, role string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": role}},
			}}}}
		}
	}
	spread := func(keys ...string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			for _, key := range keys {
				p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
					MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: workers,
				})
			}
		}
	}
	return map[string]pattern{
		"one per host": {rule: func(p *corev1.Pod) {
			affinity(corev1.LabelHostname, "worker")(p)
			p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution}
			p.Spec.Affinity.PodAffinity = nil
		}, fits: func(zones [][]int, members int) bool { return hosts(zones) >= members }},
		"in one zone": {rule: affinity(zone, "worker"), fits: func(zones [][]int, members int) bool {
			return largest(zones) >= members
		}},
		"on one host": {rule: affinity(corev1.LabelHostname, "worker"), fits: func(zones [][]int, members int) bool {
			most := 0
			for _, z := range zones {
				for _, free := range z {
					most = max(most, free)
				}
			}
			return most >= members
		}},
		"a driver and workers in a zone": {rule: affinity(zone, "driver"), drivers: 1, fits: func(zones [][]int, members int) bool {
			return largest(zones) >= members
		}},
		"over zones": {rule: spread(zone), fits: func(zones [][]int, members int) bool { return evenly(sums(zones), members) }},
		"over hosts": {rule: spread(corev1.LabelHostname), fits: func(zones [][]int, members int) bool {
			var all []int
			for _, z := range zones {
				all = append(all, z...)
			}
			return evenly(all, members)
		}},
	}
}

func sums(zones [][]int) []int {
	out := make([]int, len(zones))
	for z := range zones {
		for _, free := range zones[z] {
			out[z] += free
		}
	}
	return out
}

func largest(zones [][]int) int {
	most := 0
	for _, n := range sums(zones) {
		most = max(most, n)
	}
	return most
}

func hosts(zones [][]int) int {
	count := 0
	for _, z := range zones {
		for _, free := range z {
			count += min(free, 1)
		}
	}
	return count
}

// evenly reports whether members can be spread over domains with a maximum skew of 1, if each
// domain holds at most its capacity.
func evenly(capacity []int, members int) bool {
	each, more := members/len(capacity), members%len(capacity)
	for _, c := range capacity {
		if c < each {
			return false
		}
		if c > each {
			more--
		}
	}
	return more <= 0
}

// drawZones returns a random cluster. Some nodes are full. The first result lists by zone
// and node the number of CPUs that are free or that preemption can free.
func drawZones(pick func(int, string) int) ([][]int, *drawnCase) {
	c := &drawnCase{}
	zones := make([][]int, 1+pick(4, "zones"))
	for z := range zones {
		for range 1 + pick(6, "nodes") {
			cpu := 1 + pick(4, "cpu")
			n := node(fmt.Sprintf("node-%02d", len(c.nodes)), fmt.Sprint(cpu))
			n.Labels[zone] = fmt.Sprintf("zone-%d", z)
			c.nodes = append(c.nodes, n)
			zones[z] = append(zones[z], 0)
			for i := range cpu {
				switch pick(3, "there") {
				case 0:
					zones[z][len(zones[z])-1]++
				case 1:
					// Pods of lower priority may be preempted, so this CPU counts as free.
					zones[z][len(zones[z])-1]++
					c.running = append(c.running, on(pod(fmt.Sprintf("low-%s-%d", n.Name, i), "", "1", int32(pick(3, "priority"))), n.Name))
				default:
					c.running = append(c.running, on(pod(fmt.Sprintf("high-%s-%d", n.Name, i), "", "1", 100), n.Name))
				}
			}
		}
	}
	return zones, c
}

func playPattern(t *rapid.T, w *world, p pattern) {
	pick := func(n int, what string) int { return rapid.IntRange(0, n-1).Draw(t, what) }
	zones, c := drawZones(pick)
	all := 1 + pick(30, "members")
	for i := range all {
		m := pod(fmt.Sprintf("g-%02d", i), "g", "1", 10)
		m.Labels["role"] = "worker"
		if i < all-p.drivers {
			p.rule(m)
		} else {
			m.Labels["role"] = "driver"
		}
		c.gang = append(c.gang, m)
	}
	want := p.fits(zones, all)
	d := playDrawn(t, w, c)
	if got := d.Outcome != core.Infeasible; got != want {
		t.Fatalf("%s: %s, want a place: %v\n%s", d.Outcome, d.Message, want, c)
	}
}
