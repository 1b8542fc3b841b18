package fairshare

// Bundles determine the amounts that a quota carries beyond the resources that it names. For
// example, a GPU is of no use without CPUs, memory and a place for its pod. Nil carries nothing.
type Bundles []bundle

// bundle has the amount of one resource on the nodes that list it, and the amounts of the resources
// that accompany it.
type bundle struct {
	of    int
	total int64
	along Amounts
}

// NewBundles returns the bundles of the given resources. with returns the amounts of all resources
// on the nodes that list one of them, by name. Devices carry the resources that accompany them, and
// so do CPUs and memory. A quota of pods only bounds their number, so it carries nothing.
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

// goesAlong reports whether work needs some of a resource regardless of its devices.
func goesAlong(name string) bool { return KindOf(name) != Device && !isHugePages(name) }

// carried returns the amount of a resource that a quota carries. The quota names a part of another
// resource, on some nodes. It carries the same part of this resource on those nodes. If it names
// several resources, the largest amount counts.
func (b Bundles) carried(quota Amounts, r int) int64 {
	most := int64(0)
	for i := range b {
		if own := quota[b[i].of]; own > 0 {
			most = max(most, mulDiv(b[i].along[r], min(own, b[i].total), b[i].total))
		}
	}
	return most
}

// quotas returns all queues' quotas with the amounts that they carry, none above its parent's.
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
