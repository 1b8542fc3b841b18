package fairshare

import (
	"math"
	"strconv"
	"strings"
)

// Amounts is a vector of resource quantities, one per resource. The unit depends on the resource:
// milli for CPU, bytes for memory, pieces for pods and devices.
type Amounts []int64

// MaxAmount is the largest quantity in computations. Larger quantities are reduced to MaxAmount, so
// the sum of two quantities never overflows.
const MaxAmount = int64(1) << 61

// Used returns the room that a running pod with the request v occupies. It is never negative.
func Used(v int64) int64 { return min(max(v, 0), MaxAmount) }

// MaxUsage is the largest quantity of one pod that counts as usage of its queue. It is more than
// any node has. A sum over 2^17 pods does not overflow, so it stays exact when pods are added and
// removed.
const MaxUsage = int64(1) << 46

// Usage returns the part of a pod's request v that counts as usage of its queue, between 0 and
// MaxUsage.
func Usage(v int64) int64 { return min(max(v, 0), MaxUsage) }

// Add returns a+b, limited to the range of int64.
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

// Times returns a*n for non-negative a and n, limited to the range of int64.
func Times(a int64, n int) int64 {
	if a > 0 && int64(n) > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * int64(n)
}

// Format returns an amount of a resource in a form that Kubernetes parses as a quantity, for
// messages.
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

// withSuffix returns a number of bytes with the largest suffix that leaves no remainder.
func withSuffix(v int64) string {
	suffixes := []string{"", "Ki", "Mi", "Gi", "Ti", "Pi"}
	i := 0
	for v != 0 && v%1024 == 0 && i < len(suffixes)-1 {
		v, i = v/1024, i+1
	}
	return strconv.FormatInt(v, 10) + suffixes[i]
}
