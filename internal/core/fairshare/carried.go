package fairshare

import "strings"

// Bundles say what a quota carries beside what it names: a GPU is of no use without CPUs, memory and a place for its pod. The zero
// value carries nothing.
type Bundles struct {
	// devices carry all that goes along. Where a queue has a quota of none of them, basics do.
	devices, basics []bundle
}

// bundle is what the nodes that list a resource have of it, and of what goes along with that.
type bundle struct {
	of    int
	total int64
	along Amounts
}

// NewBundles makes the bundles of some resources. With says what the nodes that list one of them have of all, by name.
func NewBundles(names []string, with func(name string) Amounts) Bundles {
	var out Bundles
	for of, name := range names {
		list := &out.devices
		switch {
		case name == "cpu" || name == "memory":
			list = &out.basics
		case goesAlong(name) || strings.HasPrefix(name, "hugepages-"):
			// A quota of pods is there to bound their number, and says nothing of their size.
			continue
		}
		b := bundle{of: of, along: make(Amounts, len(names))}
		for r, v := range with(name) {
			switch {
			case r == of:
				b.total = min(max(v, 0), MaxAmount)
			case r < len(names) && goesAlong(names[r]):
				b.along[r] = min(max(v, 0), MaxAmount)
			}
		}
		if b.total > 0 {
			*list = append(*list, b)
		}
	}
	return out
}

// goesAlong reports whether all work needs some of a resource, whatever devices it asks for.
func goesAlong(name string) bool {
	return name == "cpu" || name == "memory" || name == "ephemeral-storage" || name == "pods"
}

// carried is what a quota carries of a resource: as large a part of what the nodes with the devices have as it is of the devices, the
// largest where it names several.
func (b *Bundles) carried(quota Amounts, r int) int64 {
	for _, list := range [...][]bundle{b.devices, b.basics} {
		most, named := int64(0), false
		for i := range list {
			c := &list[i]
			if own := quota[c.of]; own > 0 && c.of != r {
				named, most = true, max(most, mulDiv(c.along[r], min(own, c.total), c.total))
			}
		}
		if named {
			return most
		}
	}
	return 0
}

// quotas are those of all queues with what they carry, none above its parent's.
func (t *Tree) quotas(carried *Bundles) []Amounts {
	out := t.rows()
	for i := range t.nodes {
		n := &t.nodes[i]
		for r := range out[i] {
			if out[i][r] = n.asked[r]; n.asked[r] < 0 {
				out[i][r] = carried.carried(n.Quota, r)
			}
			if n.parent >= 0 {
				out[i][r] = min(out[i][r], out[n.parent][r])
			}
		}
	}
	return out
}

// rows are amounts of 0 for every queue.
func (t *Tree) rows() []Amounts {
	out, flat := make([]Amounts, len(t.nodes)), make(Amounts, len(t.nodes)*t.dims)
	for i := range out {
		out[i] = flat[i*t.dims:][:t.dims:t.dims]
	}
	return out
}
