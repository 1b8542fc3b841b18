package eviction

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/metrics"
)

// countLostWork adds the lost work of the evicted units to the metrics. It also adds the lost work
// of the other members of a gang that stops. It is called after the last removal.
func (x *execution) countLostWork() {
	// For a gang that stops, use the class of any of its members.
	classes, remains := make(map[types.NamespacedName]string), make(map[types.NamespacedName]bool)
	for _, u := range x.units {
		evicted, gone := u.fate()
		if class := x.order.VictimClasses[u.victim.UID]; evicted {
			x.loses(class, u.victim.LostWork)
			classes[u.group] = class
		}
		remains[u.group] = remains[u.group] || !gone
	}
	for i := range x.order.Decision.BrokenGangs {
		g := &x.order.Decision.BrokenGangs[i]
		key := types.NamespacedName{Namespace: g.Namespace, Name: g.Name}
		if class, evicted := classes[key]; evicted && !remains[key] {
			x.loses(class, g.LostWork)
		}
	}
}

// loses adds lost work in milli-device-seconds, of a victim with a PriorityClass.
func (x *execution) loses(class string, lost int64) {
	x.metrics.LostWork(metrics.Parties{
		Queue: x.order.Decision.Preemptor.Queue, PreemptorClass: x.order.PreemptorClass, VictimClass: class,
	}, float64(lost)/core.MilliDevices)
}

// fate reports whether a delete of the unit was accepted, and whether the unit is evicted or gone.
func (u *unit) fate() (evicted, gone bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.evicted, u.evicted || u.gone.Len() > 0
}
