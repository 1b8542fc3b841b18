package slowapi

import (
	"context"
	"sync"
)

// watches are the watches that began between two cuts.
type watches struct {
	// ctx is the context of the watches, and cut cancels it.
	ctx context.Context
	cut context.CancelFunc
	// underWay counts the watches.
	underWay *sync.WaitGroup
}

// newWatches returns an empty set of watches that end with ctx at the latest.
func newWatches(ctx context.Context) watches {
	ctx, cut := context.WithCancel(ctx)
	return watches{ctx: ctx, cut: cut, underWay: &sync.WaitGroup{}}
}

// CutWatches ends all watches under way, possibly in the middle of an event. It returns once they
// have ended, so they report no later event.
func (p *Proxy) CutWatches() {
	p.mu.Lock()
	cut := p.watching
	p.watching = newWatches(p.running)
	p.mu.Unlock()
	cut.cut()
	cut.underWay.Wait()
}

// lifeOf returns a context that ends when the proxy must end the call. The caller must call ended
// at the end of the call.
func (p *Proxy) lifeOf(call Call) (life context.Context, ended func()) {
	if !call.Watch {
		return p.running, func() {}
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	p.watching.underWay.Add(1)
	return p.watching.ctx, p.watching.underWay.Done
}
