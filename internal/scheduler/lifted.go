package scheduler

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// terms holds the minCount of each PodGroup, which protects its members, as last seen. Any write of
// a PodGroup is an event, and few writes change minCount. The zero value is ready to use, and safe
// for concurrent use.
type terms struct {
	mu       sync.Mutex
	minCount map[types.NamespacedName]int
}

// eased records the minCount of a group, or forgets a group that is nil or no gang. It reports
// whether the group now protects its members less than before.
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

// lifted retries workloads that wait for the end of a protection, because one has ended before its
// time.
func (h *Hub) lifted() { h.ended(admission.Protection) }

// runsDelay is the time after the start of a member until the framework usually knows that the
// member runs.
const runsDelay = 200 * time.Millisecond

// runsOn retries workloads that wait for the end of a protection after a member of a group has
// started. It does so if more members run than the group needs: surplus has no min-runtime.
func (h *Hub) runsOn(key types.NamespacedName) {
	if !h.waits.Awaits(admission.Protection) {
		return
	}
	if g, ok := h.groups.Group(key); !ok || !g.IsGang() || g.Whole || h.running(key) <= g.MinCount {
		return
	}
	// The framework learns of the member from the same informer, possibly later. A decision before
	// that does not count the member as running, and no other event would cause a retry.
	soon := h.clock.Now().Add(runsDelay)
	for _, key := range h.waits.End(admission.Protection) {
		h.wake(key)
		h.waits.Gather(key, soon)
	}
}

// running counts the running members of a group that do not terminate.
func (o *occupancy) running(key types.NamespacedName) int {
	running := 0
	for _, pod := range o.members(key).Assigned {
		if pod.Status.Phase == corev1.PodRunning {
			running++
		}
	}
	return running
}
