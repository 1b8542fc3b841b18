package whatif

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// Workload is a single pod, a gang or a tree of groups, with its pods.
type Workload struct {
	Namespace, Name string
	// Gang is true for a gang. Whole is true if the gang is preempted as one unit.
	Gang, Whole bool
	// MinCount is the number of members that must run together.
	MinCount int
	// Tree has the groups of a tree. It is nil for other workloads.
	Tree     *gang.Tree
	Priority int32
	// RaisedBy is added to Priority while the workload is a potential victim.
	RaisedBy int64
	// Never is true if the workload must not preempt.
	Never bool
	// Queue is the workload's leaf queue. It is empty for none.
	Queue string
	// Progress has the annotations of the gang about lost work. It is zero for a pod.
	Progress gang.Progress
	// Blocked is the reason why the workload's group cannot be placed with any pods: the group does
	// not exist, or its tree has a flaw.
	Blocked gang.Verdict
	// Pods are the workload's pods, sorted by name. The caller must not change them.
	Pods []*corev1.Pod
}

// Lacking returns the number of members that a gang lacks in addition to the placed ones. enough is
// true if it lacks none. A tree needs enough groups with enough members.
func (w *Workload) Lacking(placed []*corev1.Pod) (lacking int, enough bool) {
	if w.Tree == nil {
		lacking = max(w.MinCount-len(placed), 0)
		return lacking, lacking == 0
	}
	counts := w.Tree.CountByPart(placed)
	c := w.Tree.Choose(counts, counts)
	return c.Lacks, c.Complete && c.Lacks == 0
}

// Workloads returns the workloads of all pods, in the order of their first pods.
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

// workloadOf returns the workload of a pod, without its list of pods.
func (c *Cluster) workloadOf(pod *corev1.Pod) Workload {
	policy := corev1.PreemptLowerPriority
	if p := pod.Spec.PreemptionPolicy; p != nil {
		policy = *p
	}
	w := Workload{Namespace: pod.Namespace, Name: pod.Name, MinCount: 1, Priority: c.shared.PriorityOf(pod), Queue: c.queueOf(pod)}
	if key, ok := c.GroupOf(pod); ok {
		if g, ok := c.groups.Group(key); ok {
			policy = c.setGroup(&w, g, policy)
		} else {
			w.Blocked = gang.Gate(key, nil, &gang.Members{})
		}
	}
	w.Never = policy == corev1.PreemptNever
	return w
}

// setGroup sets the fields of a workload that depend on the group of its pod. It returns the
// preemption policy of the workload. The argument policy is the preemption policy of the pod.
func (c *Cluster) setGroup(w *Workload, g *gang.Group, policy corev1.PreemptionPolicy) corev1.PreemptionPolicy {
	w.Blocked = g.Flaw
	if g.PreemptionPriorityClass != "" && g.Priority != nil {
		counts, _ := c.shared.VictimPriority(g)
		w.RaisedBy = max(int64(counts)-int64(w.Priority), 0)
	}
	if !g.IsGang() {
		return policy
	}
	w.Name, w.Gang, w.Whole, w.MinCount, w.Tree, w.Progress = g.Key.Name, true, g.Whole, g.MinCount, g.Tree, g.Progress
	if g.PreemptionPolicy != "" {
		return g.PreemptionPolicy
	}
	return policy
}
