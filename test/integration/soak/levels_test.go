package soak

import (
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/soak/invariants"
)

// What the leader may have at the end, compared with what it had once it had warmed up: the share, and what is never too much.
const (
	heapGrowth, heapSlack           = 1.5, 8 << 20
	goroutineGrowth, goroutineSlack = 1.2, 20
)

// levels are what a scheduler has at rest.
type levels struct {
	replica string
	pid     int
	// heap is what objects have after a collection, and spans what the pages have that they are on, both in bytes.
	heap, spans, goroutines float64
	// promises are pods that room is promised to, as the scheduler says, and nominated those that the API shows with a node to be.
	promises, nominated float64
	// disrupted are PodGroups that are on record as going.
	disrupted, pods int
}

// measure waits until what was under way is over, and reads what the leader has. Where logs are kept, the profile of its heap is,
// under a name.
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

// collect has a scheduler collect its garbage, which its profiler does first when it is asked, and returns the profile of what is left.
func (s *soak) collect(scheduler *playground.Component) ([]byte, error) {
	config := s.Run.RESTConfig()
	config.Host, config.Timeout = scheduler.URL(), 30*time.Second
	direct, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return direct.Discovery().RESTClient().Get().AbsPath("/debug/pprof/heap").Param("gc", "1").DoRaw(s.Context())
}

// compare fails the test where the leader has more than it had, or has not kept what it promised.
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

// tooMuch says in what the levels of a process have risen.
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
