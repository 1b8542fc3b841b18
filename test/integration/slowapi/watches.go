package slowapi

import "context"

// CutWatches ends all watches that are under way, in the middle of whatever they are saying.
func (p *Proxy) CutWatches() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
	p.watching, p.cut = context.WithCancel(p.running)
}

// lifeOf ends when a call is to end, whatever its caller does.
func (p *Proxy) lifeOf(call Call) context.Context {
	if !call.Watch {
		return p.running
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.watching
}
