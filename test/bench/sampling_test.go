package bench

import (
	"math"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// samples are how long one way to decide took, run by run.
type samples []time.Duration

// percentile is the one that so many percent of the samples do not exceed.
func (s samples) percentile(percent int) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)]
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// side is one way to decide, and how often it runs in a round.
type side struct {
	run   trial
	times int
}

// recorder is a stopwatch that keeps the last lap.
type recorder struct {
	started time.Time
	took    time.Duration
}

// StartTimer starts a lap.
func (r *recorder) StartTimer() { r.started = time.Now() }

// StopTimer ends it.
func (r *recorder) StopTimer() { r.took = time.Since(r.started) }

// meter is a stopwatch that keeps the last lap in CPU time of the whole process, on all cores. Other processes hardly touch it,
// and a side that uses many cores pays for all of them.
type meter struct{ started, took time.Duration }

// StartTimer starts a lap.
func (m *meter) StartTimer() { m.started = cpuTime() }

// StopTimer ends it.
func (m *meter) StopTimer() { m.took = cpuTime() - m.started }

func cpuTime() time.Duration {
	var used syscall.Rusage
	// It cannot fail for the process itself.
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// interleave runs the sides turn by turn, so that whatever else goes on in the machine meets all of them. Each turn
// starts with nothing left to collect, so that no side pays for another's garbage, and with one run that does not
// count.
func interleave(rounds int, sides ...side) []samples {
	out := make([]samples, len(sides))
	for range rounds {
		for i, s := range sides {
			runtime.GC()
			watch := &recorder{}
			if s.times > 1 {
				s.run(watch)
			}
			for range s.times {
				s.run(watch)
				out[i] = append(out[i], watch.took)
			}
		}
	}
	return out
}

// alternate runs the sides in turn, one run each, so that each finds the processor's caches as the others leave
// them: a scheduler does other things between two decisions.
func alternate(rounds int, runs ...trial) []samples {
	out := make([]samples, len(runs))
	runtime.GC()
	watch := &recorder{}
	for round := range rounds + 1 {
		for i, run := range runs {
			run(watch)
			if round > 0 {
				out[i] = append(out[i], watch.took)
			}
		}
	}
	return out
}

// exponent says with which power of the size the time grows.
func exponent(small, large samples, nodes [2]int) float64 {
	times := float64(large.percentile(50)) / float64(small.percentile(50))
	return math.Log(times) / math.Log(float64(nodes[1])/float64(nodes[0]))
}

// heap is how many bytes live on the heap.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// allocated is how many bytes one run allocates.
func allocated(run trial, runs int) float64 {
	var before, after runtime.MemStats
	watch := &recorder{}
	runtime.ReadMemStats(&before)
	for range runs {
		run(watch)
	}
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / float64(runs)
}
