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
	// overtaken is the number of worlds with evictions in progress when another scheduler takes
	// over.
	overtaken = 6
	// leaseTime is the lease duration of oneOfTwo. For this time, an old leader may still assume
	// that it leads.
	leaseTime = 15 * time.Second
)

// TestOldLeader keeps an old leader at work for the duration of a lease after another one has taken
// over. The old leader does not notice, because its renewals seem to succeed. The writes that it
// was about to make are held until the other one leads.
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

// replica is one of two schedulers, with a proxy of its own.
type replica struct {
	component *playground.Component
	proxy     *slowapi.Proxy
}

// overtake starts evictions in all worlds and holds each at a point. They continue once there is
// another leader.
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

// holderOf returns the holder of the lease.
func holderOf(s *stage.Stage) string {
	var lease coordinationv1.Lease
	if err := s.Objects.Get(s.Context(), client.ObjectKey{Namespace: "kube-system", Name: "reprieve-scheduler"}, &lease); err != nil {
		s.Fatalf("get the lease: %v", err)
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// hold is an eviction that is held at a point.
type hold struct {
	world *world
	point point

	mu      sync.Mutex
	random  *rand.Rand
	count   int
	reached chan struct{}
}

// next decides the answer to the next write of the eviction.
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
		// The held writes arrive one after the other, over some seconds.
		answer.Until, answer.Before = release, time.Duration(h.random.Int64N(int64(leaseTime/5)))
	}
	return answer
}

// verify waits until the eviction is complete. If its preemptor is gone, either leader may have
// begun a group that the other one does not know. Then each group must be evicted as a whole or not
// at all, and no pod that was not needed.
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
