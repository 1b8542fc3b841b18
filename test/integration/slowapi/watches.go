package slowapi

import (
	"context"
	"sync"
)

// watches is a set of watches that end together.
type watches struct {
	// ctx is the context of all watches in the set. cut cancels it.
	ctx context.Context
	cut context.CancelFunc
	// underWay counts the running watches of the set.
	underWay *sync.WaitGroup
}

// newWatches returns an empty set. Its watches end at the latest when ctx ends.
func newWatches(ctx context.Context) watches {
	ctx, cut := context.WithCancel(ctx)
	return watches{ctx: ctx, cut: cut, underWay: &sync.WaitGroup{}}
}

// CutWatches ends all running watches, possibly in the middle of an event. When it returns, these
// watches deliver no more events.
func (p *Proxy) CutWatches() {
	p.mu.Lock()
	cut := p.watching
	p.watching = newWatches(p.running)
	p.mu.Unlock()
	cut.cut()
	cut.underWay.Wait()
}

// lifeOf returns a context that is canceled when the proxy must end the call. The caller must call
// the function ended when the call is complete.
func (p *Proxy) lifeOf(call Call) (life context.Context, ended func()) {
	if !call.Watch {
		return p.running, func() {}
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	p.watching.underWay.Add(1)
	return p.watching.ctx, p.watching.underWay.Done
}
