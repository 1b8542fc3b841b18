package scheduler

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// terms are what PodGroups say of how far their members are protected, as last heard: any write of a PodGroup tells of it, and few
// change that. The zero value is ready to use, and safe for concurrent use.
type terms struct {
	mu       sync.Mutex
	minCount map[types.NamespacedName]int
}

// eased takes over what a group says, nil for one that has gone, and reports whether that protects its members less than before.
func (t *terms) eased(key types.NamespacedName, g *gang.Group) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, known := t.minCount[key]
	if g == nil || !g.IsGang() {
		delete(t.minCount, key)
		return known
	}
	if t.minCount == nil {
		t.minCount = make(map[types.NamespacedName]int)
	}
	t.minCount[key] = g.MinCount
	return known && g.MinCount < before
}

// lifted has those try again that wait for a protection to end, because one has ended before its time.
func (h *Hub) lifted() { h.ended(admission.Protection) }

// runsDelay is how long after a member has begun to run the framework knows of it for certain, as a rule.
const runsDelay = 200 * time.Millisecond

// runsOn has those that wait for a protection to end try again where a member of a group has begun to run, of which fewer are needed than
// run now: what is past minCount is in no min-runtime.
func (h *Hub) runsOn(key types.NamespacedName) {
	if !h.waits.Awaits(admission.Protection) {
		return
	}
	if g, ok := h.groups.Group(key); !ok || !g.IsGang() || g.Whole || h.running(key) <= g.MinCount {
		return
	}
	// The framework hears of the member from the same informer, and may do so later: what is decided on until then does not see it run, and
	// nothing else would have it looked at again.
	soon := h.clock.Now().Add(runsDelay)
	for _, key := range h.waits.End(admission.Protection) {
		h.wake(key)
		h.waits.Gather(key, soon)
	}
}

// running counts the members of a group that run, without those that are on their way out.
func (o *occupancy) running(key types.NamespacedName) int {
	running := 0
	for _, pod := range o.members(key).Assigned {
		if pod.Status.Phase == corev1.PodRunning {
			running++
		}
	}
	return running
}
