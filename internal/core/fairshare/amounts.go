package fairshare

import (
	"math"
	"strconv"
	"strings"
)

// Amounts is a vector of resource quantities, each in the unit that the resource is counted in (milli for CPU, bytes for
// memory, pieces for pods and devices).
type Amounts []int64

// MaxAmount is the largest quantity that is reckoned with; larger ones are cut down to it. Two of them still add up
// without overflow.
const MaxAmount = int64(1) << 61

// Used is what a running pod occupies, given what it says: never less than nothing.
func Used(v int64) int64 { return min(max(v, 0), MaxAmount) }

// Add adds up to the limits of int64 and no further.
func Add(a, b int64) int64 {
	switch sum := a + b; {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}

// Format writes an amount of a resource for people, in a form that Kubernetes reads as a quantity.
func Format(resource string, v int64) string {
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
