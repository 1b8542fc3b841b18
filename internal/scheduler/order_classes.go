package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/eviction"
)

// nameClasses sets the PriorityClasses of the preemptor and of each victim in an order.
func (p *Plugin) nameClasses(order *eviction.Order, pre *preemptor) {
	if len(pre.pods) > 0 {
		order.PreemptorClass = p.classOf(pre.pods[0])
	}
	order.VictimClasses = make(map[string]string, len(order.Decision.Victims))
	for i := range order.Decision.Victims {
		v := &order.Decision.Victims[i]
		for _, named := range v.Pods {
			if pod := order.Victims[types.UID(named.UID)]; pod != nil {
				order.VictimClasses[v.UID] = p.classOf(pod)
				break
			}
		}
	}
}

// classOf returns the PriorityClass of a pod: the class of its PodGroup, or its own without a
// PodGroup. It returns "" for no class, and for a class that does not exist.
func (p *Plugin) classOf(pod *corev1.Pod) string {
	name := pod.Spec.PriorityClassName
	if key, ok := p.sched.index.GroupOf(pod); ok {
		if g, ok := p.sched.index.Groups.Group(key); ok && !g.PodPriorities {
			name = g.PriorityClassName
		}
	}
	if name == "" {
		return ""
	}
	if _, err := p.priorityClasses.Get(name); err != nil {
		return ""
	}
	return name
}
