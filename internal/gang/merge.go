package gang

import "k8s.io/apimachinery/pkg/types"

// Merge finds groups in two sources. A name stands for one group, so one that both have is ambiguous.
func Merge(first, second Source) Source { return merged{first, second} }

type merged [2]Source

// Group returns the group of that name, or false if there is none.
func (m merged) Group(key types.NamespacedName) (*Group, bool) {
	g, ok := m[0].Group(key)
	if !ok {
		return m[1].Group(key)
	}
	if _, too := m[1].Group(key); too {
		ambiguous := *g
		ambiguous.Ambiguous = true
		return &ambiguous, true
	}
	return g, true
}
