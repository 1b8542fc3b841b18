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

// point is the place where an eviction is interrupted, and the events before another scheduler
// continues it.
type point struct {
	seed uint64
	// write is the number of a write of the eviction, from 1. The API server gets only the writes
	// before it.
	write int
	// apiServer is true if the API server is killed too, before the scheduler, and restarted.
	apiServer bool
	// etcd is true if etcd is killed too, after the API server, and restarted.
	etcd bool
	// preemptorGone is true if the preemptor is deleted before the next scheduler starts. Then only
	// groups whose eviction has begun may still be evicted.
	preemptorGone bool
	// recreated is true if a victim that is gone is created again under its name, as a controller
	// does.
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

// killed returns the other components that are killed, in their order. They are started in the
// reverse order.
func (p point) killed() (names []string) {
	if p.apiServer {
		names = append(names, playground.APIServer)
	}
	if p.etcd {
		names = append(names, playground.Etcd)
	}
	return names
}

// slowest is the longest time of a write, to the API server and back.
const slowest = 160 * time.Millisecond

// writes returns the least number of writes of an eviction. It nominates every member of the
// preemptor except the one in the cycle, which the framework nominates. It writes the list of
// victims to every group. It marks every victim and deletes it.
func (w *world) writes() int { return nodeCount - 1 + len(neededGroups) + 2*len(w.needed()) }

// spread returns the i-th of n points of an eviction. Its write is at a random place in the i-th of
// n equal parts.
func (w *world) spread(seed uint64, i, n int) point {
	first, next := i*w.writes()/n, (i+1)*w.writes()/n
	return point{seed: seed, write: 1 + first + rand.New(rand.NewPCG(seed, 4832)).IntN(next-first)}
}

// isWrite reports whether a call is a write of an eviction.
func (w *world) isWrite(call slowapi.Call) bool {
	path, ok := strings.CutPrefix(call.Path, "/api/v1/namespaces/"+w.ns+"/pods/")
	if ok && call.Method == http.MethodPatch && strings.HasPrefix(path, "urgent-") {
		// The status that the framework writes for a waiting pod does not count.
		return bytes.Contains(call.Body, []byte(`"nominatedNodeName":"`))
	}
	if ok {
		return call.Method == http.MethodPatch || call.Method == http.MethodDelete
	}
	return call.Method == http.MethodPut && strings.Contains(call.Path, "/namespaces/"+w.ns+"/podgroups/")
}

// hold delays every write of an eviction by a random time from the seed. It blocks the writes from
// the point on, and closes the channel when the point is reached.
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

// keepLease refuses the calls by which another scheduler could take the lease. A standby could
// complete the eviction before the test has read the state.
func keepLease(call slowapi.Call) slowapi.Answer {
	if call.Method != http.MethodGet && strings.Contains(call.Path, "/leases/") {
		return slowapi.Answer{Refuse: http.StatusInternalServerError}
	}
	return slowapi.Answer{}
}

// keepsRunning watches the scheduler until the test kills it. A scheduler that ends by itself
// before is another failure.
func keepsRunning(s *stage.Stage, scheduler *playground.Component, until time.Duration) {
	s.Helper()
	s.NeverFor(until, 5*time.Millisecond, "the scheduler runs until it is killed", func(context.Context) string {
		if scheduler.PID() == 0 {
			return "it has ended by itself"
		}
		return ""
	})
}

// cut starts a preemption, kills the scheduler during it, and returns the state at that moment.
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
	// The writes before the point may now be on their way to the API server, on their way back, or
	// answered.
	after := time.Duration(random.Int64N(int64(slowest)))
	keepsRunning(w.at(t), scheduler, after)
	var killed []*playground.Component
	for _, name := range p.killed() {
		component := w.Run.Component(name)
		if err := component.Kill(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		killed = append(killed, component)
		// The scheduler may or may not notice.
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
