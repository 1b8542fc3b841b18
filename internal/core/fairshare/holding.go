package fairshare

import "strings"

// Kind is the purpose of a resource in a quota. If a quota names resources of several kinds, the
// first kind decides.
type Kind uint8

const (
	// Device is a resource such as a GPU that work needs for its own sake; other resources
	// accompany it.
	Device Kind = iota
	// Basic are CPUs, memory and huge pages.
	Basic
	// Bound are resources whose quota only limits their amount: pods and ephemeral storage.
	Bound
	// Absent is a resource of any kind that no node has. A quota of it protects no work.
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

// Hold is the set of resources that decide whether work is within a quota. Only the first kind of
// resource in the quota counts. Of these, the set has the resources with the largest ratio of usage
// to quota. The quota "holds" the work by these resources.
type Hold struct {
	kinds      []Kind
	quota, use []int64
	part       float64
	kind       Kind
}

// Holding returns the resources that a quota holds work by, given the usage of the work. Only the
// first kind that the quota and the work have in common counts. Within that kind, they are the
// resources with the largest ratio of usage to quota.
//
// For example, a queue that has borrowed GPUs for work with few CPUs loses them to reclaim,
// although it is within its quota of CPUs. It does not lose GPUs within its quota because it has
// borrowed CPUs. kinds has the kind of each resource.
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

// partOf returns the ratio of usage to quota. It is 0 if the quota does not name the resource, or
// if no node has it.
func (h *Hold) partOf(r int) float64 {
	if h.use[r] == 0 || h.quota[r] == 0 || h.kinds[r] == Absent {
		return 0
	}
	return float64(h.use[r]) / float64(h.quota[r])
}
