package scheduler

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// TestAgeOfPromises checks the metric of the oldest unused reservation. The time in which victims
// are still terminating must not count.
func TestAgeOfPromises(t *testing.T) {
	t.Parallel()
	measured, registry := metrics.New(), k8smetrics.NewKubeRegistry()
	if err := measured.Register(registry.Register); err != nil {
		t.Fatal(err)
	}
	clk := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	h := detached(&Inputs{Groups: &groups{}, Metrics: measured, Clock: clk})
	promise := func(pod *corev1.Pod) {
		t.Helper()
		pi, err := framework.NewPodInfo(pod)
		if err != nil {
			t.Fatal(err)
		}
		h.engine.Step(time.Time{}, engine.PodArrives{Pod: string(pod.UID), Key: podKey(pod), Group: workload.Key{}})
		h.steps.reserveRooms(podKey(pod), []*engine.Reservation{{Pod: pi, UID: string(pod.UID), Node: "n"}})
	}
	// The main loop updates the metric each second. The test makes the update itself.
	shown := func(when string, want time.Duration) {
		t.Helper()
		h.reporter.ReportTurns()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := -1.0
		for _, family := range families {
			if family.GetName() == "reprieve_oldest_reservation_seconds" {
				got = family.GetMetric()[0].GetGauge().GetValue()
			}
		}
		if got != want.Seconds() {
			t.Errorf("%s, the oldest promise is %v s old, want %v", when, got, want)
		}
	}
	shown("with none", 0)
	first, second := pod("first", "", "1", 0), pod("second", "", "1", 0)
	promise(first)
	h.waits.WaitForVictims(podKey(first), []string{"victim"}, nil)
	shown("with one", 0)
	clk.Step(3 * time.Hour)
	shown("with a victim that takes hours", 0)
	h.engine.Step(clk.Now(), engine.VictimGone{Pod: "victim"})
	clk.Step(time.Minute)
	shown("once the victim has gone", time.Minute)
	clk.Step(time.Hour)
	promise(second)
	shown("with another", time.Minute+time.Hour)
	h.steps.step(engine.PodAssumes{Pod: string(first.UID), Key: podKey(first), Node: "n"})
	clk.Step(time.Second)
	shown("once the first has its place", time.Second)
	h.engine.Step(clk.Now(), engine.Releases{Key: podKey(second)})
	shown("with none left", 0)
}
