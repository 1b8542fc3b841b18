package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/reprieve-dev/reprieve/internal/playground"
)

const (
	// callers is the number of concurrent API calls of the other client.
	callers = 32
	// span is the duration of each measurement.
	span = 10 * time.Second
	// backlog is the number of pods that wait for the scheduler at the start of a measurement. The
	// scheduler cannot bind all of them during span.
	backlog = 6000
)

// neighbourResult has the throughput of another client of the API server while the scheduler runs,
// and the throughput of the scheduler.
type neighbourResult struct {
	setting string
	// kept has the throughput of the other client, divided by its throughput without a scheduler.
	// bound has the number of pods per second that the scheduler binds.
	kept, bound []float64
}

// measureNeighbours measures another client that keeps the API server busy. It measures the client
// without a scheduler, and with a scheduler under each setting.
func measureNeighbours(ctx context.Context, binDir string, runs int) ([]neighbourResult, error) {
	results := make([]neighbourResult, len(settings()))
	for range runs {
		for i, s := range settings() {
			kept, bound, err := measureNeighbour(ctx, binDir, &s)
			if err != nil {
				return nil, fmt.Errorf("neighbour, %s: %w", s.name, err)
			}
			fmt.Fprintf(os.Stderr, "neighbour, %s: keeps %.2f, %.0f pods a second\n", s.name, kept, bound)
			r := &results[i]
			r.setting, r.kept, r.bound = s.name, append(r.kept, kept), append(r.bound, bound)
		}
	}
	return results, nil
}

// measureNeighbour makes one measurement. It stops the simulated kubelets before the measurement,
// because their API calls would slow down the other client.
func measureNeighbour(ctx context.Context, binDir string, s *setting) (kept, bound float64, err error) {
	nodes := playground.NodeGroup{Count: 20, Resources: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1000"), corev1.ResourcePods: resource.MustParse("1000"),
	}}
	p, err := start(ctx, binDir, nil, nodes)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	objects, kube, err := clients(p)
	if err != nil {
		return 0, 0, err
	}
	if err := objects.Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "low"}}); err != nil {
		return 0, 0, err
	}
	var pods []*corev1.Pod
	for i := range backlog {
		pods = append(pods, newPod(fmt.Sprintf("p-%d", i), "low", "", "1m", ""))
	}
	if err := createAll(ctx, objects, pods); err != nil {
		return 0, 0, err
	}
	if err := p.Component(playground.Kwok).Kill(syscall.SIGKILL); err != nil {
		return 0, 0, err
	}
	busy, rest := context.WithCancel(ctx)
	defer rest()
	var running sync.WaitGroup
	defer running.Wait()
	defer rest()
	calls, err := keepBusy(busy, kube, &running)
	if err != nil {
		return 0, 0, err
	}
	alone := rateOf(ctx, func() (int64, error) { return calls.Load(), nil })
	if _, err := p.StartScheduler(ctx, "measured", playground.SchedulerOptions{Args: s.args}); err != nil {
		return 0, 0, err
	}
	count := func() (int64, error) { return countBound(ctx, kube) }
	for n := int64(0); n == 0; {
		if n, err = count(); err != nil {
			return 0, 0, err
		}
	}
	beside := make(chan float64, 1)
	go func() { beside <- rateOf(ctx, func() (int64, error) { return calls.Load(), nil }) }()
	bound = rateOf(ctx, count)
	return <-beside / alone, bound, ctx.Err()
}

// rateOf returns the increase of a count per second during span, or NaN if the count cannot be
// read.
func rateOf(ctx context.Context, count func() (int64, error)) float64 {
	before, err1 := count()
	began := time.Now()
	select {
	case <-ctx.Done():
	case <-time.After(span):
	}
	after, err2 := count()
	if err1 != nil || err2 != nil {
		return math.NaN()
	}
	return float64(after-before) / time.Since(began).Seconds()
}

func countBound(ctx context.Context, kube kubernetes.Interface) (int64, error) {
	list, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=", ResourceVersion: "0"})
	if err != nil {
		return 0, err
	}
	return backlog - int64(len(list.Items)), nil
}

// keepBusy starts concurrent callers that change ConfigMaps. It returns the counter of their
// successful calls.
func keepBusy(ctx context.Context, kube kubernetes.Interface, running *sync.WaitGroup) (*atomic.Int64, error) {
	maps := kube.CoreV1().ConfigMaps(namespace)
	var calls atomic.Int64
	for i := range callers {
		name := fmt.Sprintf("neighbour-%d", i)
		if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
		running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				patch := fmt.Sprintf(`{"data":{"n":"%d"}}`, n)
				if _, err := maps.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err == nil {
					calls.Add(1)
				}
			}
		})
	}
	return &calls, nil
}

func neighbourTable(results []neighbourResult) string {
	var out strings.Builder
	out.WriteString(`The throughput of another client of the API server while the scheduler binds pods, in percent of
the client's throughput without a scheduler. The last column is the scheduler's own throughput.

| Calls | Other client, p50 | Other client, least | Pods bound a second |
| --- | ---: | ---: | ---: |
`)
	for _, r := range results {
		fmt.Fprintf(&out, "| %s | %.0f %% | %.0f %% | %.0f |\n", r.setting, 100*percentile(r.kept, 0.5), 100*slices.Min(r.kept), percentile(r.bound, 0.5))
	}
	return out.String()
}

// percentile returns the smallest element such that at least the given part of the values is less
// than or equal to it. part is between 0 and 1.
func percentile[T float64 | time.Duration](values []T, part float64) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, int(math.Ceil(part*float64(len(sorted))))-1)]
}
