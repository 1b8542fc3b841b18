package fairshare

import "strings"

// Kind is the purpose of a resource in a quota. If a quota names resources of several kinds, the
// first kind decides.
type Kind uint8

const (
	// Device is a resource that work exists for; other resources accompany it.
	Device Kind = iota
	// Basic are CPUs, memory and huge pages.
	Basic
	// Bound are resources with a quota that only bounds their amount: pods and ephemeral storage.
	Bound
	// Absent is a resource of any kind without capacity. A quota of it holds nothing.
	Absent
)

// KindOf returns the kind of a resource, by its name.
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

// Hold is the set of resources that decide whether work is within a quota. Of the first kind in the
// quota, they are the resources with the largest ratio of usage to quota. We say that the quota
// holds the work by these resources.
type Hold struct {
	kinds      []Kind
	quota, use []int64
	part       float64
	kind       Kind
}

// Holding returns the resources that a quota holds work by, given the work's usage. Only the first
// kind that the quota and the work have in common counts. Within it, these are the resources with
// the largest ratio of usage to quota.
//
// A queue that has borrowed GPUs for work with few CPUs gives them back, although it is within its
// quota of CPUs. Its GPUs are not reclaimed for CPUs that it has borrowed. kinds are the kinds of
// all resources.
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

// partOf returns the ratio of usage to quota; 0 if the quota does not name the resource, or it has
// no capacity.
func (h *Hold) partOf(r int) float64 {
	if h.use[r] == 0 || h.quota[r] == 0 || h.kinds[r] == Absent {
		return 0
	}
	return float64(h.use[r]) / float64(h.quota[r])
}
