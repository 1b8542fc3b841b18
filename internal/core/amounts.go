package core

import (
	"math"
	"strconv"
	"strings"
)

// maxAmount is the largest quantity that the search reckons with; larger ones are cut down to it. Two of
// them still add up without overflow.
const maxAmount = int64(1) << 61

// roomAmount cuts a quantity of room down to what the search reckons with.
func roomAmount(v int64) int64 { return min(max(v, -maxAmount), maxAmount) }

// usedAmount is what a running pod occupies: never less than nothing.
func usedAmount(v int64) int64 { return min(max(v, 0), maxAmount) }

// wantedAmount is what a member asks for. A quantity out of range fits nowhere, not even on a node that
// claims as much.
func wantedAmount(v int64) int64 {
	if v > maxAmount {
		return maxAmount + 1
	}
	return v
}

// addSaturating adds up to the limits of int64 and no further.
func addSaturating(a, b int64) int64 {
	switch sum := a + b; {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}

// fits reports whether room holds what is wanted. Like the in-tree resource filter it looks only at what is
// asked for: a node that is short of something else is no obstacle.
func fits(wanted, room []int64) bool {
	for r, v := range wanted {
		if v > 0 && v > room[r] {
			return false
		}
	}
	return true
}

// fitsTogether is fits for room in two parts.
func fitsTogether(wanted, room, more []int64) bool { return shortIn(wanted, room, more) < 0 }

// shortIn is the first resource of which two parts of room together hold too little; -1 where they hold all.
func shortIn(wanted, room, more []int64) int {
	for r, v := range wanted {
		if v > 0 && v > room[r]+more[r] {
			return r
		}
	}
	return -1
}

// howMany counts how often wanted fits into room, up to most.
func howMany(wanted, room []int64, most int) int {
	count := int64(most)
	for r, v := range wanted {
		if v <= 0 {
			continue
		}
		if room[r] < v {
			return 0
		}
		// A product is cheaper than a division, and mostly enough to know that this one is no limit.
		if v <= maxAmount/(count+1) && v*count <= room[r] {
			continue
		}
		count = min(count, room[r]/v)
	}
	return int(count)
}

// quantity writes an amount of a resource for people.
func quantity(resource string, v int64) string {
	switch {
	case resource == "cpu" && v%1000 != 0:
		return strconv.FormatInt(v, 10) + "m"
	case resource == "cpu":
		return strconv.FormatInt(v/1000, 10)
	case resource == "memory" || resource == "ephemeral-storage" || strings.HasPrefix(resource, "hugepages-"):
		return withSuffix(v)
	default:
		return strconv.FormatInt(v, 10)
	}
}

// withSuffix writes bytes with the largest suffix that leaves no remainder.
func withSuffix(v int64) string {
	suffixes := []string{"", "Ki", "Mi", "Gi", "Ti", "Pi"}
	i := 0
	for v != 0 && v%1024 == 0 && i < len(suffixes)-1 {
		v, i = v/1024, i+1
	}
	return strconv.FormatInt(v, 10) + suffixes[i]
}
