package snapshot

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// dimensions are the resources in the core's amounts. There are four that every node has, then the
// scalar ones that some node has. The last one is a spare for requested resources that no node has.
type dimensions struct {
	scalars []corev1.ResourceName
	known   map[corev1.ResourceName]bool
	// delegated are the dimensions that nodes without them leave to DynamicResources, in order.
	delegated []int
}

// delegatedRoom is the room for a delegated resource on a node that does not list the resource,
// because DynamicResources decides there. It is more than pods request, and small enough that the
// sum over all nodes stays in the core's range.
const delegatedRoom = int64(1) << 45

// The first dimensions are the resources that have fields in a fwk.Resource.
const (
	dimPods = iota
	dimCPU
	dimMemory
	dimStorage
	dimScalars
)

// newDimensions returns the dimensions of some nodes.
func newDimensions(infos []fwk.NodeInfo, delegation Delegation) dimensions {
	known := make(map[corev1.ResourceName]bool)
	for _, info := range infos {
		for name, v := range info.GetAllocatable().GetScalarResources() {
			if v > 0 {
				known[name] = true
			}
		}
	}
	d := dimensions{scalars: slices.Sorted(maps.Keys(known)), known: known}
	d.delegated = d.delegatedBy(delegation)
	return d
}

// delegatedBy returns the dimensions that are delegated now.
func (d *dimensions) delegatedBy(delegation Delegation) []int {
	var out []int
	for i, name := range d.scalars {
		if delegation.Delegates(name) {
			out = append(out, dimScalars+i)
		}
	}
	return out
}

// addDelegated adds room for delegated resources to the free room of a node without them.
func (d *dimensions) addDelegated(free, allocatable core.Amounts, room int64) {
	for _, r := range d.delegated {
		if allocatable[r] == 0 {
			free[r] += room
		}
	}
}

// lack reports whether any node has a resource that is not among the dimensions.
func (d *dimensions) lack(infos []fwk.NodeInfo) bool {
	for _, info := range infos {
		for name, v := range info.GetAllocatable().GetScalarResources() {
			if v > 0 && !d.known[name] {
				return true
			}
		}
	}
	return false
}

func (d *dimensions) size() int { return dimScalars + len(d.scalars) + 1 }

// names returns the dimensions' names in order. The spare one has none.
func (d *dimensions) names() []string {
	out := make([]string, d.size())
	out[dimPods], out[dimCPU] = string(corev1.ResourcePods), string(corev1.ResourceCPU)
	out[dimMemory], out[dimStorage] = string(corev1.ResourceMemory), string(corev1.ResourceEphemeralStorage)
	for i, name := range d.scalars {
		out[dimScalars+i] = string(name)
	}
	return out
}

// amounts returns the amounts of a Resource in all dimensions except the spare one. The number of
// pods is separate.
func (d *dimensions) amounts(res fwk.Resource, pods int) core.Amounts {
	out := make(core.Amounts, d.size())
	out[dimPods], out[dimCPU] = int64(pods), res.GetMilliCPU()
	out[dimMemory], out[dimStorage] = res.GetMemory(), res.GetEphemeralStorage()
	if scalars := res.GetScalarResources(); len(scalars) > 0 {
		for i, name := range d.scalars {
			out[dimScalars+i] = scalars[name]
		}
	}
	return out
}

// request returns the request of a preemptor's member. Resources that no node has are counted in
// the spare dimension and returned by name. It leaves out resources that the profile ignores, or
// delegates to DynamicResources on every node.
func (d *dimensions) request(res fwk.Resource, filter ResourceFilter) (core.Amounts, []string) {
	out := d.amounts(res, 1)
	var unknown []string
	for name, v := range res.GetScalarResources() {
		switch at := slices.Index(d.scalars, name); {
		case v <= 0:
		case filter.Ignores(name):
			if at >= 0 {
				out[dimScalars+at] = 0
			}
		case at < 0 && !filter.Delegates(name):
			out[len(out)-1] = max(out[len(out)-1], v)
			unknown = append(unknown, string(name))
		}
	}
	slices.SortFunc(unknown, strings.Compare)
	return out, unknown
}
