package pacing

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// server simulates an API server with a number of workers and a fixed service time. A call waits
// while all workers are busy.
type server struct {
	workers  chan struct{}
	service  time.Duration
	answered atomic.Int64
	// here is the current number of calls, and most is the highest number so far.
	here, most atomic.Int64
	// turnsAway makes the server reject all calls because of overload.
	turnsAway atomic.Bool
}

func newServer(workers int, service time.Duration) *server {
	return &server{workers: make(chan struct{}, workers), service: service}
}

// call makes one call. It returns false if the server rejected the call.
func (s *server) call() bool {
	here := s.here.Add(1)
	defer s.here.Add(-1)
	for {
		if most := s.most.Load(); here <= most || s.most.CompareAndSwap(most, here) {
			break
		}
	}
	if s.turnsAway.Load() {
		return false
	}
	s.workers <- struct{}{}
	time.Sleep(s.service)
	<-s.workers
	s.answered.Add(1)
	return true
}

// client starts goroutines that make calls through a Limiter, one call after another, until ctx is
// done. The result counts the answered calls.
func client(ctx context.Context, l *Limiter, s *server, goroutines int, running *sync.WaitGroup) *atomic.Int64 {
	var done atomic.Int64
	for range goroutines {
		running.Go(func() {
			for ctx.Err() == nil {
				if l.Begin(ctx, Normal) != nil {
					return
				}
				start := time.Now()
				ok := s.call()
				l.End(Answer{Kind: "call", Took: time.Since(start), Refused: !ok})
				if ok {
					done.Add(1)
				} else {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	return &done
}

// rude starts goroutines that make calls without a Limiter until ctx is done. The result counts the
// calls.
func rude(ctx context.Context, s *server, goroutines int, running *sync.WaitGroup) *atomic.Int64 {
	var done atomic.Int64
	for range goroutines {
		running.Go(func() {
			for ctx.Err() == nil {
				s.call()
				done.Add(1)
			}
		})
	}
	return &done
}

// TestThroughput checks that the Limiter reaches the server's capacity without configuration.
func TestThroughput(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		workers int
		service time.Duration
		// wantMost is the maximum number of concurrent calls after the Limiter has adapted.
		wantMost int
	}{
		"a small one":            {workers: 2, service: 2 * time.Millisecond, wantMost: 24},
		"a large one":            {workers: 40, service: 2 * time.Millisecond, wantMost: maxCalls},
		"a slow one with room":   {workers: 100, service: 50 * time.Millisecond, wantMost: maxCalls},
		"one call after another": {workers: 1, service: time.Millisecond, wantMost: 16},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, l := newServer(c.workers, c.service), New(clock.RealClock{})
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				client(ctx, l, s, 300, &running)
				time.Sleep(5 * time.Second)
				before := s.answered.Load()
				s.most.Store(0)
				time.Sleep(10 * time.Second)
				rate := float64(s.answered.Load()-before) / 10
				if can := float64(c.workers) / c.service.Seconds(); rate < 0.95*can {
					t.Errorf("%.0f calls are answered a second, and %.0f could be", rate, can)
				}
				if most := int(s.most.Load()); most > c.wantMost {
					t.Errorf("%d calls are made at the same time, want %d at most", most, c.wantMost)
				}
				cancel()
				running.Wait()
			})
		})
	}
}

// TestYields checks that the Limiter yields to another client that keeps the server busy. When the
// other client stops, the Limiter must use the whole capacity again.
func TestYields(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, l := newServer(2, 2*time.Millisecond), New(clock.RealClock{})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		ours := client(ctx, l, s, 300, &running)
		time.Sleep(2 * time.Second)
		busy, rest := context.WithCancel(ctx)
		theirs := rude(busy, s, 30, &running)
		time.Sleep(5 * time.Second)
		beforeTheirs, beforeOurs := theirs.Load(), ours.Load()
		time.Sleep(10 * time.Second)
		shareTheirs := float64(theirs.Load()-beforeTheirs) / (10 * 2 / 0.002)
		if shareTheirs < 0.9 {
			t.Errorf("They have %.2f of what they would have alone", shareTheirs)
		}
		if ours.Load() == beforeOurs {
			t.Error("Nothing of ours is done")
		}
		rest()
		time.Sleep(3 * time.Second)
		beforeOurs = ours.Load()
		time.Sleep(5 * time.Second)
		if share := float64(ours.Load()-beforeOurs) / (5 * 2 / 0.002); share < 0.95 {
			t.Errorf("Afterwards we have %.2f of what we could", share)
		}
		cancel()
		running.Wait()
	})
}

