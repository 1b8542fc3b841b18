package scheduler

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

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

// hidden are the pods whose nominations are hidden from another one in its cycle, by that one. The zero value is ready to use, and safe for
// concurrent use.
type hidden struct {
	mu   sync.Mutex
	from map[types.UID]*onNode
}

// onNode are pods that are nominated to a node.
type onNode struct {
	node string
	pods sets.Set[types.UID]
}

func (h *hidden) set(from types.UID, node string, pod types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.from == nil {
		h.from = make(map[types.UID]*onNode)
	}
	if h.from[from] == nil {
		h.from[from] = &onNode{node: node, pods: sets.New[types.UID]()}
	}
	h.from[from].pods.Insert(pod)
}

// take removes what is hidden from a pod, and returns it.
func (h *hidden) take(from types.UID) (node string, pods sets.Set[types.UID]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	on := h.from[from]
	delete(h.from, from)
	if on == nil {
		return "", nil
	}
	return on.node, on.pods
}

// take removes the mark of a pod, and reports whether there was one.
func (m *marks) take(uid types.UID) (key workload.Key, marked bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key, marked = m.keys[uid]
	delete(m.keys, uid)
	return key, marked
}
