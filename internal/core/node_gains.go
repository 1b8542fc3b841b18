package core

import (
	"encoding/binary"
	"slices"
)

// widePods bounds the pods looked at to compute the gains of all options on other nodes. Above it,
// gains are cached by set of units. countedPods bounds the pods looked at between two changes.
const widePods, countedPods = 1 << 21, 1 << 20

// isWide reports whether units have so many nodes that computing the gain of each option would take
// long.
func (m *nodeCosts) isWide() bool {
	if !m.c.spanning {
		return false
	}
	pods := 0
	for u := range m.s.Units {
		if n := len(m.s.Units[u].Pods); n > 1 {
			// The unit is looked at once for each of its nodes.
			if pods += n * n; pods > widePods {
				return true
			}
		}
	}
	return false
}

// knownGains caches the gains of sets of units in the current state. It helps with jobs whose pods
// are dealt out in turn, because these share many nodes.
type knownGains struct {
	// changes is the value of counter.changes that the cache is valid for. left is how many more
	// pods may be looked at.
	changes, left int
	bySet         map[string]int
	sorted        []int32
	key           []byte
}

// knownGain is like gain, for units whose gain is cached or may be computed. For other units, the
// caller uses the gain on one node. After they are evicted, all of their room counts.
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
