package core

import (
	"strings"
	"testing"
	"time"
)

// TestMessageHasTheRealLoss checks that the message of a decision has the lost work of the victims
// without the steps and the cost for each pod that only the comparison counts.
func TestMessageHasTheRealLoss(t *testing.T) {
	t.Parallel()
	minute := int64(time.Minute)
	for name, tt := range map[string]struct {
		order Order
		// age is the run time of the victim.
		age  int64
		want string
	}{
		"younger than a step": {order: OrderLostWork, age: 4 * minute, want: "; 0.5 device-hours of work are lost"},
		"a moment":            {order: OrderLostWork, age: minute / 4, want: "; less than 0.1 device-hours of work are lost"},
		"between two steps":   {order: OrderLostWork, age: 63 * minute, want: "; 8.4 device-hours of work are lost"},
		"another order":       {order: OrderPriority, age: 63 * minute, want: "is gone"},
		"it has not started":  {order: OrderLostWork, age: -1, want: "is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := 1000 * minute
			start := now - tt.age
			if tt.age < 0 {
				start = 0
			}
			s := clusterOf("gpu").node("a", 8).pod("v", "a", 1, 8, startedAt(start)).snapshot()
			p := podOf(10, 8)
			p.Order, p.Now, p.Devices, p.Step, p.PodCost = tt.order, now, Amounts{MilliDevices}, 5*minute, 60*minute
			if d := mustDecide(t, s, p, nil); !strings.HasSuffix(d.Message, tt.want) {
				t.Errorf("%q, want the end %q", d.Message, tt.want)
			}
		})
	}
}

// TestLevelHasTheRealLoss checks the message about a preferred level that loses more work. The
// comparison counts whole steps and a cost for each pod, and the message has neither.
func TestLevelHasTheRealLoss(t *testing.T) {
	t.Parallel()
	minute := int64(time.Minute)
	for name, tt := range map[string]struct {
		// near is the run time of the two victims in the rack, and far of the victims elsewhere.
		near, far int64
		want      string
	}{
		"more hours":          {near: 63 * minute, far: 33 * minute, want: "would have cost 8.0 device-hours more"},
		"a little more":       {near: 600*minute + 6e9, far: 599*minute + 57e9, want: "would have cost less than 0.1 device-hours more"},
		"no steps of its own": {near: 6 * minute, far: 4 * minute, want: "would have cost 0.5 device-hours more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := 1000 * minute
			s := clusterOf("gpu").node("a1", 8).node("a2", 8).node("b", 8).node("c", 8).
				pod("near-1", "a1", 5, 8, startedAt(now-tt.near)).pod("near-2", "a2", 5, 8, startedAt(now-tt.near)).
				pod("far-1", "b", 5, 8, startedAt(now-tt.far)).pod("far-2", "c", 5, 8, startedAt(now-tt.far)).snapshot()
			p := gangOf(10, 2, members("m", 2, 0, 8))
			p.Preferred = []TopologyLevel{{Key: rackKey, Of: []string{"a", "a", "", ""}}}
			p.Order, p.Now, p.Devices, p.Step, p.PodCost = OrderLostWork, now, Amounts{MilliDevices}, 5*minute, 60*minute
			d := mustDecide(t, s, p, nil)
			if !strings.HasSuffix(d.Message, tt.want) {
				t.Errorf("%q, want the end %q", d.Message, tt.want)
			}
		})
	}
}
