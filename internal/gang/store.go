package gang

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Store holds the groups of one API, as its informer shows them. Each comparison in the scheduler's
// queue does lookups, so lookups must be fast and allocate no memory. The zero value is
// ready to use. A Store is safe for concurrent use.
type Store struct {
	mu    sync.RWMutex
	byKey map[types.NamespacedName]*Group
}

var _ Source = (*Store)(nil)

// Set stores a group. The caller must not change the group afterwards.
func (s *Store) Set(g *Group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey == nil {
		s.byKey = make(map[types.NamespacedName]*Group)
	}
	s.byKey[g.Key] = g
}

// Delete removes a group.
func (s *Store) Delete(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byKey, key)
}

// Group is part of Source.
func (s *Store) Group(key types.NamespacedName) (*Group, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	g, ok := s.byKey[key]
	return g, ok
}
