package snapshot

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// dimensions says which resource each position of [core.Amounts] has. First come the four resources
// that every node has, then the scalar resources that some node has. The last position is spare: it
// is for requested resources that no node has.
type dimensions struct {
	scalars []corev1.ResourceName
	known   map[corev1.ResourceName]bool
	// delegated has the positions of the delegated resources, in order; see [Delegation].
	delegated []int
}

// delegatedRoom is the room for a delegated resource on a node that does not list the resource.
// DynamicResources decides about such a node later. The value is larger than any request, and the
// sum over all nodes stays in the range of the core.
const delegatedRoom = int64(1) << 45

// The first positions are the resources with fields in fwk.Resource.
const (
	dimPods = iota
	dimCPU
	dimMemory
	dimStorage
	dimScalars
)

// newDimensions returns the dimensions for some nodes.
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

// delegatedBy returns the positions of the resources that are delegated now.
func (d *dimensions) delegatedBy(delegation Delegation) []int {
	var out []int
	for i, name := range d.scalars {
		if delegation.Delegates(name) {
			out = append(out, dimScalars+i)
		}
	}
	return out
}

// addDelegated adds room for delegated resources to the free amounts of a node that does not list
// them.
func (d *dimensions) addDelegated(free, allocatable core.Amounts, room int64) {
	for _, r := range d.delegated {
		if allocatable[r] == 0 {
			free[r] += room
		}
	}
}

// lack reports whether any node has a resource that has no position in the dimensions.
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

// names returns the names of the resources by position. The spare position has the name "".
func (d *dimensions) names() []string {
	out := make([]string, d.size())
	out[dimPods], out[dimCPU] = string(corev1.ResourcePods), string(corev1.ResourceCPU)
	out[dimMemory], out[dimStorage] = string(corev1.ResourceMemory), string(corev1.ResourceEphemeralStorage)
	for i, name := range d.scalars {
		out[dimScalars+i] = string(name)
	}
	return out
}

// amounts converts a Resource and a number of pods. The spare position is 0.
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

// request returns the request of a member of the preemptor. If the member requests resources that
// no node has, their sum is in the spare position, and their names are returned. The result leaves
// out resources that the profile ignores. It also leaves out resources that DynamicResources
// decides about on every node.
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
