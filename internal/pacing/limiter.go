package pacing

import (
	"context"
	"math"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Class is the urgency of a call. The most urgent waiting calls start first, and calls of one class
// start in the order of their arrival.
type Class int

const (
	// Urgent calls occupy or free room on nodes. Other work waits for them.
	Urgent Class = iota
	// Normal is the class of all other calls.
	Normal
	// Background calls only inform users. Events are an example.
	Background

	classes = int(Background) + 1
)

const (
	// minCalls and maxCalls are the lowest and highest bound, and startCalls is the initial one.
	minCalls, startCalls, maxCalls = 2, 16, 128
	// backlog is the highest slowness that does not shrink the bound. Slowness is the duration of
	// calls as a multiple of the shortest duration. Up to backlog, the process's own calls are the
	// likely cause, and the delay is harmless.
	backlog = 4
	// calm is the limit of slowness for growth: the bound grows only below that slowness.
	calm = 2.5
	// shrink is the factor that is applied to the bound when calls are too slow. refused is the
	// factor when the API server rejected calls because of overload.
	shrink, refused = 0.85, 0.5
	// round is the minimum time between two changes of the bound. It lets the effect of one change
	// show before the next.
	round = 50 * time.Millisecond
	// share is the part of the bound that Background calls may use. One such call is always
	// allowed.
	share = 0.25
)

// fair returns how many calls of other classes may start while a call of this class waits. After
// that many, a call of this class starts.
func fair(class Class) int { return [classes]int{Urgent: 0, Normal: 8, Background: 32}[class] }

// Limiter bounds the number of calls in flight. Create one with [New]. It is safe for concurrent
// use.
type Limiter struct {
	clock clock.PassiveClock
	// told is called with each new bound, while the lock is held.
	told func(calls int)

	mu sync.Mutex
	// bound is the number of calls that may be in flight. underway counts the calls in flight, and
	// telling counts the Background calls among them.
	bound             float64
	underway, telling int
	// waiting holds the calls that wait to start, by class. Closing a channel starts its call.
	waiting [classes][]chan struct{}
	// passed counts the calls of other classes that started in a row while calls of a class waited.
	passed [classes]int
	// fastest holds the shortest durations of calls without contention.
	fastest fastest
	// slowness averages the durations of this round's calls, as multiples of the shortest
	// durations, by kind.
	slowness map[string]mean
	answered int
	// full is true if the bound was reached in this round. turnedAway is true if the API server
	// rejected a call that started in this round.
	full, turnedAway bool
	// began is the start of this round.
	began time.Time
}

// Option configures a Limiter in [New].
type Option func(*Limiter)

// WithBoundTold sets a function that is called with the bound, at the start and after each change.
// The function must return at once, because the Limiter may be locked.
func WithBoundTold(told func(calls int)) Option { return func(l *Limiter) { l.told = told } }

// New returns a Limiter without calls in flight.
func New(clk clock.PassiveClock, options ...Option) *Limiter {
	l := &Limiter{clock: clk, began: clk.Now(), fastest: newFastest(clk.Now()), told: func(int) {}, slowness: make(map[string]mean)}
	for _, option := range options {
		option(l)
	}
	l.set(startCalls)
	return l
}

// set sets the bound, clamped to minCalls and maxCalls.
func (l *Limiter) set(bound float64) {
	l.bound = min(max(bound, minCalls), maxCalls)
	l.told(int(l.bound))
}

// Bound returns the number of calls that may be in flight now.
func (l *Limiter) Bound() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.bound)
}

// Begin waits until a call may start, or ctx is done. After a nil error, call [Limiter.End] exactly
// once.
func (l *Limiter) Begin(ctx context.Context, class Class) error {
	l.mu.Lock()
	if l.admits(class) {
		l.start(class)
		l.mu.Unlock()
		return nil
	}
	l.full = l.full || l.underway >= int(l.bound)
	turn := make(chan struct{})
	l.waiting[class] = append(l.waiting[class], turn)
	l.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-turn:
		// The call was admitted just as ctx ended. It will not be made, so admit another one.
		l.stop(class)
		l.letGo()
	default:
		l.forget(class, turn)
	}
	return context.Cause(ctx)
}

