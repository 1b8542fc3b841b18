package fairshare

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// FairShares returns the fair share of every queue, by its index in the tree. Capacity goes to the
// quotas first, then to carried amounts. The rest is divided by priority and weight, level by
// level. A share never exceeds the queue's demand or its limit. If the capacity is enough for all
// siblings, each of them gets its demand. demand has the requests of all running and pending work
// in each queue, without the queues below it.
func (t *Tree) FairShares(capacity Amounts, carried Bundles, demand []Amounts) []Amounts {
	shares := t.Rows()
	d := &division{t: t, wanted: t.wanted(demand), quotas: t.quotas(carried), shares: shares}
	for r := range t.dims {
		d.resource = r
		room := int64(0)
		if r < len(capacity) {
			room = min(max(capacity[r], 0), MaxAmount)
		}
		d.all(room)
	}
	return shares
}

// wanted returns the demand of every queue, including the queues below it. Each demand is limited
// to the queue's limit.
func (t *Tree) wanted(demand []Amounts) []int64 {
	wanted := make([]int64, len(t.nodes)*t.dims)
	own := make([]int64, len(t.nodes))
	for r := range t.dims {
		for i := range own {
			own[i] = 0
			if i < len(demand) && r < len(demand[i]) {
				own[i] = demand[i][r]
			}
		}
		t.wantedOf(r, own, wanted)
	}
	return wanted
}

// wantedOf computes wanted for resource r. In both slices, the row of a queue has one value per
// resource.
func (t *Tree) wantedOf(r int, demand, wanted []int64) []int64 {
	for i := range t.nodes {
		wanted[i*t.dims+r] = 0
	}
	for i := len(t.nodes) - 1; i >= 0; i-- {
		n, at := &t.nodes[i], i*t.dims+r
		wanted[at] = min(Add(wanted[at], Used(demand[i])), n.Limit[r], MaxAmount)
		if n.parent >= 0 {
			up := int(n.parent)*t.dims + r
			wanted[up] = Add(wanted[up], wanted[at])
		}
	}
	return wanted
}

// division divides one resource among queues.
type division struct {
	t        *Tree
	resource int
	wanted   []int64
	// quotas include the carried amounts.
	quotas, shares []Amounts
	// elsewhere returns a queue's usage outside of the divided capacity. This usage is subtracted
	// from the queue's quota. The function may be nil.
	elsewhere func(q int32) int64
	// open is memory for the method pour.
	open []thirst
}

func (d *division) cap(q int32) int64 { return d.wanted[int(q)*d.t.dims+d.resource] }

// all divides room among all queues, level by level.
func (d *division) all(room int64) {
	d.among(d.t.top, room)
	for i := range d.t.nodes {
		d.among(d.t.nodes[i].children, d.shares[i][d.resource])
	}
}

// quota returns the queue's quota minus its usage elsewhere.
func (d *division) quota(q int32) int64 { return d.left(q, d.t.nodes[q].Quota[d.resource]) }

// carriedQuota is like quota, and includes the carried amounts.
func (d *division) carriedQuota(q int32) int64 { return d.left(q, d.quotas[q][d.resource]) }

func (d *division) left(q int32, quota int64) int64 {
	if d.elsewhere == nil || quota <= 0 {
		return quota
	}
	return max(quota-d.elsewhere(q), 0)
}

