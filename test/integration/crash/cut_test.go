package crash

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/slowapi"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// point describes one interruption of an eviction: where the scheduler is killed, and which events
// follow before a scheduler continues.
type point struct {
	seed uint64
	// write is the number of the first write of the eviction that does not reach the API server.
	// The numbers start at 1.
	write int
	// apiServer is true if the API server is killed before the scheduler, and started again.
	apiServer bool
	// etcd is true if etcd is killed after the API server and before the scheduler, and started
	// again.
	etcd bool
	// preemptorGone is true if the preemptor is deleted before a scheduler continues. Then only the
	// groups whose eviction has begun may still be evicted.
	preemptorGone bool
	// recreated is true if a pod with the name of an evicted victim is created, as a controller
	// would do.
	recreated bool
}

func (p point) String() string {
	name := fmt.Sprintf("seed %d, write %d", p.seed, p.write)
	for _, c := range []struct {
		what string
		is   bool
	}{{"API server", p.apiServer}, {"etcd", p.etcd}, {"preemptor gone", p.preemptorGone}, {"recreated", p.recreated}} {
		if c.is {
			name += ", " + c.what
		}
	}
	return strings.ReplaceAll(name, " ", "_")
}

// killed returns the names of the control plane's components that are killed, in the order of the
// kills. They are started in the reverse order.
func (p point) killed() (names []string) {
	if p.apiServer {
		names = append(names, playground.APIServer)
	}
	if p.etcd {
		names = append(names, playground.Etcd)
	}
	return names
}

// slowest is the upper bound of the proxy's delay for one write, including the delay of the
// response.
const slowest = 160 * time.Millisecond

// writes returns the least number of writes of an eviction:
//
//   - a nomination for each member of the preemptor except one, which the framework nominates
//   - the list of victims, for each group
//   - a condition and a delete, for each victim
func (w *world) writes() int { return nodeCount - 1 + len(neededGroups) + 2*len(w.needed()) }

// spread divides the writes of an eviction into n equal parts, and returns a random point in part
// i.
func (w *world) spread(seed uint64, i, n int) point {
	first, next := i*w.writes()/n, (i+1)*w.writes()/n
	return point{seed: seed, write: 1 + first + rand.New(rand.NewPCG(seed, 4832)).IntN(next-first)}
}

// isWrite reports whether an API call is one of the eviction's writes.
func (w *world) isWrite(call slowapi.Call) bool {
	path, ok := strings.CutPrefix(call.Path, "/api/v1/namespaces/"+w.ns+"/pods/")
	if ok && call.Method == http.MethodPatch && strings.HasPrefix(path, "urgent-") {
		// The framework also writes the status of waiting pods. Such a write does not contain a
		// nomination.
		return bytes.Contains(call.Body, []byte(`"nominatedNodeName":"`))
	}
	if ok {
		return call.Method == http.MethodPatch || call.Method == http.MethodDelete
	}
	return call.Method == http.MethodPut && strings.Contains(call.Path, "/namespaces/"+w.ns+"/podgroups/")
}

// hold delays each write of an eviction by a random time. From the write p.write on, it blocks the
// writes, and closes the returned channel at the first of them.
func (w *world) hold(p point) <-chan struct{} {
	reached := make(chan struct{})
	var mu sync.Mutex
	count := 0
	random := rand.New(rand.NewPCG(p.seed, 5710))
	w.proxy.Set(func(call slowapi.Call) slowapi.Answer {
		if !w.isWrite(call) {
			return slowapi.Answer{}
		}
		mu.Lock()
		defer mu.Unlock()
		count++
		if count == p.write {
			close(reached)
		}
		if count >= p.write {
			return slowapi.Answer{Before: slowapi.Forever}
		}
		return slowapi.Answer{
			Before: time.Duration(random.Int64N(int64(slowest / 2))),
			After:  time.Duration(random.Int64N(int64(slowest / 2))),
		}
	})
	return reached
}

// keepLease rejects all writes to Leases, so that no standby becomes the leader. A new leader could
// complete the eviction before the test has read the state.
func keepLease(call slowapi.Call) slowapi.Answer {
	if call.Method != http.MethodGet && strings.Contains(call.Path, "/leases/") {
		return slowapi.Answer{Refuse: http.StatusInternalServerError}
	}
	return slowapi.Answer{}
}

// keepsRunning checks for some time that the scheduler runs. If it exits before the test kills it,
// the test fails.
func keepsRunning(s *stage.Stage, scheduler *playground.Component, until time.Duration) {
	s.Helper()
	s.NeverFor(until, 5*time.Millisecond, "the scheduler runs until it is killed", func(context.Context) string {
		if scheduler.PID() == 0 {
			return "it has ended by itself"
		}
		return ""
	})
}

// cut starts a preemption and kills the scheduler at the point. It returns the state in the API at
// that time.
func (w *world) cut(t *testing.T, p point, scheduler *playground.Component) *scene {
	t.Helper()
	random := rand.New(rand.NewPCG(p.seed, 9598))
	reached := w.hold(p)
	w.preempt(t)
	select {
	case <-reached:
	case <-time.After(stage.Patience):
		t.Fatal("The eviction does not come that far")
	}
	// Wait for a random time. The last writes before the point may then be on their way to the API
	// server, or answered, or the response is on its way.
	after := time.Duration(random.Int64N(int64(slowest)))
	keepsRunning(w.at(t), scheduler, after)
	var killed []*playground.Component
	for _, name := range p.killed() {
		component := w.Run.Component(name)
		if err := component.Kill(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		killed = append(killed, component)
		// Wait for a random time, so that the scheduler may notice the failure of the other
		// components before it is killed.
		keepsRunning(w.at(t), scheduler, time.Duration(random.Int64N(int64(slowest))))
	}
	if err := scheduler.Kill(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.proxy.Set(keepLease)
	defer w.proxy.Clear()
	for _, component := range slices.Backward(killed) {
		if err := component.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.at(t).Eventually("what was under way has come through or not", func(context.Context) string {
		if n := w.proxy.Active(); n > 0 {
			return fmt.Sprintf("%d calls are under way", n)
		}
		return ""
	})
	var at *scene
	w.at(t).Eventually("the API server answers", func(ctx context.Context) string {
		var err error
		if at, err = w.look(ctx); err != nil {
			return err.Error()
		}
		return ""
	})
	t.Logf("cut %v after the point: %v", after.Round(time.Millisecond), at)
	if at.placed > 0 || len(at.going) == len(w.needed()) {
		t.Fatal("There was nothing left to cut")
	}
	return at
}
