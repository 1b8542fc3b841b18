package core

import "testing"

// BenchmarkOrders measures decisions by priorities and by lost work on the same clusters.
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
		for order, of := range map[string]Order{"priority": OrderPriority, "lost work": OrderLostWork} {
			b.Run(name+"/"+order, func(b *testing.B) {
				p := *c.p
				p.Order, p.Now, p.Devices = of, 2000*second, devices
				measure(b, Preempts, func() Decision { return decideBench(b, c.s, &p, nil) })
			})
		}
	}
}
