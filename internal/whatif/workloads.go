package whatif

import corev1 "k8s.io/api/core/v1"

// Workload is a pod, or all pods of a gang, as the scheduler counts it.
type Workload struct {
	Namespace, Name string
	// Gang tells a gang from a pod; MinCount of its pods have to run together, and Whole is true where they are preempted as one.
	Gang, Whole bool
	MinCount    int
	Priority    int32
	// Never is true for one that preempts nothing.
	Never bool
	// Queue is its leaf queue; "" for none.
	Queue string
	// Pods are those that have not finished, by name. They must not be changed.
	Pods []*corev1.Pod
}

// Workloads are all that have pods which have not finished, by the first of these.
func (c *Cluster) Workloads() []Workload {
	var out []Workload
	at := make(map[string]int)
	for _, pod := range c.pods {
		name := c.workloadName(pod)
		i, known := at[name]
		if !known {
			i = len(out)
			at[name] = i
			out = append(out, c.workloadOf(pod))
		}
		out[i].Pods = append(out[i].Pods, pod)
	}
	return out
}

// workloadOf describes the workload of a pod.
func (c *Cluster) workloadOf(pod *corev1.Pod) Workload {
	policy := corev1.PreemptLowerPriority
	if p := pod.Spec.PreemptionPolicy; p != nil {
		policy = *p
	}
	w := Workload{Namespace: pod.Namespace, Name: pod.Name, MinCount: 1, Priority: c.hub.PriorityOf(pod), Queue: c.queueOf(pod)}
	if key, ok := c.derived.GroupOf(pod); ok {
		if g, ok := c.groups.Group(key); ok && g.IsGang() {
			w.Name, w.Gang, w.Whole, w.MinCount = key.Name, true, g.Whole, g.MinCount
			if g.PreemptionPolicy != "" {
				policy = g.PreemptionPolicy
			}
		}
	}
	w.Never = policy == corev1.PreemptNever
	return w
}
