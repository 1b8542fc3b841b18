package throughput

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"
)

const (
	// measuredNamespace is the namespace of the measured pods in all workloads.
	measuredNamespace = "measured"
	// measuredParam is the parameter of a workload with the number of measured pods.
	measuredParam = "measuredPods"
)

// stopwatches creates a stopwatch for each workload. scheduler_perf checks only once per second
// whether all pods are placed, which is too coarse for a gang.
type stopwatches struct {
	outDir, profileDir string
	// wanted is the number of measured pods of the next workload.
	wanted int
}

// expect is a hook that scheduler_perf calls before it starts the API server for a workload.
func (s *stopwatches) expect(_ ktesting.TContext, w *perf.Workload) (func(), error) {
	var err error
	s.wanted, err = w.GetParam(measuredParam)
	return nil, err
}

// start is a hook that scheduler_perf calls before the first operation of a workload.
func (s *stopwatches) start(tCtx ktesting.TContext) error {
	w := &stopwatch{
		// The name of the test is BENCHMARK/SIDE/WORKLOAD.
		name: strings.SplitN(tCtx.Name(), "/", 3)[2], wanted: s.wanted,
		created: make(map[types.UID]time.Time), bound: make(map[types.UID]time.Time),
	}
	ctx := tCtx.WithCancel()
	factory := informers.NewSharedInformerFactoryWithOptions(tCtx.Client(), 0, informers.WithNamespace(measuredNamespace))
	if s.profileDir != "" {
		w.profile = filepath.Join(s.profileDir, fileName(w.name)+".cpu.pprof")
	}
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(w.handler(func(*corev1.Pod) bool { return true })); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	tCtx.TB().Cleanup(func() {
		ctx.Cancel("the workload is over")
		factory.Shutdown()
		if err := w.stop(s.outDir); err != nil {
			tCtx.Errorf("stopwatch: %v", err)
		}
	})
	return nil
}

// stopwatch records when each measured pod of a workload was created, and when it got its node.
type stopwatch struct {
	// name is the name of the workload, "row/side/size".
	name    string
	wanted  int
	profile string

	mu             sync.Mutex
	created, bound map[types.UID]time.Time
	profiling      *os.File
	// calls has the number of API calls before the CPU profile began.
	calls apiCalls
	err   error
}

// handler returns an event handler that records the times of measured pods.
func (w *stopwatch) handler(isMeasured func(*corev1.Pod) bool) cache.ResourceEventHandler {
	see := func(obj any) {
		if pod, ok := obj.(*corev1.Pod); ok && isMeasured(pod) {
			w.see(pod)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, obj any) { see(obj) }}
}

func (w *stopwatch) see(pod *corev1.Pod) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, seen := w.created[pod.UID]; !seen {
		if len(w.created) == 0 {
			w.startProfile()
		}
		w.created[pod.UID] = now
	}
	if _, seen := w.bound[pod.UID]; !seen && pod.Spec.NodeName != "" {
		w.bound[pod.UID] = now
		if len(w.bound) == w.wanted {
			w.stopProfile()
		}
	}
}

func (w *stopwatch) startProfile() {
	if w.profile == "" {
		return
	}
	if w.calls, w.err = countCalls(); w.err != nil {
		return
	}
	if w.profiling, w.err = os.Create(w.profile); w.err == nil {
		w.err = pprof.StartCPUProfile(w.profiling)
	}
}

func (w *stopwatch) stopProfile() {
	if w.profiling == nil {
		return
	}
	pprof.StopCPUProfile()
	calls, err := countCalls()
	if err == nil {
		err = calls.writeSince(w.calls, strings.TrimSuffix(w.profile, ".cpu.pprof")+".calls.txt")
	}
	w.err = cmp.Or(w.err, w.profiling.Close(), err)
	w.profiling = nil
}

// isDone reports whether all measured pods have a node.
func (w *stopwatch) isDone(context.Context) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.bound) == w.wanted, nil
}

// stop writes the result into the directory of scheduler_perf's results.
func (w *stopwatch) stop(dir string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopProfile()
	if w.err != nil {
		return fmt.Errorf("CPU profile: %w", w.err)
	}
	return write(dir, w.name, w.result())
}

// write writes a result to a file in dir. If dir is empty, it does nothing.
func write(dir, workload string, item perf.DataItem) error {
	if dir == "" {
		return nil
	}
	raw, err := json.MarshalIndent(perf.DataItems{Version: "v1", DataItems: []perf.DataItem{item}}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "stopwatch_"+fileName(workload)+".json"), raw, 0o644)
}

// result returns the time from the creation of the first measured pod until the last measured pod
// has a node. It also has percentiles of the wait of each pod.
func (w *stopwatch) result() perf.DataItem {
	item := perf.DataItem{
		Labels: map[string]string{"Name": w.name + "/" + measuredNamespace, "Metric": "Stopwatch"},
		Unit:   "s",
		Data: map[string]float64{
			"Wanted": float64(w.wanted), "Created": float64(len(w.created)), "Bound": float64(len(w.bound)),
		},
	}
	if len(w.bound) == 0 {
		return item
	}
	var first, last time.Time
	for _, at := range w.created {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	waits := make([]float64, 0, len(w.bound))
	sum := 0.0
	for uid, at := range w.bound {
		if at.After(last) {
			last = at
		}
		wait := at.Sub(w.created[uid]).Seconds()
		waits = append(waits, wait)
		sum += wait
	}
	slices.Sort(waits)
	percentile := func(p float64) float64 { return waits[int(math.Ceil(float64(len(waits))*p/100))-1] }
	item.Data["Total"] = last.Sub(first).Seconds()
	item.Data["Average"] = sum / float64(len(waits))
	item.Data["Perc50"], item.Data["Perc90"], item.Data["Perc99"] = percentile(50), percentile(90), percentile(99)
	return item
}

func fileName(workload string) string { return strings.ReplaceAll(workload, "/", "_") }
