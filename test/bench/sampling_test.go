package bench

import (
	"math"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// samples has the durations of one trial's runs.
type samples []time.Duration

// percentile returns the smallest sample such that at least the given percentage of the samples is
// less than or equal to it.
func (s samples) percentile(percent int) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)]
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// side is a trial, and the number of its runs in each round.
type side struct {
	run   trial
	times int
}

// recorder is a stopwatch that records the duration of its last lap.
type recorder struct {
	started time.Time
	took    time.Duration
}

// StartTimer starts a lap.
func (r *recorder) StartTimer() { r.started = time.Now() }

// StopTimer ends a lap.
func (r *recorder) StopTimer() { r.took = time.Since(r.started) }

// meter is a stopwatch that records the CPU time of its last lap: the CPU time of the whole process
// on all cores. Other processes hardly affect the CPU time. If a side uses several cores, the CPU
// time includes all of them.
type meter struct{ started, took time.Duration }

// StartTimer starts a lap.
func (m *meter) StartTimer() { m.started = cpuTime() }

// StopTimer ends a lap.
func (m *meter) StopTimer() { m.took = cpuTime() - m.started }

func cpuTime() time.Duration {
	var used syscall.Rusage
	// This call cannot fail for the current process.
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// interleave runs the sides alternately for a number of rounds, so that other load on the machine
// affects all sides equally. In each round, it collects garbage before the runs of a side. If the
// side has several runs in each round, one more run comes before them, which is not recorded.
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

// alternate runs the trials one after the other, and repeats this for a number of rounds. Before
// each run, the other trials have replaced the content of the processor's caches. In production,
// the scheduler's other work has the same effect.
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

// exponent returns the power of the number of nodes that the time grows with.
func exponent(small, large samples, nodes [2]int) float64 {
	times := float64(large.percentile(50)) / float64(small.percentile(50))
	return math.Log(times) / math.Log(float64(nodes[1])/float64(nodes[0]))
}

// heap returns the size of the live objects on the heap, in bytes.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// allocated returns the number of bytes that one run of the trial allocates on average.
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
