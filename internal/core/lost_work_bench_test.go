package core

import "testing"

// BenchmarkOrders measures decisions on the same clusters: by priorities, by lost work, and with
// cascades.
func BenchmarkOrders(b *testing.B) {
	const second = int64(1e9)
	gangs := besideGangs(1000)
	for name, c := range map[string]struct {
		s *Snapshot
		p *Preemptor
	}{
		"pod of 5000 nodes":                   {podCluster(b, 5000, 1).Snapshot(), podOf(1000, 4000, 8<<30, 0, 0, 1)},
		"gang of 500, 5000 nodes":             {gangCluster(b, 5000, 1).Snapshot(), gangOf(1000, 500, members("w", 500, 0, 8000, 32<<30, 8, 1))},
		"pod beside gangs, 1000 nodes":        {gangs, podOf(5, 1)},
		"gang of 64 beside gangs, 1000 nodes": {gangs, gangOf(5, 64, members("w", 64, 0, 1))},
	} {
		devices := make(Amounts, len(c.s.Resources))
		for r, resource := range c.s.Resources {
			if resource != "cpu" && resource != "memory" && resource != "pods" {
				devices[r] = MilliDevices
			}
		}
		for row, of := range map[string]struct {
			order   Order
			cascade CascadeMode
			oracle  Oracle
		}{
			"priority": {order: OrderPriority}, "lost work": {order: OrderLostWork},
			"cascade": {order: OrderPriority, cascade: CascadeDecide, oracle: replacing{}},
		} {
			b.Run(name+"/"+row, func(b *testing.B) {
				p := *c.p
				p.Order, p.Cascade, p.Now, p.Devices = of.order, of.cascade, 2000*second, devices
				measure(b, Preempts, func() Decision { return decideBench(b, c.s, &p, of.oracle) })
			})
		}
	}
}
