package eviction

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

// nominator keeps status.nominatedNodeName of pending pods as the scheduler says it last. Several goroutines
// may have something to write about the same pod; whoever comes to it writes what was announced last.
type nominator struct {
	pods  kubernetes.Interface
	clock clock.PassiveClock

	mu    sync.Mutex
	slots map[types.UID]*slot
}

// memory is how long the nominator trusts what it wrote itself over what the scheduler knows of a pod, which
// lags behind.
const memory = time.Minute

// slot is what is known of one pod's nomination.
type slot struct {
	// writing is held during a call, so that calls for one pod come one after the other.
	writing sync.Mutex

	// The rest is guarded by the nominator's lock.

	// wanted is the node that was announced last.
	wanted string
	// written is what the API says, as far as this process has had a hand in it.
	written string
	// users are the claims that have not been written; used is when the last was.
	users int
	used  time.Time
}

// claim is an announced nomination that the API may not know of.
type claim struct {
	pod  *corev1.Pod
	slot *slot
}

// announce takes note of nominations, and returns those that have to be written. It makes no call.
func (n *nominator) announce(nominations []scheduler.Nomination) []claim {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.clock.Now()
	maps.DeleteFunc(n.slots, func(_ types.UID, s *slot) bool { return s.users == 0 && now.Sub(s.used) > memory })
	var claims []claim
	for _, nomination := range nominations {
		s, ok := n.slots[nomination.Pod.UID]
		if !ok {
			if nomination.Pod.Status.NominatedNodeName == nomination.Node {
				continue
			}
			s = &slot{written: nomination.Pod.Status.NominatedNodeName}
			if n.slots == nil {
				n.slots = make(map[types.UID]*slot)
			}
			n.slots[nomination.Pod.UID] = s
		}
		s.wanted, s.used = nomination.Node, now
		if nomination.ByFramework {
			s.written = nomination.Node
			continue
		}
		if s.written != s.wanted || s.users > 0 {
			s.users++
			claims = append(claims, claim{pod: nomination.Pod, slot: s})
		}
	}
	return claims
}

// write makes the API say what was announced last.
func (n *nominator) write(ctx context.Context, c claim) error {
	c.slot.writing.Lock()
	defer c.slot.writing.Unlock()
	n.mu.Lock()
	node, done := c.slot.wanted, c.slot.written == c.slot.wanted
	n.mu.Unlock()
	var err error
	if !done {
		// Null takes the field away.
		status := map[string]any{"nominatedNodeName": nil}
		if node != "" {
			status["nominatedNodeName"] = node
		}
		err = patchStatus(ctx, n.pods, c.pod.Namespace, c.pod.Name, c.pod.UID, status)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	c.slot.users--
	c.slot.used = n.clock.Now()
	if err != nil {
		return fmt.Errorf("nominate pod %s/%s for node %q: %w", c.pod.Namespace, c.pod.Name, node, err)
	}
	c.slot.written = node
	return nil
}

// drop gives claims back that are not going to be written.
func (n *nominator) drop(claims []claim) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range claims {
		c.slot.users--
	}
}