// TestTurnedAway checks that an overloaded server gets few calls until the overload ends.
func TestTurnedAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, l := newServer(20, 2*time.Millisecond), New(clock.RealClock{})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		client(ctx, l, s, 300, &running)
		time.Sleep(2 * time.Second)
		s.turnsAway.Store(true)
		time.Sleep(time.Second)
		if got := l.Bound(); got != minCalls {
			t.Errorf("%d calls may be made at a time, want %d", got, minCalls)
		}
		s.turnsAway.Store(false)
		time.Sleep(5 * time.Second)
		before := s.answered.Load()
		time.Sleep(time.Second)
		if rate, can := float64(s.answered.Load()-before), 20/0.002; rate < 0.95*can {
			t.Errorf("Afterwards %.0f calls are answered a second, and %.0f could be", rate, can)
		}
		cancel()
		running.Wait()
	})
}

// TestSomeTurnedAway checks that a rejected call shrinks the bound if the call started in the
// current round. A rejected call that started earlier must have no effect.
func TestSomeTurnedAway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		took time.Duration
		want int
	}{
		"made in this round": {took: time.Millisecond, want: minCalls},
		"made before it":     {took: time.Second, want: startCalls},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := New(clock.RealClock{})
				end := func(a Answer) {
					if err := l.Begin(t.Context(), Normal); err != nil {
						t.Fatal(err)
					}
					l.End(a)
				}
				for range 10 {
					// One call of each round is rejected. The other calls are fast.
					time.Sleep(10 * time.Millisecond)
					end(Answer{Kind: "call", Took: c.took, Refused: true})
					for range 10 {
						time.Sleep(5 * time.Millisecond)
						end(Answer{Kind: "call", Took: time.Millisecond})
					}
				}
				if got := l.Bound(); got != c.want {
					t.Errorf("%d calls may be under way, want %d", got, c.want)
				}
			})
		})
	}
}

// TestOneKindIsSlow checks that the bound does not shrink if only one kind of call is slow, and
// that it does not grow because failed calls are fast.
func TestOneKindIsSlow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first Answer
		took  map[string]time.Duration
		want  int
	}{
		"one kind":          {took: map[string]time.Duration{"DELETE": 100 * time.Millisecond, "POST": time.Millisecond}, want: startCalls},
		"all kinds":         {took: map[string]time.Duration{"DELETE": 100 * time.Millisecond, "POST": 100 * time.Millisecond}, want: minCalls},
		"after one in vain": {first: Answer{Kind: "DELETE", Took: 100 * time.Microsecond, Untimed: true}, took: map[string]time.Duration{"DELETE": time.Millisecond}, want: startCalls},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := New(clock.RealClock{})
				call := func(a Answer) {
					if err := l.Begin(t.Context(), Normal); err != nil {
						t.Fatal(err)
					}
					l.End(a)
				}
				for kind := range c.took {
					call(Answer{Kind: kind, Took: time.Millisecond})
				}
				if c.first.Kind != "" {
					call(c.first)
				}
				for range 1000 {
					for kind, took := range c.took {
						call(Answer{Kind: kind, Took: took})
					}
					time.Sleep(10 * time.Millisecond)
				}
				if got := l.Bound(); got != c.want {
					t.Errorf("%d calls may be under way, want %d", got, c.want)
				}
			})
		})
	}
}

// TestSlowerForGood checks that the Limiter adapts to a server that has become slower permanently.
func TestSlowerForGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := New(clock.RealClock{})
		for _, took := range []time.Duration{time.Millisecond, 10 * time.Millisecond} {
			for end := time.Now().Add(2*memory + time.Minute); time.Now().Before(end); {
				if err := l.Begin(t.Context(), Normal); err != nil {
					t.Fatal(err)
				}
				time.Sleep(took)
				l.End(Answer{Kind: "call", Took: took})
			}
		}
		if got := l.fastest.see("call", time.Hour, time.Now()); got != 10*time.Millisecond {
			t.Errorf("Calls can be as fast as %v, it says", got)
		}
	})
}

