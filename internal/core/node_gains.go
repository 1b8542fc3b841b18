package core

import (
	"encoding/binary"
	"slices"
)

// widePods is the maximum number of pods to look at to compute the gains of all options directly.
// If there are more pods, gains are cached for each set of units. countedPods is the maximum number
// of pods to look at for the cache until the next change.
const widePods, countedPods = 1 << 21, 1 << 20

// isWide reports whether units have pods on so many nodes that the gains must be cached.
func (m *nodeCosts) isWide() bool {
	if !m.c.spanning {
		return false
	}
	pods := 0
	for u := range m.s.Units {
		if n := len(m.s.Units[u].Pods); n > 1 {
			// A unit on n nodes is in the options of n nodes. The gain of each option looks at n
			// nodes, so the unit counts n² times.
			if pods += n * n; pods > widePods {
				return true
			}
		}
	}
	return false
}

// knownGains caches the number of additional members that fit after a set of units is evicted, in
// the current state. It is useful if the pods of several jobs share the same nodes, because many
// nodes then have the same set of units.
type knownGains struct {
	// changes is the value of counter.changes when the cache was filled. left is the number of pods
	// that the cache may still look at.
	changes, left int
	bySet         map[string]int
	sorted        []int32
	key           []byte
}

// knownGain returns the same number as gain, from a cache if possible. If the cache lacks the
// number and computing it would take too long, knownGain returns false. The caller then uses
// gainHere.
func (m *nodeCosts) knownGain(units []int32) (gain int, ok bool) {
	k := m.known
	if k.bySet == nil || k.changes != m.changes {
		k.changes, k.left, k.bySet = m.changes, countedPods, make(map[string]int)
	}
	k.sorted, k.key = append(k.sorted[:0], units...), k.key[:0]
	slices.Sort(k.sorted)
	for _, u := range k.sorted {
		k.key = binary.AppendVarint(k.key, int64(u))
	}
	if gain, ok = k.bySet[string(k.key)]; ok {
		return gain, true
	}
	for _, u := range units {
		k.left -= len(m.s.Units[u].Pods)
	}
	if k.left < 0 {
		return 0, false
	}
	gain = m.gain(units)
	k.bySet[string(k.key)] = gain
	return gain, true
}
