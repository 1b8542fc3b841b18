package core

import "slices"

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
	bySet         map[uint64][]knownGain
	scratch       []int32
}

// knownGain is what some units make room for, on all nodes.
type knownGain struct {
	units []int32
	gain  int
}

// knownGain is gain, for units of which it is known or may be found out. Of others, what they make room for on the node where they are looked
// at is as much as is known: when they go, all of it counts.
func (m *nodeCosts) knownGain(units []int32) (gain int, ok bool) {
	k := m.known
	if k.bySet == nil || k.changes != m.changes {
		k.changes, k.left, k.bySet = m.changes, countedPods, make(map[uint64][]knownGain)
	}
	k.scratch = append(k.scratch[:0], units...)
	slices.Sort(k.scratch)
	key := hashOf(k.scratch)
	for _, known := range k.bySet[key] {
		if slices.Equal(known.units, k.scratch) {
			return known.gain, true
		}
	}
	for _, u := range units {
		k.left -= len(m.s.Units[u].Pods)
	}
	if k.left < 0 {
		return 0, false
	}
	gain = m.gain(units)
	k.bySet[key] = append(k.bySet[key], knownGain{units: slices.Clone(k.scratch), gain: gain})
	return gain, true
}

// hashOf is FNV-1a, number by number.
func hashOf(units []int32) uint64 {
	hash := uint64(14695981039346656037)
	for _, u := range units {
		hash = (hash ^ uint64(uint32(u))) * 1099511628211
	}
	return hash
}
