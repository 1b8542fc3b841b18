package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/slowapi"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

const (
	// overtaken is the number of worlds with an eviction in progress when the other scheduler
	// becomes the leader.
	overtaken = 6
	// leaseTime is the lease duration in oneOfTwo. An old leader may believe for this time that it
	// is still the leader.
	leaseTime = 15 * time.Second
)

// TestOldLeader tests two leaders at the same time: the old leader does not notice that another
// scheduler has taken over. The proxy answers its Lease renewals with success, but does not forward
// them. The proxy also holds the writes of the old leader's evictions until the other scheduler is
// the leader.
//
//nolint:tparallel // The rounds are one after the other: there is one pair of schedulers.
func TestOldLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	other := *c
	other.proxy = slowapi.Start(t, c.Run.RESTConfig())
	other.kubeconfig = other.proxy.Kubeconfig(t)
	leader := &replica{component: c.startScheduler(t, "one", oneOfTwo), proxy: c.proxy}
	standby := &replica{component: other.startScheduler(t, "two", oneOfTwo), proxy: other.proxy}
	for round := range 1 + *killPoints/100 {
		t.Run(fmt.Sprintf("round_%d", round), func(t *testing.T) {
			worlds := c.worlds(t, fmt.Sprintf("o%d-", round), overtaken)
			overtake(t, worlds, *killSeed<<20+uint64(round*overtaken), leader, standby)
		})
		if t.Failed() {
			return
		}
		leader, standby = standby, leader
	}
}

// replica is one of two schedulers. Each has its own proxy.
type replica struct {
	component *playground.Component
	proxy     *slowapi.Proxy
}

// overtake starts an eviction in each world, and holds it at a point. It releases the held writes
// after the standby has become the leader.
func overtake(t *testing.T, worlds []*world, seed uint64, leader, standby *replica) {
	t.Helper()
	holds := make([]*hold, len(worlds))
	for i, w := range worlds {
		p := w.spread(seed+uint64(i), i, len(worlds))
		p.preemptorGone = i%3 == 2
		holds[i] = &hold{world: w, point: p, random: rand.New(rand.NewPCG(p.seed, 3)), reached: make(chan struct{})}
		w.explain(t, leader.component)
		w.explain(t, standby.component)
	}
	release := make(chan struct{})
	letGo := sync.OnceFunc(func() { close(release) })
	defer letGo()
	leader.proxy.Set(func(call slowapi.Call) slowapi.Answer {
		if call.Method != http.MethodGet && strings.Contains(call.Path, "/leases/") {
			return slowapi.Answer{Pretend: true}
		}
		for _, h := range holds {
			if h.world.isWrite(call) {
				return h.next(release)
			}
		}
		return slowapi.Answer{}
	})
	s := worlds[0].at(t)
	before := holderOf(s)
	for _, h := range holds {
		h.world.preempt(t)
	}
	for _, h := range holds {
		select {
		case <-h.reached:
		case <-time.After(stage.Patience):
			t.Fatalf("%s: the eviction does not come to write %d", h.world.ns, h.point.write)
		}
		if h.point.preemptorGone {
			h.world.giveUp(t)
		}
	}
	s.Eventually("another takes over", func(context.Context) string {
		if now := holderOf(s); now == before {
			return now + " leads"
		}
		return ""
	})
	letGo()
	keepsRunning(s, leader.component, leaseTime)
	if err := leader.component.Kill(9); err != nil {
		t.Fatal(err)
	}
	leader.proxy.Clear()
	for _, h := range holds {
		h.verify(t)
	}
	verifyAll(t, worlds)
	if err := leader.component.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// holderOf returns the identity of the scheduler that holds the Lease.
func holderOf(s *stage.Stage) string {
	var lease coordinationv1.Lease
	if err := s.Objects.Get(s.Context(), client.ObjectKey{Namespace: "kube-system", Name: "reprieve-scheduler"}, &lease); err != nil {
		s.Fatalf("get the lease: %v", err)
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// hold is an eviction whose writes the proxy holds from a point on.
type hold struct {
	world *world
	point point

	mu      sync.Mutex
	random  *rand.Rand
	count   int
	reached chan struct{}
}

// next returns the proxy's answer to the next write of the eviction.
func (h *hold) next(release <-chan struct{}) slowapi.Answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count++
	answer := slowapi.Answer{
		Before: time.Duration(h.random.Int64N(int64(slowest / 2))), After: time.Duration(h.random.Int64N(int64(slowest / 2))),
	}
	if h.count == h.point.write {
		close(h.reached)
	}
	if h.count >= h.point.write {
		// The released writes reach the API server at random times, over some seconds.
		answer.Until, answer.Before = release, time.Duration(h.random.Int64N(int64(leaseTime/5)))
	}
	return answer
}

// verify waits until the eviction is complete, and checks that each evicted pod was needed. If the
// preemptor has been deleted, the two leaders may have begun different groups. Then each group must
// be either evicted as a whole or not at all.
func (h *hold) verify(t *testing.T) {
	t.Helper()
	w, needed := h.world, h.world.needed()
	var last *scene
	w.at(t).Eventually(w.ns+" comes to an end", func(ctx context.Context) string {
		now, err := w.look(ctx)
		switch {
		case err != nil:
			return err.Error()
		case !h.point.preemptorGone && (now.placed < nodeCount || !slices.Equal(now.going, needed)):
			return now.String()
		case len(now.half)+len(now.begun)+len(now.targets) > 0:
			return now.String()
		}
		last = now
		return ""
	})
	for _, name := range last.going {
		if !isNeeded(name) {
			t.Errorf("%s: %s has gone, which was not needed", w.ns, name)
		}
	}
	w.gone, w.over = last.going, true
}
