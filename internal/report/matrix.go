package report

import (
	"cmp"
	"slices"
	"strconv"
)

// Matrix has the losses for each pair of preemptor and victim, grouped by a property of workloads.
type Matrix struct {
	// By is the property: queue, namespace or priority.
	By string `json:"by"`
	// Names has the values of the property, in the order of rows and columns. The empty name means
	// that the workload has no queue, or that its priority is unknown.
	Names []string `json:"names"`
	// Cells has the pairs with losses.
	Cells []Cell `json:"cells"`
}

// Cell is the loss that preemptors with one value of the property caused to victims with another
// value. Taker and Loser are the indexes of these values in Names.
type Cell struct {
	Taker int `json:"taker"`
	Loser int `json:"loser"`
	Loss
}

// matrices returns the losses for each pair of preemptor and victim.
func (b *builder) matrices() []Matrix {
	byName := cmp.Compare[string]
	byNumber := func(x, y string) int {
		a, _ := strconv.Atoi(x)
		b, _ := strconv.Atoi(y)
		return cmp.Or(cmp.Compare(b, a), cmp.Compare(x, y))
	}
	priority := func(p *Party) string {
		if p.Priority == nil {
			return ""
		}
		return strconv.Itoa(int(*p.Priority))
	}
	return []Matrix{
		b.matrix("queue", byName, func(p *Party) string { return p.Queue }),
		b.matrix("namespace", byName, func(p *Party) string { return p.Namespace }),
		b.matrix("priority", byNumber, priority),
	}
}

func (b *builder) matrix(by string, order func(x, y string) int, of func(*Party) string) Matrix {
	out := Matrix{By: by}
	type pair struct{ taker, loser string }
	sums := make(map[pair]*Loss)
	for _, s := range b.stops {
		p := pair{of(&b.entries[s.decision].Preemptor), of(&s.stop.Party)}
		if sums[p] == nil {
			sums[p] = &Loss{}
			out.Names = append(out.Names, p.taker, p.loser)
		}
		sums[p].add(s.stop)
	}
	slices.SortFunc(out.Names, order)
	out.Names = slices.Compact(out.Names)
	for i, taker := range out.Names {
		for j, loser := range out.Names {
			if sum := sums[pair{taker, loser}]; sum != nil {
				out.Cells = append(out.Cells, Cell{Taker: i, Loser: j, Loss: *sum})
			}
		}
	}
	return out
}
