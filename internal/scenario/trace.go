package scenario

import (
	"slices"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
	"github.com/reprieve-dev/reprieve/internal/openb"
	"github.com/reprieve-dev/reprieve/internal/simulation"
)

// perGPU is the number of units per GPU in the trace openb.
const perGPU = 1000

// AddTrace adds the work of the trace openb to the input of a simulation. The work is distributed
// among the input's queues. It is scaled by shape to the input's nodes.
func AddTrace(in *simulation.Input, trace *openb.Trace, shape openb.Shape) {
	inParts(in)
	names := openb.Resources()
	if in.GPU >= 0 {
		// Use the input's name for GPUs.
		names[2] = in.Resources[in.GPU]
	}
	trace.Nodes = nil
	for i := range in.Nodes {
		amounts := translated(in.Nodes[i].Allocatable, in.Resources, names)
		trace.Nodes = append(trace.Nodes, openb.Node{Name: in.Nodes[i].Name, MilliCPU: amounts[0], MiB: amounts[1] >> 20, GPUs: amounts[2] / perGPU})
	}
	shape.Queues = in.Queues
	work := trace.Input(shape).Work
	for i := range work {
		for k, request := range work[i].Requests {
			work[i].Requests[k] = translated(request, names, in.Resources)
			if at := slices.Index(in.Resources, "pods"); at >= 0 {
				work[i].Requests[k][at] = 1
			}
		}
	}
	in.Work = append(in.Work, work...)
}

// TraceQueues converts the queues for a simulation that has only the work of the trace openb.
func TraceQueues(queues []fairshare.Queue) []fairshare.Queue {
	in := &simulation.Input{Resources: openb.Resources(), GPU: slices.Index(openb.Resources(), "nvidia.com/gpu"), PerGPU: 1, Queues: queues}
	inParts(in)
	return in.Queues
}

// inParts converts the amounts of GPUs in an input to thousandths, as the trace has them.
func inParts(in *simulation.Input) {
	if in.GPU < 0 || in.PerGPU != 1 {
		return
	}
	in.PerGPU = perGPU
	scale := func(amounts core.Amounts) core.Amounts {
		out := slices.Clone(amounts)
		if out != nil && out[in.GPU] < fairshare.Unlimited/perGPU {
			out[in.GPU] *= perGPU
		}
		return out
	}
	for i := range in.Nodes {
		in.Nodes[i].Allocatable = scale(in.Nodes[i].Allocatable)
	}
	for i := range in.Queues {
		in.Queues[i].Quota, in.Queues[i].Limit = scale(in.Queues[i].Quota), scale(in.Queues[i].Limit)
	}
	for i := range in.Work {
		for k := range in.Work[i].Requests {
			in.Work[i].Requests[k] = scale(in.Work[i].Requests[k])
		}
	}
}

// translated converts amounts from one list of resources to another list. It drops the amounts of
// resources that the second list lacks.
func translated(amounts core.Amounts, from, to []string) core.Amounts {
	out := make(core.Amounts, len(to))
	for r, name := range to {
		if at := slices.Index(from, name); at >= 0 {
			out[r] = amounts[at]
		}
	}
	return out
}
