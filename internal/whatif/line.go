package whatif

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Line is where a pending workload stands among all that are, in the order of the scheduler's queue. Where there are Queues, work of
// the one furthest below its share goes first, and this order counts within each.
type Line struct {
	// Place begins at 1; Of is how many workloads there are.
	Place int `json:"place"`
	Of    int `json:"of"`
	// Queue is the leaf queue, where the workload has one, and PlaceInQueue and OfQueue say the same of the work in it.
	Queue        string `json:"queue,omitempty"`
	PlaceInQueue int    `json:"placeInQueue,omitempty"`
	OfQueue      int    `json:"ofQueue,omitempty"`
	// Before are the workloads right before it, the closest last, up to a few.
	Before []string `json:"before,omitempty"`
}

// mostBefore is how many workloads a Line names.
const mostBefore = 3

// waiting is a pending workload in the line.
type waiting struct {
	name, queue string
	info        *framework.QueuedPodInfo
}

// LineOf says where the workload of a pending pod stands.
func (c *Cluster) LineOf(pod *corev1.Pod) (Line, error) {
	profile, ok := c.sched.Profiles[pod.Spec.SchedulerName]
	if !ok {
		return Line{}, fmt.Errorf("no profile is named %q", pod.Spec.SchedulerName)
	}
	var all []waiting
	at := make(map[string]int)
	for _, p := range c.pods {
		if p.Spec.NodeName != "" || p.DeletionTimestamp != nil || c.sched.Profiles[p.Spec.SchedulerName] == nil || hasFinished(p) {
			continue
		}
		info, err := framework.NewPodInfo(p)
		if err != nil {
			return Line{}, fmt.Errorf("pod %s: %w", keyOf(p), err)
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
	less := profile.QueueSortFunc()
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
	return lineIn(all, c.workloadName(pod)), nil
}

// lineIn finds a workload among all that wait, in order.
func lineIn(all []waiting, name string) Line {
	i := slices.IndexFunc(all, func(w waiting) bool { return w.name == name })
	if i < 0 {
		return Line{}
	}
	out := Line{Place: i + 1, Of: len(all), Queue: all[i].queue}
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

// workloadName names the workload of a pod: its gang, or itself.
func (c *Cluster) workloadName(pod *corev1.Pod) string {
	if key, ok := c.derived.GroupOf(pod); ok {
		if g, ok := c.groups.Group(key); ok && g.IsGang() {
			return "podgroup " + key.String()
		}
	}
	return "pod " + keyOf(pod).String()
}

// queueOf names the leaf queue of a pod, as the scheduler does.
func (c *Cluster) queueOf(pod *corev1.Pod) string { return c.hub.QueueOf(pod) }

func hasFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Members are the pods of a PodGroup, in whatever state.
func (c *Cluster) Members(group types.NamespacedName) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range c.pods {
		if key, ok := c.derived.GroupOf(pod); ok && key == group {
			out = append(out, pod)
		}
	}
	return out
}
