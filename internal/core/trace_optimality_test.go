package core

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// The required quality of decisions for gangs on the trace: the minimum part of optimal decisions,
// and the maximum mean excess of the other decisions.
const (
	wantTraceOptimal = 0.95
	wantTraceExcess  = 0.005
	// wantLostExcess is the maximum excess of the total lost work over the total of the optima, if
	// the search compares lost work.
	wantLostExcess = 0.02
)

// traceMembers maps the name of a case to the GPUs of each member, in thousandths.
func traceMembers() map[string]int64 {
	return map[string]int64{"no GPU": 0, "a part of a GPU": 500, "1 GPU": 1000, "2 GPUs": 2000, "4 GPUs": 4000, "8 GPUs": 8000}
}

// traceTally has the results of comparing decisions with the optimum.
type traceTally struct {
	cases, optimal, victims int
	podExcess, sumExcess    float64
	lost                    lostTally
	firstMiss               string
}

func (o *traceTally) add(seed uint64, got, best Score) {
	o.cases++
	o.victims += best.Pods
	o.podExcess += float64(got.Pods)/float64(best.Pods) - 1
	o.sumExcess += float64(got.PrioritySum)/float64(best.PrioritySum) - 1
	o.lost.add(got, best)
	if better(got, best) == 0 {
		o.optimal++
	} else if o.firstMiss == "" {
		o.firstMiss = fmt.Sprintf("; first miss: seed %d, %+v instead of %+v", seed, got, best)
	}
}

// check prints how close the decisions are to the optimum. It fails if they are not close enough.
func (o *traceTally) check(t *testing.T) {
	t.Helper()
	n := float64(o.cases)
	optimal, podExcess, sumExcess := float64(o.optimal)/n, o.podExcess/n, o.sumExcess/n
	t.Logf("%d of %d cases optimal, of %.1f victims; mean excess: pods %.3f%%, priorities %.3f%%, lost work %.3f%%%s",
		o.optimal, o.cases, float64(o.victims)/n, 100*podExcess, 100*sumExcess, 100*o.lost.excess(), o.firstMiss)
	if o.cases == 0 || optimal < wantTraceOptimal {
		t.Errorf("optimal in %.3f of the cases, want at least %.3f", optimal, wantTraceOptimal)
	}
	if podExcess > wantTraceExcess || sumExcess > wantTraceExcess {
		t.Errorf("mean excess: pods %.4f, priorities %.4f, want at most %.4f", podExcess, sumExcess, wantTraceExcess)
	}
	o.lost.check(t)
}

// lostTally sums the lost work of the decisions and of the optimal decisions. It counts only cases
// where both decisions have the same highest priority and the same number of broken budgets.
type lostTally struct{ got, best float64 }

func (l *lostTally) add(got, best Score) {
	if got.BrokenBudgets == best.BrokenBudgets && got.HighestPriority == best.HighestPriority {
		l.got, l.best = l.got+float64(got.LostWork), l.best+float64(best.LostWork)
	}
}

// excess returns the additional lost work of the decisions, as a part of the lost work of the
// optima.
func (l *lostTally) excess() float64 {
	if l.got == l.best {
		return 0
	}
	return l.got/l.best - 1
}

func (l *lostTally) check(t *testing.T) {
	t.Helper()
	if excess := l.excess(); excess > wantLostExcess {
		t.Errorf("the decisions lose %.2f%% more than the optima, want at most %.2f%%", 100*excess, 100*wantLostExcess)
	}
}

// traceOrder is an order of victims for the tests with the trace.
type traceOrder struct {
	order Order
	bands []Band
	stops bool
}

// traceOrders returns every order with and without two priority bands, and two of the orders with
// stops.
func traceOrders() map[string]traceOrder {
	two := []Band{{0, 3}, {4, 8}}
	return map[string]traceOrder{
		"by priorities": {order: OrderPriority}, "in bands": {order: OrderPriority, bands: two},
		"by lost work": {order: OrderLostWork}, "by lost work in bands": {order: OrderLostWork, bands: two},
		"by stops": {order: OrderPriority, stops: true}, "by stops in bands": {order: OrderPriority, bands: two, stops: true},
	}
}

// apply sets the order of a preemptor. With lost work, the units get random start times within the
// last day, most of them late. With stops, most units get stops.
func (o traceOrder) apply(r *rand.Rand, s *Snapshot, p *Preemptor, step int32) {
	for _, band := range o.bands {
		p.Bands = append(p.Bands, Band{Min: band.Min * step, Max: band.Max * step})
	}
	if p.CountsStops = o.stops; o.stops {
		for u := range s.Units {
			s.Units[u].Stops.Count = int32(r.IntN(5))
		}
	}
	if p.Order = o.order; o.order == OrderPriority {
		return
	}
	const day = int64(24 * time.Hour)
	p.Now, p.Devices = 2*day, Amounts{0, 0, 1}
	for u := range s.Units {
		part := r.Float64()
		s.Units[u].Start = p.Now - int64(part*part*float64(day)) - 1
	}
}