// admits reports whether another call of the class may start. Background calls leave most of the
// bound to more urgent calls that may arrive.
func (l *Limiter) admits(class Class) bool {
	return l.underway < int(l.bound) && (class != Background || l.telling < max(int(share*l.bound), 1))
}

func (l *Limiter) start(class Class) {
	l.underway++
	if class == Background {
		l.telling++
	}
}

func (l *Limiter) stop(class Class) {
	l.underway--
	if class == Background {
		l.telling--
	}
}

func (l *Limiter) forget(class Class, turn chan struct{}) {
	queue := l.waiting[class]
	for i := range queue {
		if queue[i] == turn {
			l.waiting[class] = append(queue[:i:i], queue[i+1:]...)
			return
		}
	}
}

// Answer describes the result of a call.
type Answer struct {
	// Class is the class that was passed to Begin.
	Class Class
	// Kind separates calls with different shortest durations, for example by verb.
	Kind string
	Took time.Duration
	// Refused is set if the API server rejected the call because of overload.
	Refused bool
	// Untimed is set if the duration is no evidence of the API server's speed, because the call
	// failed or was rejected.
	Untimed bool
}

// End records the result of a call that [Limiter.Begin] started.
func (l *Limiter) End(a Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	l.stop(a.Class)
	switch {
	case a.Refused:
		// A call that started before this round reflects an earlier bound. Ignore its rejection.
		l.turnedAway = l.turnedAway || !now.Add(-a.Took).Before(l.began)
	case !a.Untimed:
		l.slowness[a.Kind] = l.slowness[a.Kind].with(float64(a.Took) / float64(l.fastest.see(a.Kind, a.Took, now)))
		l.answered++
	}
	l.adapt(now)
	l.letGo()
}

// adapt changes the bound at the end of a round. A round ends once it is long enough and calls were
// answered or rejected in it.
func (l *Limiter) adapt(now time.Time) {
	if now.Sub(l.began) < round || l.answered < minCalls && !l.turnedAway {
		return
	}
	switch slowness := l.leastSlow(); {
	case l.turnedAway:
		l.set(l.bound * refused)
	case slowness > backlog:
		l.set(l.bound * shrink)
	case slowness < calm && l.full:
		// The increment is at least 1, so a low bound doubles sooner.
		l.set(l.bound + max(1, l.bound/8))
	}
	l.nextRound(now)
}

// mean accumulates an average.
type mean struct {
	sum   float64
	count int
}

func (m mean) with(v float64) mean { return mean{sum: m.sum + v, count: m.count + 1} }

// leastSlow returns the lowest average slowness among the kinds of calls in this round. An
// overloaded API server is slow for all kinds. If only one kind is slow, something else delays it,
// such as a webhook.
func (l *Limiter) leastSlow() float64 {
	least := math.Inf(1)
	for _, m := range l.slowness {
		least = min(least, m.sum/float64(m.count))
	}
	return least
}

func (l *Limiter) nextRound(now time.Time) {
	l.began, l.answered, l.turnedAway = now, 0, false
	clear(l.slowness)
	l.full = l.isWaitedFor()
}

func (l *Limiter) isWaitedFor() bool {
	for _, queue := range l.waiting {
		if len(queue) > 0 {
			return true
		}
	}
	return false
}

// letGo starts as many waiting calls as the bound permits.
func (l *Limiter) letGo() {
	for {
		class, ok := l.next()
		if !ok {
			return
		}
		turn := l.waiting[class][0]
		l.waiting[class] = l.waiting[class][1:]
		l.start(class)
		close(turn)
	}
}

// next returns the class of the call that starts next. This is the most urgent class with waiting
// calls, unless a less urgent class has waited long enough; see fair.
func (l *Limiter) next() (next Class, ok bool) {
	for class := range Class(classes) {
		switch {
		case len(l.waiting[class]) == 0:
			l.passed[class] = 0
		case l.admits(class) && (!ok || l.passed[class] >= fair(class)):
			next, ok = class, true
		}
	}
	if !ok {
		return 0, false
	}
	l.passed[next] = 0
	for class := range Class(classes) {
		if class != next && len(l.waiting[class]) > 0 {
			l.passed[class]++
		}
	}
	return next, true
}
