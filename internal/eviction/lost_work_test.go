package eviction

import (
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
)

// TestLostWorkByClass checks the metric of lost work by queue and PriorityClass. A victim that is
// not evicted loses nothing. If some victims of a gang stay, only the work of the evicted victims
// is lost.
func TestLostWorkByClass(t *testing.T) {
	t.Parallel()
	all := map[string]removal{"g-0": accepted, "g-1": accepted, "m-0": accepted, "m-1": accepted, "single": accepted}
	but := func(pod string, became removal) map[string]removal {
		out := maps.Clone(all)
		out[pod] = became
		return out
	}
	cases := map[string]struct {
		became map[string]removal
		// want has the lost device-seconds by the PriorityClass of the victim.
		want map[string]float64
	}{
		"all go":                          {became: all, want: map[string]float64{"low": 1 + 2 + 4 + 32, "lower": 8}},
		"a group goes in parts":           {became: but("g-1", uncertain), want: map[string]float64{"low": 1 + 2 + 4 + 32, "lower": 8}},
		"a pod of a gang stays":           {became: but("m-1", untouched), want: map[string]float64{"low": 1 + 2, "lower": 8}},
		"a pod of a gang may stay":        {became: but("m-1", uncertain), want: map[string]float64{"low": 1 + 2, "lower": 8}},
		"a pod of a gang has ended":       {became: but("m-0", absent), want: map[string]float64{"low": 1 + 4 + 32, "lower": 8}},
		"the only pod of a class stays":   {became: but("single", untouched), want: map[string]float64{"low": 1 + 2 + 4 + 32}},
		"all pods of the gang have ended": {became: map[string]removal{"m-0": absent, "m-1": absent}},
		"nothing is begun":                {},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			o := order(victim("g", "g-0", "g-1"), victim("m-0"), victim("m-1"), victim("single"))
			for i, lost := range []int64{1, 2, 4, 8} {
				o.Decision.Victims[i].LostWork = lost * core.MilliDevices
			}
			o.Decision.BrokenGangs = []core.GangRef{{Namespace: "ns", Name: "m", LostWork: 32 * core.MilliDevices}}
			o.Decision.Preemptor.Queue, o.PreemptorClass = "research", "high"
			o.VictimClasses = map[string]string{"uid-g": "low", "uid-m-0": "low", "uid-m-1": "low", "uid-single": "lower"}
			for _, uid := range []types.UID{"uid-m-0", "uid-m-1"} {
				o.Victims[uid].Labels = map[string]string{v1alpha1.LabelPodGroup: "m"}
			}
			x := newExecution(b.executor, &o, b.scheduler, nil)
			for _, u := range x.units {
				for _, pod := range u.pods {
					u.settle(c.became[pod.Name], pod.UID)
				}
			}
			x.countLostWork()
			for _, class := range []string{"low", "lower", ""} {
				if got := b.lostTo("research", "high", class); got != c.want[class] {
					t.Errorf("Class %q loses %v device-seconds, want %v", class, got, c.want[class])
				}
			}
		})
	}
}

// lostTo returns the lost device-seconds for a queue, a class of preemptors and a class of victims.
func (b *bench) lostTo(queue, preemptor, victim string) float64 {
	b.t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	want, sum := map[string]string{"queue": queue, "preemptor_class": preemptor, "victim_class": victim}, 0.0
	for _, family := range families {
		if family.GetName() != "reprieve_lost_device_seconds_total" {
			continue
		}
	series:
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if want[l.GetName()] != l.GetValue() {
					continue series
				}
			}
			sum += m.GetCounter().GetValue()
		}
	}
	return sum
}
