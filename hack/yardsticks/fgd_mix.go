package main

import (
	"cmp"
	"slices"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fragmentation"
)

// mixOf returns the mix of the pods' kinds, the most frequent kind first. As in the FGD paper, a
// kind is a number of CPUs and a number of GPUs. The mix has at most [fragmentation.MostShapes]
// kinds.
func mixOf(pods []core.Amounts) *fragmentation.Mix {
	type kind [gpus + 1]int64
	counts := make(map[kind]int64)
	for _, p := range pods {
		counts[kind{cpus: p[cpus], gpus: p[gpus]}]++
	}
	mix := &fragmentation.Mix{Device: gpus}
	for k, count := range counts {
		mix.Shapes = append(mix.Shapes, fragmentation.Shape{Request: k[:], Weight: count})
	}
	slices.SortFunc(mix.Shapes, func(a, b fragmentation.Shape) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), slices.Compare(a.Request, b.Request))
	})
	mix.Shapes = mix.Shapes[:min(len(mix.Shapes), fragmentation.MostShapes)]
	return mix
}

// criterion returns the mix for Reprieve's fragmentation criterion. It omits the kinds without
// GPUs. For such a kind, a placement changes the fragmentation by the same amount on each node.
func (f *filling) criterion() *fragmentation.Mix {
	return mixOf(slices.DeleteFunc(slices.Clone(f.pods), func(p core.Amounts) bool { return p[gpus] == 0 }))
}

// filled is the result after one order of arrival: the allocated GPUs and the fragmented GPUs, in
// percent of all GPUs.
type filled struct{ allocated, fragmented float64 }

// result returns the result after one order of arrival. free has the free amounts of each node.
func (f *filling) result(free []core.Amounts) filled {
	mix := mixOf(f.pods)
	unused, unusable := int64(0), int64(0)
	for _, left := range free {
		unused += left[gpus]
		unusable += mix.Unusable(left)
	}
	return filled{allocated: f.percent(f.total - unused), fragmented: f.percent(unusable) / float64(mix.Weight())}
}
