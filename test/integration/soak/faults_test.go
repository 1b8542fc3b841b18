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

// clockBehind is the duration by which the clock of a scheduler is behind during one of the faults.
const clockBehind = time.Minute

// catchUp is the time that a new leader needs to list all objects. The checks are suspended during
// this time.
const catchUp = 3 * time.Second

// fault is a disturbance that lasts for some time.
type fault struct {
	name string
	// hinders is true if the scheduler cannot work during the fault. Then the checks of durations
	// are paused.
	hinders bool
	// endsLeader is true if the fault may end the leadership of the current leader.
	endsLeader bool
	// shortest and longest are the bounds of the fault's duration.
	shortest, longest time.Duration
	// begin begins the fault. It returns a function that ends the fault.
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

// struck is a fault that has happened, with its duration.
type struck struct {
	name string
	took time.Duration
}

// schedule selects the faults in a random order. All faults happen equally often.
type schedule struct {
	random *rand.Rand
	all    []fault
	left   []fault
	over   []struck
}

func newSchedule(random *rand.Rand) *schedule { return &schedule{random: random, all: faults()} }

// any returns the next fault.
func (s *schedule) any() fault { return s.next(func(fault) bool { return true }) }

// mild returns the next fault that does not end the leadership.
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

// done returns the faults that have happened.
func (s *schedule) done() []struck { return s.over }

// strike begins a fault, waits for a random time, and ends the fault. It lasts at most atMost.
func (s *soak) strike(f fault, atMost time.Duration) {
	s.Helper()
	lasts := f.shortest
	if longest := min(f.longest, atMost); longest > f.shortest {
		lasts += time.Duration(s.faults.random.Int64N(int64(longest - f.shortest)))
	}
	s.Logf("%s %s for %v", time.Now().Format("15:04:05"), f.name, lasts.Round(100*time.Millisecond))
	// Wait until a scheduler is the leader, because some faults affect the leader.
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

// ruled sets the proxy's rule for the calls of both schedulers. The returned function removes the
// rule.
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
	// Do not start the killed scheduler here. Either the other scheduler becomes the leader after
	// the Lease expires, or supervise restarts the killed scheduler, and it becomes the leader
	// again.
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

// stop stops a component of the control plane. The returned function starts it again.
func (s *soak) stop(name string, signal syscall.Signal) (func() error, error) {
	component := s.Run.Component(name)
	return func() error { return component.Start(s.Context()) }, component.Kill(signal)
}

// cutWatches ends all watches. During the fault, it also rejects half of the new watches.
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

// tooMany rejects most calls, like an overloaded API server. It permits the calls about Leases,
// because they have a separate priority level on a real API server.
func tooMany(s *soak, random *rand.Rand) (func() error, error) {
	most := chance(random, 70)
	return s.ruled(func(call slowapi.Call) slowapi.Answer {
		if !isLease(call) && most() {
			return slowapi.Answer{Refuse: http.StatusTooManyRequests}
		}
		return slowapi.Answer{}
	}), nil
}

// chance returns a function that returns true with a probability of percent. The function is safe
// for concurrent use.
func chance(random *rand.Rand, percent int) func() bool {
	var mu sync.Mutex
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(100) < percent
	}
}

// loseLease rejects the calls of the leader about its Lease. The leader continues to work until it
// gives up the leadership. Then the other scheduler becomes the leader.
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

// setClockBehind makes the second scheduler the leader, with a clock that is behind. At the end of
// the fault, the first scheduler becomes the leader again.
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

// restartWith kills a scheduler and starts it again, with a clock that is behind by a duration.
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

// handOver makes the scheduler "to" the leader, and the scheduler "from" the standby.
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
