package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fragmentation"
)

// chooser selects a node for a request and returns its index. fitting has the indexes of the nodes
// with enough room, and free has the free amounts of all nodes.
type chooser func(free []core.Amounts, fitting []int, request core.Amounts) int

// fill places pods one after the other on the nodes that choose selects. It drops the pods that fit
// on no node.
func (f *filling) fill(pods []core.Amounts, choose chooser) filled {
	free := make([]core.Amounts, len(f.nodes))
	for n := range free {
		free[n] = slices.Clone(f.nodes[n])
	}
	var fitting []int
	for _, request := range pods {
		fitting = fitting[:0]
		for n := range free {
			if fits(request, free[n]) {
				fitting = append(fitting, n)
			}
		}
		if len(fitting) == 0 {
			continue
		}
		at := free[choose(free, fitting, request)]
		for r, v := range request {
			at[r] -= v
		}
	}
	return f.result(free)
}

func (f *filling) percent(allocated int64) float64 {
	return 100 * float64(allocated) / float64(f.total)
}

func fits(request, free core.Amounts) bool {
	for r, v := range request {
		if v > free[r] {
			return false
		}
	}
	return true
}

// leastLeft is a chooser for the policy best fit. It selects the node with the least room left
// after the placement. The room of a node is a sum over its resources, each relative to the largest
// node.
func (f *filling) leastLeft(free []core.Amounts, fitting []int, request core.Amounts) int {
	largest := make(core.Amounts, len(request))
	for _, n := range f.nodes {
		for r, v := range n {
			largest[r] = max(largest[r], v)
		}
	}
	best, least := fitting[0], math.Inf(1)
	for _, n := range fitting {
		left := 0.0
		for r, v := range free[n] {
			left += float64(v-request[r]) / float64(max(largest[r], 1))
		}
		if left < least {
			best, least = n, left
		}
	}
	return best
}

// byCore places pods on the nodes that Reprieve's core selects. mix is the mix of the fragmentation
// criterion; nil switches the criterion off.
func (f *filling) byCore(pods []core.Amounts, mix *fragmentation.Mix) (filled, error) {
	cluster := core.NewCluster([]string{"cpu", "memory", "nvidia.com/gpu"})
	states, free := make(map[string]*core.NodeState, len(f.nodes)), make([]core.Amounts, len(f.nodes))
	for n, allocatable := range f.nodes {
		name := fmt.Sprintf("node-%04d", n)
		free[n] = slices.Clone(allocatable)
		states[name] = &core.NodeState{Node: core.Node{Name: name, Allocatable: allocatable, Free: free[n]}}
		if err := cluster.SetNode(states[name]); err != nil {
			return filled{}, err
		}
	}
	for i, request := range pods {
		name := fmt.Sprintf("pod-%05d", i)
		d, err := core.Decide(cluster.Snapshot(), &core.Preemptor{
			Namespace: "openb", Name: name, UID: name, MinCount: 1, Never: true, Mix: mix,
			Classes: []core.Class{{Request: request, Members: []core.Member{{Name: name, UID: name}}}},
		}, core.Arithmetic{})
		if err != nil {
			return filled{}, err
		}
		if d.Outcome != core.Fits {
			continue
		}
		st := states[d.Placements[0].Node]
		for r, v := range request {
			st.Free[r] -= v
		}
		st.Pods = append(st.Pods, core.RunningPod{Pod: core.Pod{Namespace: "openb", Name: name, UID: name, Request: request}, Running: true})
		if err := cluster.SetNode(st); err != nil {
			return filled{}, err
		}
	}
	return f.result(free), nil
}
