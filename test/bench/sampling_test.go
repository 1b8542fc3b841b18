package bench

import (
	"math"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// samples are the times of one way to decide, one for each run.
type samples []time.Duration

// percentile returns the smallest sample that at least the given percentage of the samples does not
// exceed.
func (s samples) percentile(percent int) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)]
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// side is one way to decide, with its number of runs in a round.
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

// meter is a stopwatch that keeps the CPU time of the last lap: the time of the whole process on
// all cores. Other processes hardly affect it, and a side that uses many cores pays for all of
// them.
type meter struct{ started, took time.Duration }

// StartTimer starts a lap.
func (m *meter) StartTimer() { m.started = cpuTime() }

// StopTimer ends it.
func (m *meter) StopTimer() { m.took = cpuTime() - m.started }

func cpuTime() time.Duration {
	var used syscall.Rusage
	// This call cannot fail for the own process.
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// interleave runs the sides in turns, so that other load on the machine affects all of them
// equally. Each turn begins with a garbage collection, so that no side pays for another's garbage,
// and with one run that does not count.
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

// alternate runs the sides in turn, one run each. So each side finds the processor's caches in the
// state that the other sides leave, as a scheduler does other work between two decisions.
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

// exponent returns the power of the size with which the time grows.
func exponent(small, large samples, nodes [2]int) float64 {
	times := float64(large.percentile(50)) / float64(small.percentile(50))
	return math.Log(times) / math.Log(float64(nodes[1])/float64(nodes[0]))
}

// heap returns the number of bytes in live objects.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// allocated returns the number of bytes that one run allocates.
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
