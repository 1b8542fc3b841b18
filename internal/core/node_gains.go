package core

import (
	"encoding/binary"
	"slices"
)

// widePods is how many pods may be looked at to count what the options of all nodes make room for on other nodes. Where there are more, that
// is counted for different units only, and as long as it takes no more than countedPods each time that something has changed.
const widePods, countedPods = 1 << 21, 1 << 20

// isWide reports whether units stand on so many nodes that it would take long to count what each option makes room for.
func (m *nodeCosts) isWide() bool {
	if !m.c.spanning {
		return false
	}
	pods := 0
	for u := range m.s.Units {
		if n := len(m.s.Units[u].Pods); n > 1 {
			// It is looked at once for each node that it is on.
			if pods += n * n; pods > widePods {
				return true
			}
		}
	}
	return false
}

// knownGains are what sets of units make room for, as things are: jobs whose pods are dealt out in turn stand on many nodes together.
type knownGains struct {
	// changes is when, as a value of counter.changes, and left is how many pods may still be looked at.
	changes, left int
	bySet         map[string]int
	sorted        []int32
	key           []byte
}

// knownGain is gain, for units of which it is known or may be found out. Of others, what they make room for on the node where they are looked
// at is as much as is known: when they go, all of it counts.
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
