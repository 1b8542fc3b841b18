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
	// shortestRun is the least duration. It leaves time for a calm at the end and for faults before
	// it.
	shortestRun = 90 * time.Second
	// calmFor is somewhat longer than the longest permitted wait of work that could run.
	calmFor = 38 * time.Second
	// restFor is the time without new work before levels are measured.
	restFor = 8 * time.Second
	// calmEvery is the longest time with work between two calms.
	calmEvery = 6 * time.Minute
	// faultEvery is the interval between faults in a long run; in a short run they are more
	// frequent.
	faultEvery = 30 * time.Second
	// faultsAtLeast is the number of faults in a short run. A fault lasts at most the run's
	// duration divided by longestPart.
	faultsAtLeast, longestPart = 6, 20
)

// soak is one run.
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

// TestSoak runs schedulers through faults, and checks the guarantees of Reprieve.
func TestSoak(t *testing.T) {
	t.Parallel()
	if *soakDuration < shortestRun {
		t.Fatalf("-soak-duration is %v, it must be %v or more", *soakDuration, shortestRun)
	}
	t.Logf("seed %d, %v: -soak-seed and -soak-duration have it run again", *soakSeed, *soakDuration)
	s := newSoak(t)
	began := time.Now()
	end := began.Add(*soakDuration)
	// In the second half of the run, the leader stays, so that its caches fill. In the last third,
	// its levels can be compared with earlier ones.
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

// work runs work and faults until a time, with calms in between.
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

// goesOn reports whether there is time for one more fault. It ends the test after an error that
// cannot be recovered.
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

// pass waits, and reports violations meanwhile.
func (s *soak) pass(d time.Duration) {
	s.Helper()
	if d <= 0 {
		return
	}
	s.during(d, func(context.Context) { s.show() })
}

// during calls look every second for a period.
func (s *soak) during(d time.Duration, look func(context.Context)) {
	ctx, cancel := context.WithTimeout(s.Context(), d)
	defer cancel()
	// The poll ends with the period, which is no error here.
	_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		look(ctx)
		return false, nil
	})
}

// calm creates and deletes nothing for a while. Work that could run has to run.
func (s *soak) calm() {
	s.Helper()
	s.awaitSettled()
	s.observer.with(func(c *invariants.Checker) { c.BeginCalm() })
	s.pass(calmFor)
	s.observer.with(func(c *invariants.Checker) { c.EndCalm() })
	s.show()
}

// awaitSettled waits until the driver's deletions are complete and its jobs have all their pods.
// Nothing is created or deleted after that.
func (s *soak) awaitSettled() {
	s.Helper()
	s.driver.turnTo(settling)
	s.tenant.rest()
	s.Eventually("the work of the hostile tenant is gone", func(context.Context) string { return s.tenant.unsettled() })
	s.Eventually("the driver's jobs are whole or gone", func(context.Context) string { return s.driver.unsettled() })
	s.driver.turnTo(still)
}

// show reports the violations since the last call as errors of the test.
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
