package scheduler

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// shownPromises are promises that the framework shows when the cycle is over that they were made in. A promise that is taken
// back before then would be shown for good, so they are looked at once more. The zero value is ready to use, and safe for
// concurrent use.
type shownPromises struct {
	mu     sync.Mutex
	recent []shownPromise
}

type shownPromise struct {
	key workload.Key
	pod *corev1.Pod
	// over is closed when the framework has written what came of the cycle.
	over <-chan struct{}
	// ended is set when it is taken back before that.
	ended bool
}

func (s *shownPromises) add(ctx context.Context, key workload.Key, pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent = append(s.recent, shownPromise{key: key, pod: pod, over: ctx.Done()})
}

// end records that a promise is taken back. Once its cycle is over, that is all there is to do.
func (s *shownPromises) end(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.recent {
		if shown := &s.recent[i]; shown.pod.UID == uid && !shown.isOver() {
			shown.ended = true
		}
	}
}

// ended takes out those whose cycle is over, and returns those of them that had ended by then.
func (s *shownPromises) ended() []shownPromise {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ended, rest []shownPromise
	for _, shown := range s.recent {
		switch {
		case !shown.isOver():
			rest = append(rest, shown)
		case shown.ended:
			ended = append(ended, shown)
		}
	}
	s.recent = rest
	return ended
}

func (s *shownPromise) isOver() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// show has the framework say at the end of a cycle where the pod in it is expected, and nowhere if that is "".
func (p *Plugin) show(ctx context.Context, key workload.Key, pod *corev1.Pod, node string) *fwk.PostFilterResult {
	if node != "" {
		p.hub.shown.add(ctx, key, pod)
		if !p.hub.reserved.Has(pod.UID) {
			p.hub.shown.end(pod.UID)
		}
		if p.hub.inflates(pod) {
			// The framework would take it for more than it is. Its reservation keeps the room, the evictor tells the API.
			return nil
		}
	}
	return framework.NewPostFilterResultWithNominatedNode(node)
}

// reviewShown takes back what is shown of promises that had ended before the framework showed them, and has their pods try
// again: one that was in its cycle did not hear of it.
func (h *Hub) reviewShown() {
	for _, shown := range h.shown.ended() {
		if h.assumed.has(shown.pod.UID) || h.reserved.Has(shown.pod.UID) || !h.awaitsPlace(shown.pod) {
			continue
		}
		(&bookkeeper{h}).Withdraw([]*corev1.Pod{shown.pod})
		if len(h.reserved.Of(shown.key)) > 0 || h.waits.Evicting(shown.key) {
			continue
		}
		h.waits.ResolveVictims(shown.key)
		h.wake(shown.key)
	}
}
