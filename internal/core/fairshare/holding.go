package fairshare

import "strings"

// Kind is the kind of a resource in a quota. If a quota has resources of several kinds, Holding
// uses only the first kind in the order of these constants.
type Kind uint8

const (
	// Device is a resource that work is scheduled for, such as a GPU. The work needs other
	// resources, such as CPUs, only to use the device.
	Device Kind = iota
	// Basic stands for CPUs, memory and huge pages.
	Basic
	// Bound stands for resources whose quota only limits their amount: pods and ephemeral storage.
	Bound
	// Absent stands for a resource that no node has, of any kind. A quota of it protects no work.
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

// Hold is the set of resources that decide whether some work is within a quota; see Holding.
type Hold struct {
	kinds      []Kind
	quota, use []int64
	part       float64
	kind       Kind
}

// Holding returns the resources that make a quota hold (protect) work with the given usage. Of the
// resources that the quota and the work have in common, only the first kind is used. Within this
// kind, the set has the resources with the largest ratio of usage to quota. kinds has the kind of
// each resource.
//
// Example: a queue has a quota of GPUs and CPUs. Work with many GPUs and few CPUs is held by GPUs.
// If the queue has borrowed GPUs, other queues may reclaim this work, although the queue is within
// its quota of CPUs. If the queue has borrowed only CPUs, the work stays.
func Holding(kinds []Kind, quota, use []int64) Hold {
	h := Hold{kinds: kinds, quota: quota, use: use}
	for r, kind := range kinds {
		if part := h.partOf(r); part > 0 && (h.part == 0 || kind < h.kind || kind == h.kind && part > h.part) {
			h.part, h.kind = part, kind
		}
	}
	return h
}

// By reports whether resource r is in the set.
func (h *Hold) By(r int) bool { return h.part > 0 && h.kinds[r] == h.kind && h.partOf(r) == h.part }

// partOf returns the ratio of usage to quota of resource r. It is 0 if the quota does not name the
// resource, or if no node has it.
func (h *Hold) partOf(r int) float64 {
	if h.use[r] == 0 || h.quota[r] == 0 || h.kinds[r] == Absent {
		return 0
	}
	return float64(h.use[r]) / float64(h.quota[r])
}
