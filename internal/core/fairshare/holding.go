package fairshare

import "strings"

// Kind is what a quota of a resource is for. Of what a quota names and work has, the first kind counts before the others.
type Kind uint8

const (
	// Device is what work is made for; all else goes along with it.
	Device Kind = iota
	// Basic are CPUs and memory, huge pages too.
	Basic
	// Bound is what is named to bound how much there is of something, and says nothing of the work: pods, and ephemeral storage.
	Bound
	// Absent is of any kind, and nothing of it is there: a quota of it holds nothing.
	Absent
)

// KindOf is the kind of a resource, by its name.
func KindOf(name string) Kind {
	switch {
	case name == "cpu" || name == "memory" || isHugePages(name):
		return Basic
	case name == "ephemeral-storage" || name == "pods":
		return Bound
	default:
		return Device
	}
}

func isHugePages(name string) bool { return strings.HasPrefix(name, "hugepages-") }

// Hold is by which resources a quota holds work: those of a kind of which that takes up as large a part of the quota.
type Hold struct {
	kinds      []Kind
	quota, use []int64
	part       float64
	kind       Kind
}

// Holding says by which resources a quota holds work that uses so much: of the first kind that the quota names any of, the one of which it
// takes up the largest part, or several where that is the same. A queue that has borrowed GPUs for work with few CPUs is within its quota of
// these, and gives the GPUs back all the same; and its GPUs do not go for CPUs that it has borrowed. Kinds are those of all resources.
func Holding(kinds []Kind, quota, use []int64) Hold {
	h := Hold{kinds: kinds, quota: quota, use: use}
	for r, kind := range kinds {
		if part := h.partOf(r); part > 0 && (h.part == 0 || kind < h.kind || kind == h.kind && part > h.part) {
			h.part, h.kind = part, kind
		}
	}
	return h
}

// By reports whether a resource holds the work.
func (h *Hold) By(r int) bool { return h.part > 0 && h.kinds[r] == h.kind && h.partOf(r) == h.part }

// partOf is how much is used beside the quota; 0 where that names none, or none is there.
func (h *Hold) partOf(r int) float64 {
	if h.use[r] == 0 || h.quota[r] == 0 || h.kinds[r] == Absent {
		return 0
	}
	return float64(h.use[r]) / float64(h.quota[r])
}
