package eviction

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/metrics"
)

// countLostWork adds the lost work of the evicted units to the metrics. If a gang stops, its other
// members lose their work too, so countLostWork includes them. Call it after the last removal.
func (x *execution) countLostWork() {
	// A gang that stops is counted with the PriorityClass of any of its members.
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

// loses adds lost work to the metrics. class is the PriorityClass of the victim, and lost is in
// milli-device-seconds.
func (x *execution) loses(class string, lost int64) {
	x.metrics.LostWork(metrics.Parties{
		Queue: x.order.Decision.Preemptor.Queue, PreemptorClass: x.order.PreemptorClass, VictimClass: class,
	}, float64(lost)/core.MilliDevices)
}

// fate reports whether a delete of the unit was accepted. gone is true in the same case, and also
// if a pod of the unit no longer exists.
func (u *unit) fate() (evicted, gone bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.evicted, u.evicted || u.gone.Len() > 0
}