// TestOrder checks that waiting calls start by class, then by arrival, and that less urgent calls
// are not passed over forever.
func TestOrder(t *testing.T) {
	t.Parallel()
	const urgent, normal, background = 40, 10, 6
	var want []Class
	add := func(class Class, times int) { want = append(want, slices.Repeat([]Class{class}, times)...) }
	for range 3 {
		add(Urgent, fair(Normal))
		add(Normal, 1)
	}
	add(Urgent, fair(Background)-len(want))
	add(Background, 1)
	// Six urgent calls have started since the last normal call. Two more may start before the next
	// normal call: the function fair allows eight.
	add(Urgent, 2)
	add(Normal, 1)
	add(Urgent, fair(Normal))
	add(Normal, 1)
	add(Urgent, 1)
	add(Normal, 5)
	add(Background, background-1)
	synctest.Test(t, func(t *testing.T) {
		l := New(clock.RealClock{})
		var mu sync.Mutex
		var begun []Class
		var places []int
		begin := func(class Class, place int) {
			if err := l.Begin(t.Context(), class); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			begun, places = append(begun, class), append(places, place)
		}
		for range startCalls {
			begin(Normal, 0)
		}
		var running sync.WaitGroup
		for class, many := range map[Class]int{Background: background, Normal: normal, Urgent: urgent} {
			for place := range many {
				running.Go(func() { begin(class, place) })
				synctest.Wait()
			}
		}
		for i := range startCalls + urgent + normal + background {
			mu.Lock()
			ends := begun[i]
			mu.Unlock()
			l.End(Answer{Class: ends, Untimed: true})
			synctest.Wait()
		}
		running.Wait()
		if got := begun[startCalls:]; !slices.Equal(got, want) {
			t.Errorf("They went %v, want %v", got, want)
		}
		next := make(map[Class]int)
		for i, class := range begun[startCalls:] {
			if place := places[startCalls+i]; place != next[class] {
				t.Errorf("Of class %v, the one that came as number %d went as number %d", class, place, next[class])
			}
			next[class]++
		}
	})
}

// TestBackgroundLeavesRoom checks that Background calls use only their part of the bound, and at
// least one call, even if there are no other calls.
func TestBackgroundLeavesRoom(t *testing.T) {
	t.Parallel()
	for bound, want := range map[float64]int{startCalls: startCalls / 4, minCalls: 1} {
		synctest.Test(t, func(t *testing.T) {
			l := New(clock.RealClock{})
			l.set(bound)
			var begun atomic.Int64
			var running sync.WaitGroup
			const many = startCalls
			for range many {
				running.Go(func() {
					if err := l.Begin(t.Context(), Background); err != nil {
						t.Error(err)
					}
					begun.Add(1)
				})
			}
			synctest.Wait()
			if got := int(begun.Load()); got != want {
				t.Errorf("%d of %v that may be under way are, want %d", got, bound, want)
			}
			if err := l.Begin(t.Context(), Urgent); err != nil {
				t.Error(err)
			}
			l.End(Answer{Class: Urgent, Untimed: true})
			for range many {
				l.End(Answer{Class: Background, Untimed: true})
				synctest.Wait()
			}
			running.Wait()
		})
	}
}

func (l *Limiter) isWaiting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isWaitedFor()
}

// TestGivenUp checks that a waiting call whose context ends does not count towards the bound, even
// if the call is started at the same moment.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	l := New(clock.RealClock{})
	for range startCalls {
		if err := l.Begin(t.Context(), Normal); err != nil {
			t.Fatal(err)
		}
	}
	why := errors.New("given up")
	var running sync.WaitGroup
	for range 1000 {
		ctx, cancel := context.WithCancelCause(t.Context())
		running.Go(func() {
			if err := l.Begin(ctx, Urgent); err == nil {
				l.End(Answer{Untimed: true})
			} else if !errors.Is(err, why) {
				t.Errorf("It ends with %v", err)
			}
		})
		for !l.isWaiting() {
			runtime.Gosched()
		}
		// cancel ends the wait. At the same moment, End may start the call.
		cancel(why)
		l.End(Answer{Untimed: true})
		if err := l.Begin(t.Context(), Normal); err != nil {
			t.Fatal(err)
		}
	}
	running.Wait()
	for range startCalls {
		l.End(Answer{Untimed: true})
	}
	if l.underway != 0 || l.isWaitedFor() {
		t.Errorf("%d calls are under way, and there are some that wait: %t", l.underway, l.isWaitedFor())
	}
}
