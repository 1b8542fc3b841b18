package soak

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/slowapi"
	"github.com/reprieve-dev/reprieve/test/integration/soak/invariants"
)

// clockBehind is the error of a clock.
const clockBehind = time.Minute

// catchUp is the time that a new leader has before its duties count: it lists all objects first.
const catchUp = 3 * time.Second

// fault is a disturbance that lasts for a while.
type fault struct {
	name string
	// hinders is true if the scheduler cannot work during the fault. Bounds are then suspended.
	hinders bool
	// endsLeader is true if the fault ends the leader, or may end it.
	endsLeader bool
	// shortest and longest bound the duration of the fault.
	shortest, longest time.Duration
	// begin begins the fault, and returns a function that ends it.
	begin func(s *soak, random *rand.Rand) (end func() error, err error)
}

// faults returns all faults.
func faults() []fault {
	return []fault{
		{name: "scheduler killed", hinders: true, endsLeader: true, shortest: time.Second, longest: time.Second, begin: killLeader},
		{name: "API server stopped", hinders: true, endsLeader: true, shortest: 2 * time.Second, longest: time.Minute, begin: stopAPIServer},
		{name: "etcd stopped", hinders: true, endsLeader: true, shortest: 2 * time.Second, longest: 30 * time.Second, begin: stopEtcd},
		{name: "etcd restarted", hinders: true, shortest: time.Second, longest: time.Second, begin: stopEtcd},
		{name: "watches cut", shortest: 4 * time.Second, longest: 15 * time.Second, begin: cutWatches},
		{name: "deletes refused by a webhook", hinders: true, shortest: 5 * time.Second, longest: 20 * time.Second, begin: refuseDeletes},
		{name: "deletes delayed by a webhook", shortest: 5 * time.Second, longest: 25 * time.Second, begin: delayDeletes},
		{name: "too many requests", hinders: true, shortest: 5 * time.Second, longest: 20 * time.Second, begin: tooMany},
		{name: "clock a minute behind", hinders: true, endsLeader: true, shortest: 5 * time.Second, longest: 25 * time.Second, begin: setClockBehind},
		{name: "leader loses its lease", hinders: true, endsLeader: true, shortest: 12 * time.Second, longest: 15 * time.Second, begin: loseLease},
	}
}

// struck is a past fault, with its duration.
type struck struct {
	name string
	took time.Duration
}

// schedule selects faults, each equally often.
type schedule struct {
	random *rand.Rand
	all    []fault
	left   []fault
	over   []struck
}

func newSchedule(random *rand.Rand) *schedule { return &schedule{random: random, all: faults()} }

// any returns the next fault.
func (s *schedule) any() fault { return s.next(func(fault) bool { return true }) }

// mild returns the next fault that does not end the leader.
func (s *schedule) mild() fault { return s.next(func(f fault) bool { return !f.endsLeader }) }

func (s *schedule) next(is func(fault) bool) fault {
	for {
		if i := slices.IndexFunc(s.left, is); i >= 0 {
			f := s.left[i]
			s.left = slices.Delete(s.left, i, i+1)
			return f
		}
		s.left = slices.Clone(s.all)
		s.random.Shuffle(len(s.left), func(i, j int) { s.left[i], s.left[j] = s.left[j], s.left[i] })
	}
}

// done returns the past faults.
func (s *schedule) done() []struck { return s.over }

// strike begins a fault, waits for a random time, and ends the fault.
func (s *soak) strike(f fault, atMost time.Duration) {
	s.Helper()
	lasts := f.shortest
	if longest := min(f.longest, atMost); longest > f.shortest {
		lasts += time.Duration(s.faults.random.Int64N(int64(longest - f.shortest)))
	}
	s.Logf("%s %s for %v", time.Now().Format("15:04:05"), f.name, lasts.Round(100*time.Millisecond))
	// Wait for a leader, so that the fault has a target.
	s.awaitLeader(time.Time{})
	began := time.Now()
	if f.hinders {
		s.observer.with(func(c *invariants.Checker) { c.Pause(began) })
	}
	end, err := f.begin(s, rand.New(rand.NewPCG(s.faults.random.Uint64(), 0)))
	if err != nil {
		s.Fatalf("%s: %v", f.name, err)
	}
	s.pass(lasts)
	if err := end(); err != nil {
		s.Fatalf("%s: end it: %v", f.name, err)
	}
	ended := time.Now()
	s.awaitLeader(ended)
	if f.hinders {
		s.pass(catchUp)
		s.observer.with(func(c *invariants.Checker) { c.Resume(time.Now()) })
	}
	s.faults.over = append(s.faults.over, struck{name: f.name, took: ended.Sub(began)})
}

