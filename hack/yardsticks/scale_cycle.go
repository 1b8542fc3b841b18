package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/eviction"
)

// cycles has the number of timed scheduling cycles for a pod, and for a gang.
type cycles struct{ pods, gangs int }

// cycleTimes has the durations of scheduling cycles on one cluster.
type cycleTimes struct {
	nodes int
	// load is the time to fill the scheduler's cache and indexes. start is the time until the first
	// decision; it includes load.
	load, start time.Duration
	// These are sorted durations of cycles:
	//
	//   - free: for a pod that fits
	//   - pods: for a pod that preempts
	//   - gangs: for a gang that preempts
	free, pods, gangs []time.Duration
	// heap is the size of the live objects on the heap, and peak the memory obtained from the
	// operating system, in MiB.
	heap, peak uint64
}

// cycleTable times scheduling cycles on clusters of several sizes, and returns the table of
// durations.
func cycleTable(ctx context.Context, r *run, times cycles) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%d cycles for a pod, %d for a gang; pods on 15 nodes change before each.\n\n", times.pods, times.gangs)
	b.WriteString("| Nodes | Pods | Load | Start to first decision | Pod that fits p50 | p99 | " +
		"Pod that preempts p50 | p99 | Gang of 1,000 p50 | slowest | Heap | From the system |\n" +
		"| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	var all []*cycleTimes
	for _, nodes := range r.sizes {
		t, err := timeCycles(ctx, nodes, times)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(r.progress, t.line())
		b.WriteString(t.line() + "\n")
		all = append(all, t)
	}
	if len(all) > 1 {
		b.WriteString("\n" + growthText(all[0], all[len(all)-1]))
	}
	return b.String(), nil
}

// line returns the table row of a cluster.
func (t *cycleTimes) line() string {
	return fmt.Sprintf("| %d | %d | %s | %s | %s | %s | %s | %s | %s | %s | %d MiB | %d MiB |", t.nodes, t.nodes*podsPerNode, ms(t.load), ms(t.start),
		ms(part(t.free, 50)), ms(part(t.free, 99)), ms(part(t.pods, 50)), ms(part(t.pods, 99)), ms(part(t.gangs, 50)), ms(t.gangs[len(t.gangs)-1]), t.heap, t.peak)
}

// growthText compares the durations on two clusters. It expresses the growth as a power of the
// number of nodes.
func growthText(small, large *cycleTimes) string {
	power := func(of func(*cycleTimes) time.Duration) float64 {
		return math.Log(float64(of(large))/float64(of(small))) / math.Log(float64(large.nodes)/float64(small.nodes))
	}
	return fmt.Sprintf("From %d to %d nodes, the times grow with the nodes to the power of %.2f (load),\n"+
		"%.2f (a pod that fits), %.2f (a pod that preempts) and %.2f (the gang).\n", small.nodes, large.nodes,
		power(func(t *cycleTimes) time.Duration { return t.load }),
		power(func(t *cycleTimes) time.Duration { return part(t.free, 50) }),
		power(func(t *cycleTimes) time.Duration { return part(t.pods, 50) }),
		power(func(t *cycleTimes) time.Duration { return part(t.gangs, 50) }))
}

// timeCycles fills a scheduler with a generated cluster and times scheduling cycles.
func timeCycles(ctx context.Context, nodes int, times cycles) (*cycleTimes, error) {
	began := time.Now()
	w, err := newWorld(ctx, nodes)
	if err != nil {
		return nil, err
	}
	defer w.stop()
	t := &cycleTimes{nodes: nodes, load: time.Since(began)}
	preemptor := worldPod("preemptor", 32, 256, 8, 100)
	if err := w.pods.Add(preemptor); err != nil {
		return nil, err
	}
	if _, err := w.preempts(ctx, preemptor); err != nil {
		return nil, err
	}
	t.start = time.Since(began)
	small := worldPod("small", 1, 1, 0, 100)
	if err := w.pods.Add(small); err != nil {
		return nil, err
	}
	if t.free, err = w.repeat(ctx, times.pods, small, w.fits); err != nil {
		return nil, err
	}
	if t.pods, err = w.repeat(ctx, times.pods, preemptor, w.preempts); err != nil {
		return nil, err
	}
	if t.gangs, err = w.repeat(ctx, times.gangs, w.gang[0], w.preempts); err != nil {
		return nil, err
	}
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	t.heap, t.peak = memory.HeapAlloc/mebi, memory.Sys/mebi
	runtime.KeepAlive(w)
	return t, nil
}

// repeat times a number of cycles for a pod and returns the durations in ascending order. Before
// each cycle it changes podsPerNode pods, which the duration does not include.
func (w *world) repeat(ctx context.Context, times int, pod *corev1.Pod, cycle func(context.Context, *corev1.Pod) (time.Duration, error)) ([]time.Duration, error) {
	out := make([]time.Duration, 0, times)
	for range times {
		if err := w.change(ctx, podsPerNode); err != nil {
			return nil, err
		}
		took, err := cycle(ctx, pod)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		out = append(out, took)
	}
	slices.Sort(out)
	return out, nil
}

// attempt updates the snapshot, and then runs the scheduling cycle of a pod.
func (w *world) attempt(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) error {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return err
	}
	if err := w.refresh(ctx); err != nil {
		return err
	}
	_, err = w.sched.SchedulePod(ctx, w.fw, state, &framework.QueuedPodInfo{PodInfo: info})
	return err
}

// fits returns the duration of a scheduling cycle that finds a node for a pod.
func (w *world) fits(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	began := time.Now()
	err := w.attempt(ctx, framework.NewCycleState(), pod)
	return time.Since(began), err
}

// errOutcome is wrapped by the error for a cycle that evicts no pod.
var errOutcome = errors.New("the cycle preempts nothing")

// preempts returns the duration of a scheduling cycle that preempts, including PostFilter. For a
// member of the gang, the cycle decides for the whole gang. The evictor then fails, so that the
// next cycle has the same cluster.
func (w *world) preempts(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	cycle, end := context.WithCancel(ctx)
	defer end()
	state, began := framework.NewCycleState(), time.Now()
	err := w.attempt(cycle, state, pod)
	var nowhere *framework.FitError
	if !errors.As(err, &nowhere) {
		return 0, fmt.Errorf("%w: %w", errOutcome, err)
	}
	_, status := w.fw.RunPostFilterPlugins(cycle, state, pod, nowhere.Diagnosis.NodeToStatus)
	took := time.Since(began)
	end()
	if !status.IsSuccess() || w.evictor.outcomes == nil || w.evictor.order.Decision.Outcome != core.Preempts {
		return 0, fmt.Errorf("%w: %s", errOutcome, status.Message())
	}
	w.evictor.outcomes <- eviction.Outcome{Err: errNobodyEvicts, Unwanted: true}
	w.shared.Wait()
	*w.evictor = refusingEvictor{}
	return took, nil
}
