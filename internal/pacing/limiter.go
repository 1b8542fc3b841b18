package pacing

import (
	"context"
	"math"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Class is the urgency of a call. Waiting calls of a more urgent class start first. Calls of one
// class start in the order of arrival.
type Class int

const (
	// Urgent is the class of calls that occupy or free room on nodes. Other work waits for that
	// room.
	Urgent Class = iota
	// Normal is the class of all other calls.
	Normal
	// Background is the class of calls that only inform users, such as events.
	Background

	classes = int(Background) + 1
)

const (
	// minCalls and maxCalls are the limits of the bound. startCalls is the initial bound.
	minCalls, startCalls, maxCalls = 2, 16, 128
	// backlog is the highest slowness that does not shrink the bound. Slowness is the duration of a
	// call divided by the shortest duration of its kind. Up to this slowness, the cause is probably
	// the process's own concurrent calls, and the delay is harmless.
	backlog = 4
	// calm limits the growth of the bound: the bound grows only while the slowness is lower than
	// calm.
	calm = 2.5
	// shrink is the factor for the bound when calls are too slow. refused is the factor when the
	// API server rejected calls because of overload.
	shrink, refused = 0.85, 0.5
	// round is the minimum time between two changes of the bound, so that each change can take
	// effect before the next.
	round = 50 * time.Millisecond
	// share is the part of the bound that Background calls may use. At least one such call may
	// always be in flight.
	share = 0.25
)

// fair returns the number of calls of other classes that may start in a row while a call of this
// class waits. Then a call of this class starts.
func fair(class Class) int { return [classes]int{Urgent: 0, Normal: 8, Background: 32}[class] }

// Limiter bounds the number of calls in flight. Use [New] to create one. It is safe for concurrent
// use.
type Limiter struct {
	clock clock.PassiveClock
	// told is called with each new bound, while mu may be locked.
	told func(calls int)

	mu sync.Mutex
	// bound is the maximum number of calls in flight. Its fraction is ignored until it reaches the
	// next whole number.
	bound float64
	// underway is the number of calls in flight. telling is the number of Background calls among
	// them.
	underway, telling int
	// waiting holds the waiting calls of each class in the order of arrival. Closing a call's
	// channel starts the call.
	waiting [classes][]chan struct{}
	// passed has a number for each class with a waiting call: the calls of other classes that have
	// started in a row meanwhile.
	passed [classes]int
	// fastest holds the shortest duration of each kind of call.
	fastest fastest
	// slowness maps a kind of call to the average slowness of this round's calls.
	slowness map[string]mean
	// answered is the number of calls in slowness.
	answered int
	// full is true if the bound was reached in this round. turnedAway is true if the API server
	// rejected a call that started in this round.
	full, turnedAway bool
	// began is the start of this round.
	began time.Time
}

// Option configures a Limiter in [New].
type Option func(*Limiter)

// WithBoundTold sets a function that is called with the initial bound and after each change. The
// function must return at once and must not call the Limiter, which may be locked.
func WithBoundTold(told func(calls int)) Option { return func(l *Limiter) { l.told = told } }

// New returns a Limiter without calls in flight. clk measures the rounds.
func New(clk clock.PassiveClock, options ...Option) *Limiter {
	l := &Limiter{clock: clk, began: clk.Now(), fastest: newFastest(clk.Now()), told: func(int) {}, slowness: make(map[string]mean)}
	for _, option := range options {
		option(l)
	}
	l.set(startCalls)
	return l
}

// set sets the bound, limited to the range from minCalls to maxCalls.
func (l *Limiter) set(bound float64) {
	l.bound = min(max(bound, minCalls), maxCalls)
	l.told(int(l.bound))
}

// Bound returns the current maximum number of calls in flight.
func (l *Limiter) Bound() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.bound)
}

// Begin waits until a call may start, or until ctx is done. If it returns nil, call [Limiter.End]
// exactly once.
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
		// The limiter let the call go just as ctx ended, so the caller will not make the call. Let
		// another call go instead.
		l.stop(class)
		l.letGo()
	default:
		l.forget(class, turn)
	}
	return context.Cause(ctx)
}

// admits reports whether another call of the class may start. Background calls may use only a part
// of the bound, so that more urgent calls can start at once.
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
	// Class is the class of the call, as passed to Begin.
	Class Class
	// Kind groups calls with similar durations, such as all updates of pods.
	Kind string
	// Took is the duration of the call.
	Took time.Duration
	// Refused is true if the API server rejected the call because of overload.
	Refused bool
	// Untimed is true if the duration shows nothing about the API server's speed, because the call
	// failed or was rejected.
	Untimed bool
}

// End records the end of a call that [Limiter.Begin] allowed.
func (l *Limiter) End(a Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	l.stop(a.Class)
	switch {
	case a.Refused:
		// Ignore the rejection of a call that started before this round, because another bound
		// applied at that time.
		l.turnedAway = l.turnedAway || !now.Add(-a.Took).Before(l.began)
	case !a.Untimed:
		l.slowness[a.Kind] = l.slowness[a.Kind].with(float64(a.Took) / float64(l.fastest.see(a.Kind, a.Took, now)))
		l.answered++
	}
	l.adapt(now)
	l.letGo()
}

// adapt changes the bound at the end of a round. A round ends when it has lasted long enough and
// calls were answered or rejected in it.
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
		// The bound grows by at least 1, so that a low bound grows fast enough.
		l.set(l.bound + max(1, l.bound/8))
	}
	l.nextRound(now)
}

type mean struct {
	sum   float64
	count int
}

func (m mean) with(v float64) mean { return mean{sum: m.sum + v, count: m.count + 1} }

// leastSlow returns the lowest average slowness of a kind of call in this round. An overloaded API
// server is slow for all kinds. If only one kind is slow, the cause is not overload but, for
// example, a webhook.
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

// letGo starts waiting calls until the bound is reached.
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

// next returns the class of the call to start next. This is the most urgent class with waiting
// calls, unless a less urgent class has been passed over too often. The function fair has the
// limits.
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