// ruled sets the rule for the calls of all replicas.
func (s *soak) ruled(rule slowapi.Rule) (end func() error) {
	for _, r := range s.replicas {
		r.set(rule)
	}
	return func() error {
		for _, r := range s.replicas {
			r.set(passThrough)
		}
		return nil
	}
}

func nothing() error { return nil }

func killLeader(s *soak, _ *rand.Rand) (func() error, error) {
	leader := s.awaitLeader(time.Time{})
	// The other replica must wait until the lease expires, or the same one starts again and leads.
	return nothing, leader.kill()
}

func stopAPIServer(s *soak, random *rand.Rand) (func() error, error) {
	signal := syscall.SIGTERM
	if random.IntN(2) == 0 {
		signal = syscall.SIGKILL
	}
	return s.stop(playground.APIServer, signal)
}

func stopEtcd(s *soak, _ *rand.Rand) (func() error, error) {
	return s.stop(playground.Etcd, syscall.SIGKILL)
}

// stop stops a component until the fault ends.
func (s *soak) stop(name string, signal syscall.Signal) (func() error, error) {
	component := s.Run.Component(name)
	return func() error { return component.Start(s.Context()) }, component.Kill(signal)
}

// cutWatches ends all watches, and half of the watches that begin during the fault.
func cutWatches(s *soak, random *rand.Rand) (func() error, error) {
	half := chance(random, 50)
	end := s.ruled(func(call slowapi.Call) slowapi.Answer {
		if call.Watch && half() {
			return slowapi.Answer{Refuse: http.StatusServiceUnavailable}
		}
		return slowapi.Answer{}
	})
	for _, r := range s.replicas {
		r.proxy.CutWatches()
	}
	return end, nil
}

// tooMany rejects most calls, like an overloaded API server. Calls for leases are exempt, as they
// have a priority level of their own on a real API server.
func tooMany(s *soak, random *rand.Rand) (func() error, error) {
	most := chance(random, 70)
	return s.ruled(func(call slowapi.Call) slowapi.Answer {
		if !isLease(call) && most() {
			return slowapi.Answer{Refuse: http.StatusTooManyRequests}
		}
		return slowapi.Answer{}
	}), nil
}

// chance returns a function that returns true in the given percentage of calls. It may be called
// from any goroutine.
func chance(random *rand.Rand, percent int) func() bool {
	var mu sync.Mutex
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(100) < percent
	}
}

// loseLease prevents the leader from renewing its lease. The leader works until it gives up, and
// the other replica takes over.
func loseLease(s *soak, _ *rand.Rand) (func() error, error) {
	leader := s.awaitLeader(time.Time{})
	leader.set(func(call slowapi.Call) slowapi.Answer {
		if isLease(call) {
			return slowapi.Answer{Refuse: http.StatusInternalServerError}
		}
		return slowapi.Answer{}
	})
	return func() error {
		leader.set(passThrough)
		return nil
	}, nil
}

// setClockBehind makes the second replica the leader, with a clock that is behind, and after the
// fault the first replica.
func setClockBehind(s *soak, _ *rand.Rand) (func() error, error) {
	first, second := s.replicas[0], s.replicas[1]
	if err := second.restartWith(s, clockBehind); err != nil {
		return nil, err
	}
	if err := s.handOver(first, second); err != nil {
		return nil, err
	}
	return func() error {
		second.down.Store(true)
		if err := second.kill(); err != nil {
			return err
		}
		s.awaitLeader(time.Now())
		return second.restartWith(s, 0)
	}, nil
}

// restartWith starts a replica again with a clock that is behind by the given time.
func (r *replica) restartWith(s *soak, behind time.Duration) error {
	r.down.Store(true)
	if err := r.kill(); err != nil {
		return err
	}
	r.proxy.SetBehind(behind)
	if err := r.component.Start(s.Context()); err != nil {
		return err
	}
	r.down.Store(false)
	return nil
}

// handOver makes one replica the leader and the other one the standby.
func (s *soak) handOver(from, to *replica) error {
	from.down.Store(true)
	defer from.down.Store(false)
	err := from.kill()
	s.Eventually(to.name+" leads", func(context.Context) string {
		if !to.leads(time.Now().Add(-leaseHeld)) {
			return "it has not taken the lease"
		}
		return ""
	})
	return errors.Join(err)
}