// decide decides one case and compares the decision with the optimum.
func (o *traceTally) decide(t *testing.T, seed uint64, s *Snapshot, p *Preemptor) {
	t.Helper()
	d := mustDecide(t, s, p, nil)
	s, p = withoutBands(t, s, p, &d)
	best, ok := refGang(s, p)
	if !ok || d.Outcome != Preempts {
		t.Errorf("seed %d: %s, and it can be done is %t: %s", seed, d.Outcome, ok, d.Message)
		return
	}
	if better(*d.Score, best) < 0 {
		t.Errorf("seed %d: score %+v is better than the optimum, %+v", seed, *d.Score, best)
	}
	o.add(seed, *d.Score, best)
}

// traceStep returns the distance between two priority levels. Compared with the weight of one more
// pod, it is negligible, small or large.
func traceStep(seed uint64) int32 { return []int32{1, 1000, 100_000_000}[seed%3] }

// TestTraceOptimality decides for gangs on 20 nodes of the openb trace, in every order of victims.
// The nodes are filled with pods of the trace. The decisions are compared with the exact optimum.
func TestTraceOptimality(t *testing.T) {
	tr := loadTrace(t)
	for name, gpu := range traceMembers() {
		for words, order := range traceOrders() {
			t.Run(name+", "+words, func(t *testing.T) {
				var tally traceTally
				for seed := uint64(0); tally.cases < *optimalityCases/10 && seed < uint64(*optimalityCases); seed++ {
					r, step := rand.New(rand.NewPCG(seed, uint64(gpu))), traceStep(seed)
					s := tr.fill(r, tr.sample(r, 20), step)
					p := tr.gang(r, s, gpu, step*int32(5+r.IntN(6)))
					if p == nil {
						continue
					}
					order.apply(r, s, p, step)
					tally.decide(t, seed, s, p)
				}
				tally.check(t)
			})
		}
	}
}

// TestTraceWholeCluster makes the checks of TestTraceOptimality on all nodes of the trace. The order
// by priorities is checked for all members, and the other orders for members with one GPU.
func TestTraceWholeCluster(t *testing.T) {
	tr := loadTrace(t)
	for name, gpu := range traceMembers() {
		for words, order := range traceOrders() {
			if words != "by priorities" && name != "1 GPU" {
				continue
			}
			t.Run(name+", "+words, func(t *testing.T) {
				var tally traceTally
				r := rand.New(rand.NewPCG(1, uint64(gpu)))
				s := tr.fill(r, tr.sample(r, len(tr.nodes)), traceStep(1))
				p := tr.gang(r, s, gpu, traceStep(1)*10)
				if p == nil {
					t.Fatal("no gang that needs room")
				}
				order.apply(r, s, p, traceStep(1))
				tally.decide(t, 1, s, p)
				tally.check(t)
			})
		}
	}
}

// TestTraceBesideGroups checks each order of victims, with two additions that must not make a
// decision worse. The first is two groups that the gang may not evict, each with a pod on each of
// the same two nodes. The second is a budget that no eviction breaks.
func TestTraceBesideGroups(t *testing.T) {
	tr := loadTrace(t)
	for words, order := range traceOrders() {
		t.Run(words, func(t *testing.T) { tr.besideGroups(t, order) })
	}
}

func (tr *trace) besideGroups(t *testing.T, order traceOrder) {
	var tally traceTally
	for seed := uint64(0); tally.cases < *optimalityCases/10 && seed < uint64(*optimalityCases); seed++ {
		r := rand.New(rand.NewPCG(seed, 3))
		s := tr.fill(r, tr.sample(r, 20), traceStep(seed))
		p := tr.gang(r, s, 2000, traceStep(seed)*10)
		if p == nil {
			continue
		}
		s.Budgets = []Budget{{Key: "ns/loose", Allowed: 1000}}
		for u := range s.Units {
			if r.IntN(2) == 0 {
				s.Units[u].Pods[0].Budgets = []int{0}
			}
		}
		for g := range 2 {
			group := Unit{Namespace: "ns", Name: fmt.Sprintf("g%d", g), UID: fmt.Sprintf("uid-g%d", g), Group: true, Priority: p.Priority}
			for n := range 2 {
				group.Pods = append(group.Pods, Pod{Namespace: "ns", Name: fmt.Sprintf("g%d-%d", g, n), Node: n, Request: Amounts{0, 0, 0}})
			}
			s.Units = append(s.Units, group)
		}
		order.apply(r, s, p, traceStep(seed))
		tally.decide(t, seed, s, p)
	}
	tally.check(t)
}

// gang returns a gang whose members request the given GPUs, in thousandths. Its size is a random
// part of the maximum that fits. It returns nil if no member fits.
func (tr *trace) gang(r *rand.Rand, s *Snapshot, gpu int64, priority int32) *Preemptor {
	request := tr.member(r, gpu)
	p := gangOf(priority, 1, members("w", 1, 0, request...))
	all := map[int]bool{}
	for _, u := range refEligible(s, p) {
		all[u] = true
	}
	most, now := 0, 0
	for _, free := range refRoom(s, all) {
		most += refMembers(request, free)
	}
	for _, free := range refRoom(s, nil) {
		now += refMembers(request, free)
	}
	if most <= now {
		return nil
	}
	count := now + 1 + r.IntN(min(most-now, max(4, most/2)))
	return gangOf(priority, count, members("w", count, 0, request...))
}
