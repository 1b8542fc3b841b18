package snapshot

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// dimensions are the resources that the core reckons with: the four that every node has, the scalar ones that
// some node has, and last a spare one that no node has, for what a preemptor asks for in vain.
type dimensions struct {
	scalars []corev1.ResourceName
	known   map[corev1.ResourceName]bool
	// delegated are those that nodes without them leave to DynamicResources, in order.
	delegated []int
}

// delegatedRoom is the room that a node without a resource has for it where DynamicResources decides: more than pods ask for, and
// little enough that the room of all nodes adds up within what the core reckons with.
const delegatedRoom = int64(1) << 45

// The resources that a fwk.Resource has fields for, by dimension.
const (
	dimPods = iota
	dimCPU
	dimMemory
	dimStorage
	dimScalars
)

// newDimensions reads them off the nodes.
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

// delegatedBy are the dimensions that are delegated now.
func (d *dimensions) delegatedBy(delegation Delegation) []int {
	var out []int
	for i, name := range d.scalars {
		if delegation.Delegates(name) {
			out = append(out, dimScalars+i)
		}
	}
	return out
}

// addDelegated adds to the free room of a node for what is delegated there.
func (d *dimensions) addDelegated(free, allocatable core.Amounts, room int64) {
	for _, r := range d.delegated {
		if allocatable[r] == 0 {
			free[r] += room
		}
	}
}

// lack reports whether some node has a resource that is no dimension yet.
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

// names are the dimensions' names, in order; the spare one has none.
func (d *dimensions) names() []string {
	out := make([]string, d.size())
	out[dimPods], out[dimCPU] = string(corev1.ResourcePods), string(corev1.ResourceCPU)
	out[dimMemory], out[dimStorage] = string(corev1.ResourceMemory), string(corev1.ResourceEphemeralStorage)
	for i, name := range d.scalars {
		out[dimScalars+i] = string(name)
	}
	return out
}

// amounts reads all dimensions but the spare one from a Resource; the number of pods stands apart there.
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

// request is what a preemptor's member asks for. What no node has stands in the spare dimension, and comes
// back by name. Resources that the profile does not count are left out, and so are those that it leaves to DynamicResources on
// every node.
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
