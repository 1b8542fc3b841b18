package soak

import (
	"context"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/soak/invariants"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

var (
	soakDuration = flag.Duration("soak-duration", 105*time.Second, "for how long TestSoak has work and faults come; at least 90s")
	soakSeed     = flag.Uint64("soak-seed", 1, "what work and faults of TestSoak are picked by")
	soakReport   = flag.String("soak-report", "", "page that TestSoak writes its report into; empty for none")
)

const (
	// shortestRun is the shortest permitted duration of a run. It has time for several faults, and
	// for a calm at the end.
	shortestRun = 90 * time.Second
	// calmFor is the duration of a calm (see the method calm). It exceeds Bounds.Forgotten, so that
	// a calm can show forgotten work.
	calmFor = 38 * time.Second
	// restFor is the duration without new work before a measurement.
	restFor = 8 * time.Second
	// calmEvery is the longest time between two calms.
	calmEvery = 6 * time.Minute
	// faultEvery is the interval between faults in a long run. In a short run, faults are more
	// frequent.
	faultEvery = 30 * time.Second
	// faultsAtLeast is the least number of faults in a run. The duration of a fault is at most the
	// duration of the run divided by longestPart.
	faultsAtLeast, longestPart = 6, 20
)

// soak is a run of the endurance test.
type soak struct {
	*stage.Stage

	replicas []*replica
	observer *observer
	driver   *driver
	tenant   *tenant
	faults   *schedule
	// shown is the number of violations that have been reported as errors of the test.
	shown int
}

// TestSoak runs two schedulers while faults happen, and checks the guarantees of Reprieve.
func TestSoak(t *testing.T) {
	t.Parallel()
	if *soakDuration < shortestRun {
		t.Fatalf("-soak-duration is %v, it must be %v or more", *soakDuration, shortestRun)
	}
	t.Logf("seed %d, %v: -soak-seed and -soak-duration have it run again", *soakSeed, *soakDuration)
	s := newSoak(t)
	began := time.Now()
	end := began.Add(*soakDuration)
	// The first half has all faults. After that, only faults that do not end the leader happen, so
	// that one scheduler stays the leader and its caches can fill. The first measurement is at the
	// start of the last third.
	secondHalf, lastThird := end.Add(-calmFor-(*soakDuration-calmFor)/2), end.Add(-calmFor-(*soakDuration-calmFor)/3)
	s.work(secondHalf, s.faults.any)
	s.work(lastThird, s.faults.mild)
	first := s.measure("first")
	s.work(end.Add(-calmFor), s.faults.mild)
	s.calm()
	last := s.measure("last")
	s.compare(first, last)
	r := report{
		seed: *soakSeed, duration: time.Since(began), began: began, counts: s.counts(), violations: s.violations(), faults: s.faults.done(), deeds: s.tenant.deedsDone(),
		first: first, last: last, exits: s.exits(),
	}
	t.Log("\n" + r.String())
	if *soakReport != "" {
		if err := r.writeInto(*soakReport); err != nil {
			t.Error(err)
		}
	}
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	st := stage.New(t, playground.Options{Scheduler: playground.SchedulerOptions{Path: playground.NoScheduler}})
	s := &soak{Stage: st}
	s.observer = observe(t, st.Run)
	s.driver = newDriver(st, s.observer, rand.New(rand.NewPCG(*soakSeed, 1)))
	s.driver.furnish()
	s.tenant = newTenant(st, s.observer, rand.New(rand.NewPCG(*soakSeed, 3)))
	s.faults = newSchedule(rand.New(rand.NewPCG(*soakSeed, 2)))
	s.replicas = []*replica{newReplica(st, "one", ""), newReplica(st, "two", "application/json")}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, r := range s.replicas {
		running.Go(func() { r.supervise(ctx) })
	}
	running.Go(func() { s.driver.run(ctx) })
	running.Go(func() { s.tenant.run(ctx) })
	running.Go(func() { s.observer.tick(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
		for _, r := range s.replicas {
			r.stop()
		}
	})
	return s
}

// work runs work and faults until the given time, with calms between them.
func (s *soak) work(until time.Time, pick func() fault) {
	s.Helper()
	every := min(faultEvery, (*soakDuration-calmFor)/faultsAtLeast)
	calmed := time.Now()
	s.driver.turnTo(working)
	s.tenant.act()
	for s.goesOn(until, every) {
		if time.Since(calmed) > calmEvery {
			s.calm()
			s.driver.turnTo(working)
			s.tenant.act()
			calmed = time.Now()
		}
		begin := time.Now()
		f := pick()
		s.strike(f, *soakDuration/longestPart)
		s.pass(min(every-time.Since(begin), time.Until(until)))
	}
	s.pass(time.Until(until))
	s.driver.turnTo(still)
	s.tenant.rest()
}

// goesOn reports whether there is enough time for another fault. The test ends if the observer or
// the playground has failed.
func (s *soak) goesOn(until time.Time, every time.Duration) bool {
	s.Helper()
	s.show()
	if err := s.observer.failure(); err != nil {
		s.Fatal(err)
	}
	if err := s.Run.Err(); err != nil {
		s.Fatal(err)
	}
	return time.Until(until) > every/2
}

// pass waits for a duration, and reports violations that occur.
func (s *soak) pass(d time.Duration) {
	s.Helper()
	if d <= 0 {
		return
	}
	s.during(d, func(context.Context) { s.show() })
}

// during calls look every second for a duration.
func (s *soak) during(d time.Duration, look func(context.Context)) {
	ctx, cancel := context.WithTimeout(s.Context(), d)
	defer cancel()
	// Ignore the error. It only reports the end of the duration.
	_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		look(ctx)
		return false, nil
	})
}

// calm runs a calm: nothing is created or deleted for some time. Work with room must be placed
// during this time.
func (s *soak) calm() {
	s.Helper()
	s.awaitSettled()
	s.observer.with(func(c *invariants.Checker) { c.BeginCalm() })
	s.pass(calmFor)
	s.observer.with(func(c *invariants.Checker) { c.EndCalm() })
	s.show()
}

// awaitSettled waits until all deletions are complete and all jobs have their pods. Then it stops
// the driver and the tenant.
func (s *soak) awaitSettled() {
	s.Helper()
	s.driver.turnTo(settling)
	s.tenant.rest()
	s.Eventually("the work of the hostile tenant is gone", func(context.Context) string { return s.tenant.unsettled() })
	s.Eventually("the driver's jobs are whole or gone", func(context.Context) string { return s.driver.unsettled() })
	s.driver.turnTo(still)
}

// show reports the violations since its last call as errors of the test.
func (s *soak) show() {
	s.Helper()
	all := s.violations()
	for _, v := range all[s.shown:] {
		s.Errorf("BROKEN %v", v)
	}
	s.shown = len(all)
}

func (s *soak) violations() (out []invariants.Violation) {
	s.observer.with(func(c *invariants.Checker) { out = append(out, c.Violations()...) })
	return out
}

func (s *soak) counts() (out invariants.Counts) {
	s.observer.with(func(c *invariants.Checker) { out = c.Counts() })
	return out
}

func (s *soak) exits() int64 {
	sum := int64(0)
	for _, r := range s.replicas {
		sum += r.exits.Load()
	}
	return sum
}
