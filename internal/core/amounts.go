package core

import "github.com/reprieve-dev/reprieve/internal/core/fairshare"

// Amounts is a vector of resource quantities, one per entry of [Snapshot.Resources]. The unit is
// the resource's own: milli for CPU, bytes for memory, pieces for pods and devices.
type Amounts = fairshare.Amounts

const maxAmount = fairshare.MaxAmount

// roomAmount limits a quantity of room to the range that the search can compute with.
func roomAmount(v int64) int64 { return min(max(v, -maxAmount), maxAmount) }

// wantedAmount limits a requested quantity. A quantity out of range fits nowhere, not even on a
// node that claims to have it.
func wantedAmount(v int64) int64 {
	if v > maxAmount {
		return maxAmount + 1
	}
	return v
}

// fits reports whether room is enough for the wanted amounts. Like the in-tree resource filter, it
// checks requested resources only: a node may lack any other resource.
func fits(wanted, room []int64) bool {
	for r, v := range wanted {
		if v > 0 && v > room[r] {
			return false
		}
	}
	return true
}

// fitsTogether is like fits, for free room that is the sum of two vectors.
func fitsTogether(wanted, room, more []int64) bool { return shortIn(wanted, room, more) < 0 }

// shortIn adds two vectors of room and returns the first wanted resource that the sum has too
// little of. It returns -1 if the sum has enough of each.
func shortIn(wanted, room, more []int64) int {
	for r, v := range wanted {
		if v > 0 && v > room[r]+more[r] {
			return r
		}
	}
	return -1
}

// howMany returns the number of requests of size wanted that fit into room, at most most.
func howMany(wanted, room []int64, most int) int {
	count := int64(most)
	for r, v := range wanted {
		if v <= 0 {
			continue
		}
		if room[r] < v {
			return 0
		}
		// In most iterations another resource is the limit. The product shows this, and costs less
		// than a division.
		if v <= maxAmount/(count+1) && v*count <= room[r] {
			continue
		}
		count = min(count, room[r]/v)
	}
	return int(count)
}
