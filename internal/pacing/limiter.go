package pacing

import (
	"context"
	"math"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Class is how urgent a call is. Of those that wait, the most urgent goes first, in the order of arrival among equals.
type Class int

const (
	// Urgent calls make room or take it: others wait until they are made.
	Urgent Class = iota
	// Normal are all other calls.
	Normal
	// Background calls only tell people what has happened.
	Background

	classes = int(Background) + 1
)

const (
	// minCalls and maxCalls bound how many calls may be under way, startCalls is how many may at first.
	minCalls, startCalls, maxCalls = 2, 16, 128
	// backlog is how many times as long as they can calls may take before fewer are made at a time. Up to there, that is
	// mostly their own doing, and does no harm.
	backlog = 4
	// calm is the same for making more.
	calm = 2.5
	// shrink is what is left of the bound where calls take too long, and refused where the API server has turned some away.
	shrink, refused = 0.85, 0.5
	// round is the least time between two changes of the bound, so that what came of one is known before the next.
	round = 50 * time.Millisecond
	// share is what part of the calls under way may be of those that only tell, as long as there are two or more.
	share = 0.25
)

// fair is how many calls go before one that waits, of each class, until it goes all the same.
func fair(class Class) int { return [classes]int{Urgent: 0, Normal: 8, Background: 32}[class] }

// Limiter bounds how many calls are under way. Make one with [New]. It is safe for concurrent use.
type Limiter struct {
	clock clock.PassiveClock
	// told is called with each new bound, under the lock.
	told func(calls int)

	mu sync.Mutex
	// bound is how many calls may be under way, underway how many are, and telling how many of those are in the background.
	bound             float64
	underway, telling int
	// waiting are the calls that may not be made yet, by class; a channel is closed to let one go.
	waiting [classes][]chan struct{}
	// passed is how many calls in a row have gone before those of a class that wait.
	passed [classes]int
	// fastest is how long calls take when nothing is in their way.
	fastest fastest
	// slowness is how many times as long as they can the calls of this round took, by kind.
	slowness map[string]mean
	answered int
	// full is set if the bound has been reached in this round, and turnedAway if a call was refused that was made in it.
	full, turnedAway bool
	// began is when this round did.
	began time.Time
}

// Option changes a Limiter that is being made.
type Option func(*Limiter)

// WithBoundTold has a function be told how many calls may be under way, now and whenever that changes. It must return at once.
func WithBoundTold(told func(calls int)) Option { return func(l *Limiter) { l.told = told } }

// New returns a Limiter that no call has been made with.
func New(clk clock.PassiveClock, options ...Option) *Limiter {
	l := &Limiter{clock: clk, began: clk.Now(), fastest: newFastest(clk.Now()), told: func(int) {}, slowness: make(map[string]mean)}
	for _, option := range options {
		option(l)
	}
	l.set(startCalls)
	return l
}

// set moves the bound, within its own bounds.
func (l *Limiter) set(bound float64) {
	l.bound = min(max(bound, minCalls), maxCalls)
	l.told(int(l.bound))
}

// Bound is how many calls may be under way now.
func (l *Limiter) Bound() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.bound)
}

// Begin waits until a call may be made, or ctx is done. After a nil error, call [Limiter.End] exactly once.
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
		// It was let go at the same moment, and will not go.
		l.stop(class)
		l.letGo()
	default:
		l.forget(class, turn)
	}
	return context.Cause(ctx)
}

// admits reports whether one more call may be under way. What only tells of things leaves most of the bound to what may come meanwhile.
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

// Answer is what has come of a call.
type Answer struct {
	// Class is that with which it was begun.
	Class Class
	// Kind tells calls apart that take different times at best: a verb, say.
	Kind string
	Took time.Duration
	// Refused is set if the API server has said that it has too much to do.
	Refused bool
	// Untimed is set if how long it took says nothing, because it has failed before it was answered.
	Untimed bool
}

// End records what has come of a call that [Limiter.Begin] has let go.
func (l *Limiter) End(a Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	l.stop(a.Class)
	switch {
	case a.Refused:
		// One that was made before this round went by what was not known yet.
		l.turnedAway = l.turnedAway || !now.Add(-a.Took).Before(l.began)
	case !a.Untimed:
		l.slowness[a.Kind] = l.slowness[a.Kind].with(float64(a.Took) / float64(l.fastest.see(a.Kind, a.Took, now)))
		l.answered++
	}
	l.adapt(now)
	l.letGo()
}

// adapt moves the bound once a round is over in which calls were refused, or enough of them answered.
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
		// The lower the bound, the sooner it has doubled.
		l.set(l.bound + max(1, l.bound/8))
	}
	l.nextRound(now)
}

// mean is an average in the making.
type mean struct {
	sum   float64
	count int
}

func (m mean) with(v float64) mean { return mean{sum: m.sum + v, count: m.count + 1} }

// leastSlow is how slow the calls of this round were of the kind that was least so. One that has too much to do is slow with all
// of them; where only one kind is, something else holds that up, such as a webhook.
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

// letGo lets as many calls go as may be under way.
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

// next is the class of the call that goes next: the most urgent, but now and then a less urgent one.
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
