package core

import "github.com/reprieve-dev/reprieve/internal/core/fairshare"

// Amounts is a vector of resource quantities, one per entry of [Snapshot.Resources]. The unit is
// the resource's own: milli for CPU, bytes for memory, pieces for pods and devices.
type Amounts = fairshare.Amounts

const maxAmount = fairshare.MaxAmount

// roomAmount limits a quantity of free room to the range that the search can compute with.
func roomAmount(v int64) int64 { return min(max(v, -maxAmount), maxAmount) }

// wantedAmount limits a requested quantity to the range that the search can compute with. A
// quantity above the range becomes maxAmount+1, which fits on no node.
func wantedAmount(v int64) int64 {
	if v > maxAmount {
		return maxAmount + 1
	}
	return v
}

// fits reports whether room is enough for the wanted amounts. It ignores resources that are not
// requested, because their free room may be negative. The in-tree resource filter does the same.
func fits(wanted, room []int64) bool {
	for r, v := range wanted {
		if v > 0 && v > room[r] {
			return false
		}
	}
	return true
}

// fitsTogether reports whether the wanted amounts fit into the sum of room and more.
func fitsTogether(wanted, room, more []int64) bool { return shortIn(wanted, room, more) < 0 }

// shortIn returns the index of the first resource with a wanted amount above the sum of room and
// more. It returns -1 if the sum is enough for every resource.
func shortIn(wanted, room, more []int64) int {
	for r, v := range wanted {
		if v > 0 && v > room[r]+more[r] {
			return r
		}
	}
	return -1
}

// howMany returns how many requests of size wanted fit into room. The result is limited to most.
func howMany(wanted, room []int64, most int) int {
	count := int64(most)
	for r, v := range wanted {
		if v <= 0 {
			continue
		}
		if room[r] < v {
			return 0
		}
		// In most iterations, the resource does not lower the count. This check then avoids the
		// division, which is slower than a multiplication.
		if v <= maxAmount/(count+1) && v*count <= room[r] {
			continue
		}
		count = min(count, room[r]/v)
	}
	return int(count)
}
