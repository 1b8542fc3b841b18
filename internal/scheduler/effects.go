package scheduler

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/logging"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// stepper reports events to the engine, and carries out their effects by apply. All components
// share it. It is safe for concurrent use.
type stepper struct {
	index  *cluster.Index
	engine *engine.Engine
	clock  clock.WithTicker
	// apply carries out an effect. It is the only call from a component to later ones.
	apply func(engine.Effect)

	// postponed holds the effects of events that were reported under the lock of the scheduler's
	// queue.
	postponed postponedEffects
}

// step reports an event to the engine, and applies the effects that it returns. PreEnqueue and
// queueing hints must use stepUnderLock instead, because they run under the queue's lock.
func (s *stepper) step(ev engine.Event) []engine.Effect {
	effects := s.engine.Step(s.clock.Now(), ev)
	for _, effect := range effects {
		s.apply(effect)
	}
	return effects
}

// stepUnderLock is like step, for callers under the lock of the scheduler's queue. The main loop
// applies the effects later.
func (s *stepper) stepUnderLock(ev engine.Event) {
	if effects := s.engine.Step(s.clock.Now(), ev); len(effects) > 0 {
		s.postponed.add(effects)
		s.engine.Look()
	}
}

// postponedEffects collects effects for the main loop. The zero value is ready to use. It is safe
// for concurrent use.
type postponedEffects struct {
	mu      sync.Mutex
	effects []engine.Effect
}

func (p *postponedEffects) add(effects []engine.Effect) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.effects = append(p.effects, effects...)
}

// take returns the collected effects and clears them.
func (p *postponedEffects) take() []engine.Effect {
	p.mu.Lock()
	defer p.mu.Unlock()
	effects := p.effects
	p.effects = nil
	return effects
}

// apply carries out one effect of an event.
func (h *Scheduler) apply(effect engine.Effect) {
	switch effect := effect.(type) {
	case engine.Retry:
		logging.Of(context.Background(), effect.Key).V(6).Info("Retry")
		h.retries.requeue(effect.Key)
	case engine.Review:
		h.releases.review(effect.Key)
	case engine.Overdue:
		h.departures.overdue(effect.Key)
	case engine.Withdraw:
		pods := make([]*corev1.Pod, len(effect.Rooms))
		for i, r := range effect.Rooms {
			pods[i] = cluster.PodIn(r)
		}
		h.releases.withdraw(pods)
		h.steps.step(engine.RoomFreed(effect))
	case engine.UsageDrops:
		// The released room counted as usage of its queue, so workloads at that limit may fit now.
		h.retries.atLimit(h.quotas.LimitsOn(effect.Queues...))
	}
}

// retriedBy returns the workloads that the effects of an event retry.
func retriedBy(effects []engine.Effect) (keys []workload.Key) {
	for _, effect := range effects {
		if retry, ok := effect.(engine.Retry); ok {
			keys = append(keys, retry.Key)
		}
	}
	return keys
}
