package fairshare

// Bundles determine the carried quota: amounts that accompany a quota without being named in it.
// For example, work needs CPUs, memory and a pod slot in addition to a GPU. Nil adds no amounts.
type Bundles []bundle

// bundle describes the nodes that have one resource. The field of is the index of this resource,
// and total is its capacity. along is the capacity of the accompanying resources on the same nodes.
type bundle struct {
	of    int
	total int64
	along Amounts
}

// NewBundles returns the bundles of the given resources. The function with returns the total
// capacity of the nodes that have a given resource. CPUs, memory, ephemeral storage and pods
// accompany devices. CPUs and memory accompany each other, together with ephemeral storage and
// pods. No resource accompanies pods, because a quota of pods only limits their number.
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

// goesAlong reports whether the resource may accompany other resources.
func goesAlong(name string) bool { return KindOf(name) != Device && !isHugePages(name) }

// carried returns the amount of resource r that accompanies a quota. If the quota names a fraction
// of the capacity of another resource, the amount is the same fraction of r on the nodes with that
// resource. If the quota names several resources, the largest amount applies.
func (b Bundles) carried(quota Amounts, r int) int64 {
	most := int64(0)
	for i := range b {
		if own := quota[b[i].of]; own > 0 {
			most = max(most, mulDiv(b[i].along[r], min(own, b[i].total), b[i].total))
		}
	}
	return most
}

// quotas returns the quotas of all queues, including the carried amounts. Each quota is limited to
// the parent's quota.
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

// Rows returns a vector of zeros for every queue.
func (t *Tree) Rows() []Amounts {
	out, flat := make([]Amounts, len(t.nodes)), make(Amounts, len(t.nodes)*t.dims)
	for i := range out {
		out[i] = flat[i*t.dims:][:t.dims:t.dims]
	}
	return out
}
