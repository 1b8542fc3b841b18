package fairshare

// Bundles determine the amounts that accompany a quota without being named in it. For example, a
// GPU is of no use without CPUs, memory and a place for its pod. Nil adds no amounts.
type Bundles []bundle

// bundle has the capacity of one resource, and the capacity of the resources that accompany it on
// the same nodes.
type bundle struct {
	of    int
	total int64
	along Amounts
}

// NewBundles returns the bundles of the given resources. with returns the total capacity of the
// nodes that have a given resource. CPUs, memory, ephemeral storage and pods accompany devices;
// they also accompany CPUs and memory. A quota of pods only bounds their number, so nothing
// accompanies it.
func NewBundles(names []string, with func(name string) Amounts) Bundles {
	var out Bundles
	for of, name := range names {
		if KindOf(name) == Bound || isHugePages(name) {
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
			out = append(out, b)
		}
	}
	return out
}

// goesAlong reports whether work may need a resource in addition to devices.
func goesAlong(name string) bool { return KindOf(name) != Device && !isHugePages(name) }

// carried returns the amount of resource r that accompanies a quota. If the quota names a fraction
// of the capacity of another resource, the amount is the same fraction of r on the nodes with that
// resource. Of several named resources, the largest amount counts.
func (b Bundles) carried(quota Amounts, r int) int64 {
	most := int64(0)
	for i := range b {
		if own := quota[b[i].of]; own > 0 {
			most = max(most, mulDiv(b[i].along[r], min(own, b[i].total), b[i].total))
		}
	}
	return most
}

// quotas returns the quotas of all queues including the amounts that accompany them. No quota
// exceeds its parent's.
func (t *Tree) quotas(carried Bundles) []Amounts {
	out := t.Rows()
	for i := range t.nodes {
		n := &t.nodes[i]
		for r := range out[i] {
			if out[i][r] = n.Quota[r]; n.Quota[r] > 0 {
				continue
			}
			out[i][r] = carried.carried(n.Quota, r)
			if n.parent >= 0 {
				out[i][r] = min(out[i][r], out[n.parent][r])
			}
		}
	}
	return out
}

// Rows returns amounts of 0 for every queue.
func (t *Tree) Rows() []Amounts {
	out, flat := make([]Amounts, len(t.nodes)), make(Amounts, len(t.nodes)*t.dims)
	for i := range out {
		out[i] = flat[i*t.dims:][:t.dims:t.dims]
	}
	return out
}