// among divides room among siblings: by quotas first, then by carried amounts, then by priority and
// weight.
func (d *division) among(siblings []int32, room int64) {
	if len(siblings) == 0 {
		return
	}
	r := d.resource
	if !d.scarce(siblings, room) {
		// All siblings get their demand, so weights have no effect.
		for _, q := range siblings {
			d.shares[q][r] = d.cap(q)
		}
		return
	}
	// If the quotas exceed the room, each is reduced in proportion.
	room = d.pour(siblings, room, func(q int32) (part, most int64) {
		quota := d.quota(q)
		return quota, min(quota, d.cap(q))
	})
	if d.carries(siblings) {
		room = d.pour(siblings, room, func(q int32) (part, most int64) {
			quota := d.carriedQuota(q)
			return quota, min(quota, d.cap(q))
		})
	}
	byPriority := slices.Clone(siblings)
	slices.SortStableFunc(byPriority, func(a, b int32) int { return cmp.Compare(d.t.nodes[b].Priority, d.t.nodes[a].Priority) })
	for len(byPriority) > 0 && room > 0 {
		same := 1
		for same < len(byPriority) && d.t.nodes[byPriority[same]].Priority == d.t.nodes[byPriority[0]].Priority {
			same++
		}
		room = d.pour(byPriority[:same], room, func(q int32) (part, most int64) {
			return d.t.nodes[q].Weight, d.cap(q)
		})
		byPriority = byPriority[same:]
	}
}

// carries reports whether the quota of a sibling has a carried amount of the resource.
func (d *division) carries(siblings []int32) bool {
	r := d.resource
	return slices.ContainsFunc(siblings, func(q int32) bool { return d.quotas[q][r] > d.t.nodes[q].Quota[r] })
}

// scarce reports whether the siblings demand more than the room.
func (d *division) scarce(siblings []int32, room int64) bool {
	asked := int64(0)
	for _, q := range siblings {
		asked = Add(asked, d.cap(q))
	}
	return asked > room
}

// pour raises the shares of all siblings together until the room is used up. The function terms
// returns a queue's part and its maximum. Each share grows in proportion to the part and stops at
// the maximum. If an amount cannot be divided evenly, the first queues by name get the remainder.
// pour returns the remaining room.
func (d *division) pour(siblings []int32, room int64, terms func(q int32) (part, most int64)) int64 {
	open := d.open[:0]
	// Limit each part, so that the sum of all parts is within the range of int64.
	largest := math.MaxInt64 / int64(max(len(siblings), 1))
	for _, q := range siblings {
		part, most := terms(q)
		part = min(part, largest)
		if need := most - d.shares[q][d.resource]; part > 0 && need > 0 {
			open = append(open, thirst{q: q, part: part, need: need})
		}
	}
	d.open = open
	// Sort the queues: the queue that reaches its maximum first comes first.
	slices.SortStableFunc(open, func(a, b thirst) int { return compareRatios(a.need, a.part, b.need, b.part) })
	parts := int64(0)
	for i := range slices.Backward(open) {
		parts = Add(parts, open[i].part)
		open[i].parts = parts
	}
	for i, o := range open {
		if compareRatios(o.need, o.part, room, o.parts) > 0 {
			d.split(open[i:], room)
			return 0
		}
		d.shares[o.q][d.resource] += o.need
		room -= o.need
	}
	return room
}

// thirst is a queue that may get more. need is the amount to its maximum, and part is its part.
// parts is the sum of the parts of this queue and all later queues.
type thirst struct {
	q                 int32
	part, parts, need int64
}

// split divides room among queues in proportion to their parts. The room is too small for any of
// them to reach its maximum.
func (d *division) split(open []thirst, room int64) {
	parts, left := open[0].parts, room
	for _, o := range open {
		part := min(mulDiv(room, o.part, parts), left)
		d.shares[o.q][d.resource] += part
		left -= part
	}
	slices.SortFunc(open, func(a, b thirst) int { return cmp.Compare(a.q, b.q) })
	for _, o := range open[:min(int64(len(open)), left)] {
		d.shares[o.q][d.resource]++
	}
}

// compareRatios compares a/b with c/d. All are non-negative. A ratio with denominator 0 is the
// largest.
func compareRatios(a, b, c, d int64) int {
	hi1, lo1 := bits.Mul64(uint64(a), uint64(d))
	hi2, lo2 := bits.Mul64(uint64(c), uint64(b))
	return cmp.Or(cmp.Compare(hi1, hi2), cmp.Compare(lo1, lo2))
}

// mulDiv returns a*b/c for b <= c. The product may exceed 64 bits.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(q)
}
