package fairshare

import (
	"fmt"
	"math"
	"slices"
	"sync"
)

// Divided has a [Field] of node pools and the result of dividing the field into markets. It never
// changes, so any goroutine may use it.
type Divided struct {
	*Field
	// Markets has the markets of each resource; see [Tree.Markets].
	Markets [][]Market

	t      *Tree
	mu     sync.Mutex
	places map[string]*Place
}

// Divide divides a field into markets.
func (t *Tree) Divide(f *Field, carried Bundles) *Divided {
	return &Divided{Field: f, Markets: t.Markets(f, carried), t: t, places: make(map[string]*Place)}
}

// Shares returns, for each queue, the sum of its shares of all markets.
func (d *Divided) Shares() []Amounts {
	out := d.t.Rows()
	for q := range out {
		for r, markets := range d.Markets {
			for i := range markets {
				out[q][r] = Add(out[q][r], markets[i].Shares[q])
			}
		}
	}
	return out
}

// Place is the set of pools that a workload competes for, for each resource.
type Place struct {
	// Shares is the fair share of each queue in the place's pools, by the queue's index in the
	// tree. Entitled is Shares plus the queue's usage in other pools.
	Shares, Entitled []Amounts
	// pools has the set of pools for each resource, as bits.
	pools []uint64
}

// Has reports whether the place includes a pool for a resource.
func (p *Place) Has(pool, resource int) bool { return p.pools[resource]&(1<<pool) != 0 }

// PlaceOf returns the place of work that belongs to the given classes; nil if the place is all
// pools.
func (d *Divided) PlaceOf(classes ...int) *Place {
	pools, all := make([]uint64, len(d.Markets)), d.all()
	for _, class := range classes {
		for r := range pools {
			pools[r] |= d.poolsFor(r, class)
		}
	}
	if !slices.ContainsFunc(pools, func(some uint64) bool { return some != all }) {
		return nil
	}
	key := fmt.Sprint(pools)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.places[key] == nil {
		d.places[key] = d.place(pools)
	}
	return d.places[key]
}

// all returns the set of all pools, as bits.
func (d *Divided) all() uint64 { return math.MaxUint64 >> (MostPools - len(d.Pools)) }

// poolsFor returns the pools of the market where the demand of a class counts. For a resource that
// the class does not request, it returns all pools.
func (d *Divided) poolsFor(r, class int) uint64 {
	for i := range d.Markets[r] {
		if d.Markets[r][i].Counts(class) {
			return d.Markets[r][i].Pools
		}
	}
	return d.all()
}

// place returns the Place with the given pools of each resource. For each resource, they must be
// all the pools of one or more markets.
func (d *Divided) place(pools []uint64) *Place {
	p := &Place{Shares: d.t.Rows(), Entitled: d.t.Rows(), pools: pools}
	for r := range pools {
		used := d.UsedIn(pools[r], r)
		for q := range p.Shares {
			for i := range d.Markets[r] {
				if market := &d.Markets[r][i]; market.Pools&pools[r] != 0 {
					p.Shares[q][r] = Add(p.Shares[q][r], market.Shares[q])
				}
			}
			p.Entitled[q][r] = Add(p.Shares[q][r], max(d.Allocated[q][r]-used[q], 0))
		}
	}
	return p
}

// UsedIn returns the usage of a resource in some pools, by queue. A queue's usage includes the
// queues below it.
func (d *Divided) UsedIn(pools uint64, resource int) []int64 {
	out := make([]int64, d.t.Len())
	for i := range d.Pools {
		if pools&(1<<i) == 0 {
			continue
		}
		for leaf, used := range d.Pools[i].Used {
			for q := leaf; q >= 0; q = d.t.Parent(q) {
				out[q] = Add(out[q], used[resource])
			}
		}
	}
	return out
}

// CapacityOf returns the capacity of a resource in some pools.
func (d *Divided) CapacityOf(pools uint64, resource int) (sum int64) {
	for i := range d.Pools {
		if pools&(1<<i) != 0 {
			sum = Add(sum, max(d.Pools[i].Capacity[resource], 0))
		}
	}
	return sum
}
