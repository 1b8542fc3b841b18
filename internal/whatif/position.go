package whatif

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// Position is the position of a pending workload among the workloads that the scheduler can try, in
// the order of the scheduler's queue. Three kinds of workloads are left out: workloads with
// scheduling gates, gangs with too few members, and drivers that wait for other pods.
//
// If there are Queues, the scheduler first tries the Queue that is furthest below its fair share.
// The order then applies within each Queue.
type Position struct {
	// Place is the position, starting at 1. Of is the number of workloads.
	Place int `json:"place"`
	Of    int `json:"of"`
	// Queue is the workload's leaf queue. It is empty for none. PlaceInQueue and OfQueue are the
	// position and the number of workloads within that queue.
	Queue        string `json:"queue,omitempty"`
	PlaceInQueue int    `json:"placeInQueue,omitempty"`
	OfQueue      int    `json:"ofQueue,omitempty"`
	// Before has the names of the workloads directly before this workload. There are at most
	// mostBefore, and the closest is last.
	Before []string `json:"before,omitempty"`
}

// mostBefore is the maximum number of workloads in Position.Before.
const mostBefore = 3

// waiting is a pending workload that the scheduler can try.
type waiting struct {
	name, queue string
	info        *framework.QueuedPodInfo
}

// PositionOf returns the position of a pending pod's workload. It returns the zero Position if the
// scheduler cannot try the workload.
func (c *Cluster) PositionOf(pod *corev1.Pod) (Position, error) {
	profile, ok := c.sched.Profiles[pod.Spec.SchedulerName]
	if !ok {
		return Position{}, fmt.Errorf("no profile is named %q", pod.Spec.SchedulerName)
	}
	all, err := c.waiting(profile.QueueSortFunc())
	if err != nil {
		return Position{}, err
	}
	return lineIn(all, c.workloadName(pod)), nil
}

// Waiting returns the workloads that the scheduler can try, in the order of its queue. Each
// workload is represented by its oldest pending pod.
func (c *Cluster) Waiting() ([]*corev1.Pod, error) {
	names := slices.Sorted(maps.Keys(c.plugins))
	if len(names) == 0 {
		return nil, nil
	}
	// All profiles have the same order.
	all, err := c.waiting(c.sched.Profiles[names[0]].QueueSortFunc())
	if err != nil {
		return nil, err
	}
	out := make([]*corev1.Pod, len(all))
	for i, w := range all {
		out[i] = w.info.Pod
	}
	return out, nil
}

// waiting returns the pending workloads that the scheduler can try, sorted by less.
func (c *Cluster) waiting(less fwk.LessFunc) ([]waiting, error) {
	var all []waiting
	at := make(map[string]int)
	for _, p := range c.pods {
		if len(p.Spec.SchedulingGates) > 0 || !c.isComplete(p) || c.shared.BlockedDriver(p) != (gang.Verdict{}) {
			continue
		}
		if p.Spec.NodeName != "" || p.DeletionTimestamp != nil || c.sched.Profiles[p.Spec.SchedulerName] == nil || hasFinished(p) {
			continue
		}
		info, err := framework.NewPodInfo(p)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", keyOf(p), err)
		}
		w := waiting{name: c.workloadName(p), queue: c.queueOf(p)}
		w.info = &framework.QueuedPodInfo{PodInfo: info, QueueingParams: framework.QueueingParams{Timestamp: p.CreationTimestamp.Time}}
		if i, known := at[w.name]; !known {
			at[w.name] = len(all)
			all = append(all, w)
		} else if w.info.Timestamp.Before(all[i].info.Timestamp) {
			all[i] = w
		}
	}
	slices.SortStableFunc(all, func(a, b waiting) int {
		switch {
		case less(a.info, b.info):
			return -1
		case less(b.info, a.info):
			return 1
		default:
			return cmp.Compare(a.name, b.name)
		}
	})
	return all, nil
}

// isComplete reports whether a pod's group exists and, if it is a gang, has at least minCount
// members. A tree needs enough groups with enough members. The result is true for a pod without a
// group.
func (c *Cluster) isComplete(pod *corev1.Pod) bool {
	key, ok := c.GroupOf(pod)
	if !ok {
		return true
	}
	g, ok := c.groups.Group(key)
	switch {
	case !ok || g.Flaw != (gang.Verdict{}):
		return false
	case !g.IsGang():
		return true
	}
	if c.members == nil {
		c.members = make(map[types.NamespacedName]int)
		for _, p := range c.pods {
			// Count by PodGroup, because a tree needs enough members in each PodGroup.
			if of, ok := c.derived.GroupOf(p); ok && !hasFinished(p) && p.DeletionTimestamp == nil && len(p.Spec.SchedulingGates) == 0 {
				c.members[of]++
			}
		}
	}
	if g.Tree == nil {
		return c.members[key] >= g.MinCount
	}
	have := make(map[string]int)
	for _, leaf := range g.Tree.Leaves() {
		have[leaf.Name] = c.members[leaf]
	}
	return g.Tree.Choose(have, have).Complete
}

// lineIn returns the position of the named workload in a sorted list.
func lineIn(all []waiting, name string) Position {
	i := slices.IndexFunc(all, func(w waiting) bool { return w.name == name })
	if i < 0 {
		return Position{}
	}
	out := Position{Place: i + 1, Of: len(all), Queue: all[i].queue}
	for j, w := range all {
		if out.Queue != "" && w.queue == out.Queue {
			out.OfQueue++
			if j <= i {
				out.PlaceInQueue++
			}
		}
		if j < i && j >= i-mostBefore {
			out.Before = append(out.Before, w.name)
		}
	}
	return out
}

// workloadName returns the name of a pod's workload, which is its tree, its gang or the pod itself.
func (c *Cluster) workloadName(pod *corev1.Pod) string {
	if key, ok := c.GroupOf(pod); ok {
		if g, ok := c.groups.Group(key); ok && g.IsGang() {
			if composite, ok := gang.CompositeOf(key); ok {
				return "compositepodgroup " + composite.String()
			}
			return "podgroup " + key.String()
		}
	}
	return "pod " + keyOf(pod).String()
}

// queueOf returns the leaf queue of a pod, as the scheduler determines it.
func (c *Cluster) queueOf(pod *corev1.Pod) string { return c.shared.QueueOf(pod) }

func hasFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Members returns all pods of a PodGroup, regardless of their state.
func (c *Cluster) Members(group types.NamespacedName) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range c.pods {
		if key, ok := c.GroupOf(pod); ok && key == group {
			out = append(out, pod)
		}
	}
	return out
}
