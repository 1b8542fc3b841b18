package bench

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/utils/ptr"
)

// lap is a stopwatch that records the duration of its last lap, for the percentiles. It also starts
// and stops the timer of the benchmark.
type lap struct {
	*testing.B
	started time.Time
	took    time.Duration
}

// StartTimer starts a lap and the timer of the benchmark.
func (l *lap) StartTimer() {
	l.B.StartTimer()
	l.started = time.Now()
}

// StopTimer ends a lap and stops the timer of the benchmark.
func (l *lap) StopTimer() {
	l.took = time.Since(l.started)
	l.B.StopTimer()
}

// measure runs a trial in the loop of a benchmark, and reports the percentiles of its duration.
func measure(b *testing.B, run trial) {
	b.Helper()
	b.StopTimer()
	run(&recorder{})
	b.ReportAllocs()
	watch := &lap{B: b}
	var all samples
	b.StartTimer()
	for b.Loop() {
		b.StopTimer()
		run(watch)
		all = append(all, watch.took)
		b.StartTimer()
	}
	b.StopTimer()
	b.ReportMetric(milliseconds(all.percentile(50)), "ms-p50")
	b.ReportMetric(milliseconds(all.percentile(99)), "ms-p99")
}

func BenchmarkPod(b *testing.B) {
	for _, nodes := range []int{1000, 5000, 10000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			s := podShape(nodes)
			r := newRig(b, s)
			b.Run("side=core", func(b *testing.B) { measure(b, onlyCore(b, s)) })
			b.Run("side=reprieve", func(b *testing.B) { measure(b, r.pod(0)) })
			b.Run("side=reprieve-after-changes", func(b *testing.B) { measure(b, r.pod(nodes/100)) })
			b.Run("side=upstream", func(b *testing.B) { measure(b, r.upstream(upstream)) })
			b.Run("side=upstream-all-nodes", func(b *testing.B) { measure(b, r.upstream(upstreamAllNodes)) })
		})
	}
}

// gangs benchmarks the preemption by a gang: in the core alone, and through the plugin.
func gangs(b *testing.B, name string, s shape) {
	b.Helper()
	b.Run(name, func(b *testing.B) {
		b.Run("side=core", func(b *testing.B) { measure(b, onlyCore(b, s)) })
		b.Run("side=reprieve", func(b *testing.B) { measure(b, newRig(b, s).plan()) })
		b.Run("side=reprieve-with-nominations", func(b *testing.B) { measure(b, newRig(b, s).planAndOrder()) })
	})
}

func BenchmarkGang(b *testing.B) {
	for _, nodes := range []int{100, 500, 1000, 5000, 10000} {
		gangs(b, fmt.Sprintf("nodes=%d", nodes), gangShape(nodes))
	}
}

func BenchmarkGroups(b *testing.B) {
	for _, gpus := range []int64{1, 8} {
		gangs(b, fmt.Sprintf("nodes=5000/gpus=%d", gpus), groupShape(5000, 512, gpus))
	}
}

func BenchmarkConstrained(b *testing.B) {
	gangs(b, "nodes=1000", constrainedShape(1000))
}

func BenchmarkRules(b *testing.B) {
	for name, rule := range memberRules() {
		for _, nodes := range []int{5000, 10000} {
			b.Run(fmt.Sprintf("%s/nodes=%d", name, nodes), func(b *testing.B) { measure(b, newRig(b, ruledShape(nodes, rule)).plan()) })
		}
	}
}

// BenchmarkPorts measures a gang whose members need a host port. On each node, one running pod uses
// this port. All nodes have enough CPUs and memory, so the port alone decides the victims.
func BenchmarkPorts(b *testing.B) {
	for _, nodes := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) { measure(b, newSceneRig(b, portScene(nodes)).plan()) })
	}
}

func BenchmarkContest(b *testing.B) {
	gangs(b, "nodes=100", contestShape(100))
	s := contestShape(100)
	b.Run("nodes=100/side=upstream", func(b *testing.B) { measure(b, upstreamGang(b, s.scene)) })
}

// BenchmarkNoRoom measures repeated scheduling cycles of a pod that finds no room.
func BenchmarkNoRoom(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			s := podShape(nodes)
			scene := s.scene()
			scene.pending[0].Spec.Priority = ptr.To[int32](-1)
			measure(b, newSceneRig(b, scene).inVain())
		})
	}
}
