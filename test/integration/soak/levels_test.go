package soak

import (
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/soak/invariants"
)

// These constants bound the heap and the goroutines of the leader at the end. The bound is the
// earlier value multiplied by "growth", plus "slack". heapSlack is in bytes.
const (
	heapGrowth, heapSlack           = 1.5, 8 << 20
	goroutineGrowth, goroutineSlack = 1.2, 20
)

// levels are measured values of the leader at a time without work.
type levels struct {
	replica string
	pid     int
	// heap is the size of live objects after a garbage collection. spans is the size of the memory
	// that holds them. Both are in bytes. goroutines is a number.
	heap, spans, goroutines float64
	// promises is the number of pods with a reservation in the scheduler's memory. nominated is the
	// number of pods with a nominated node in the API.
	promises, nominated float64
	// disrupted is the number of PodGroups with an intent, and pods is the number of all pods.
	disrupted, pods int
}

// measure waits until no action is in progress, and then measures the leader. If logs are kept, it
// also writes a heap profile with the given name.
func (s *soak) measure(name string) levels {
	s.Helper()
	s.awaitSettled()
	s.pass(restFor)
	leader := s.awaitLeader(time.Time{})
	profile, err := s.collect(leader.component)
	if err == nil {
		err = s.Keep("heap-"+name+".pprof", profile)
	}
	if err != nil {
		s.Fatalf("collect the garbage of %s: %v", leader.name, err)
	}
	m := s.Metrics(leader.component)
	l := levels{
		replica: leader.name, pid: leader.component.PID(),
		heap: m.Sum("go_memstats_heap_alloc_bytes"), spans: m.Sum("go_memstats_heap_inuse_bytes"), goroutines: m.Sum("go_goroutines"),
		promises: m.Sum("reprieve_reservations"),
	}
	s.observer.with(func(c *invariants.Checker) {
		for pod := range c.Pods {
			l.pods++
			if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && pod.Status.NominatedNodeName != "" {
				l.nominated++
			}
		}
		for pg := range c.Groups {
			l.disrupted += disruptedOf(pg)
		}
	})
	return l
}

func disruptedOf(pg *v1alpha1.PodGroup) int {
	if pg.Status.Disruption != nil {
		return 1
	}
	return 0
}

// collect triggers a garbage collection in a scheduler, and returns a heap profile.
func (s *soak) collect(scheduler *playground.Component) ([]byte, error) {
	config := s.Run.RESTConfig()
	config.Host, config.Timeout = scheduler.URL(), 30*time.Second
	direct, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return direct.Discovery().RESTClient().Get().AbsPath("/debug/pprof/heap").Param("gc", "1").DoRaw(s.Context())
}

// compare compares two measurements. The test fails in these cases:
//
//   - The leader has changed.
//   - The leader uses too much memory or too many goroutines (see tooMuch).
//   - At the end, a reservation, a nominated pod or an intent remains.
func (s *soak) compare(first, last levels) {
	s.Helper()
	if first.pid != last.pid {
		s.Errorf("The leader has changed from %s (process %d) to %s (%d) although nothing was to end it", first.replica, first.pid, last.replica, last.pid)
		return
	}
	for _, fault := range tooMuch(first, last) {
		s.Error("NOT LEVEL " + fault)
	}
}

// tooMuch describes the values that exceed their bound.
func tooMuch(first, last levels) (out []string) {
	if most := first.heap*heapGrowth + heapSlack; last.heap > most {
		out = append(out, fmt.Sprintf("the heap has %.0f bytes, want at most %.0f after %.0f at first", last.heap, most, first.heap))
	}
	if most := first.goroutines*goroutineGrowth + goroutineSlack; last.goroutines > most {
		out = append(out, fmt.Sprintf("%.0f goroutines run, want at most %.0f after %.0f at first", last.goroutines, most, first.goroutines))
	}
	if last.promises > 0 || last.nominated > 0 || last.disrupted > 0 {
		out = append(out, fmt.Sprintf("in calm %.0f pods are promised room, %.0f are nominated, and %d PodGroups are on record as going", last.promises, last.nominated, last.disrupted))
	}
	return out
}
