package scheduler

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// marks are pods in their cycles of which something has to be remembered until it ends, each with what it was tried as: it may be of
// another group by then. The zero value is ready to use, and safe for concurrent use.
type marks struct {
	mu   sync.Mutex
	keys map[types.UID]workload.Key
}

func (m *marks) set(uid types.UID, key workload.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keys == nil {
		m.keys = make(map[types.UID]workload.Key)
	}
	m.keys[uid] = key
}

// of is the mark of a pod, which stays.
func (m *marks) of(uid types.UID) (key workload.Key, marked bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key, marked = m.keys[uid]
	return key, marked
}

// take removes the mark of a pod, and reports whether there was one.
func (m *marks) take(uid types.UID) (key workload.Key, marked bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key, marked = m.keys[uid]
	delete(m.keys, uid)
	return key, marked
}
