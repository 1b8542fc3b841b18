package slowapi

import (
	"context"
	"sync"
)

// watches are those that have begun between two cuts.
type watches struct {
	// ctx is what they live by, and cut ends them.
	ctx context.Context
	cut context.CancelFunc
	// underWay counts them.
	underWay *sync.WaitGroup
}

// newWatches are none yet, which end with ctx at the latest.
func newWatches(ctx context.Context) watches {
	ctx, cut := context.WithCancel(ctx)
	return watches{ctx: ctx, cut: cut, underWay: &sync.WaitGroup{}}
}

// CutWatches ends all watches that are under way, in the middle of whatever they are saying, and returns when they have ended:
// none of them tells of what happens afterwards.
func (p *Proxy) CutWatches() {
	p.mu.Lock()
	cut := p.watching
	p.watching = newWatches(p.running)
	p.mu.Unlock()
	cut.cut()
	cut.underWay.Wait()
}

// lifeOf ends when a call is to end, whatever its caller does. The function that it returns says that it has ended.
func (p *Proxy) lifeOf(call Call) (life context.Context, ended func()) {
	if !call.Watch {
		return p.running, func() {}
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	p.watching.underWay.Add(1)
	return p.watching.ctx, p.watching.underWay.Done
}
