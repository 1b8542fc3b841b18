package whatif

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

// Queue is a v1alpha1.Queue with a status that is computed from the objects of the inventory. The
// status in the API is ignored, because it may be outdated.
type Queue struct {
	*v1alpha1.Queue
	// Cut has the effective quota of the resources whose quota exceeds the effective quota of the
	// parent queue.
	Cut corev1.ResourceList
	// Gone is true for a Queue that was deleted while pods on nodes still name it. Its status only
	// has the usage of these pods.
	Gone bool
}

// Queues returns the Queues, sorted by name. They are followed by deleted Queues that pods on nodes
// still name.
func (c *Cluster) Queues() ([]Queue, error) {
	queues, err := inventory.Decode[*v1alpha1.Queue](c.objects, inventory.Queues)
	if err != nil {
		return nil, fmt.Errorf("queues: %w", err)
	}
	out := make([]Queue, 0, len(queues))
	ledger := c.shared.Quotas()
	standing := ledger.Snapshot(ledger.Resources())
	if standing == nil {
		// There are no Queues, so the quota ledger has no snapshot.
		return c.goneQueues(nil), nil
	}
	wholeGroups := ledger.WholeGroups(standing)
	for _, q := range queues {
		standing.SetStatus(q, wholeGroups)
		out = append(out, Queue{Queue: q, Cut: cut(standing, q.Name)})
	}
	return append(out, c.goneQueues(queues)...), nil
}

// goneQueues returns the Queues that pods on nodes name but that do not exist, sorted by name.
func (c *Cluster) goneQueues(there []*v1alpha1.Queue) []Queue {
	used := make(map[string]corev1.ResourceList)
	for _, pod := range c.pods {
		name := c.namedQueue(pod)
		if pod.Spec.NodeName == "" || name == "" || slices.ContainsFunc(there, func(q *v1alpha1.Queue) bool { return q.Name == name }) {
			continue
		}
		if used[name] == nil {
			used[name] = make(corev1.ResourceList)
		}
		for resource, quantity := range requestsOf(pod) {
			sum := used[name][resource]
			sum.Add(quantity)
			used[name][resource] = sum
		}
	}
	var out []Queue
	for _, name := range slices.Sorted(maps.Keys(used)) {
		q := &v1alpha1.Queue{Status: v1alpha1.QueueStatus{Allocated: used[name]}}
		q.Name = name
		out = append(out, Queue{Queue: q, Gone: true})
	}
	return out
}

// namedQueue returns the queue that a pod or its gang names, even if that queue does not exist.
func (c *Cluster) namedQueue(pod *corev1.Pod) string {
	if key, ok := c.GroupOf(pod); ok {
		if g, ok := c.groups.Group(key); ok && g.Queue != "" {
			return g.Queue
		}
	}
	if c.plugins[pod.Spec.SchedulerName] == nil {
		return ""
	}
	return c.shared.QueueNamedBy(pod)
}

// cut returns the effective quota of a queue for the resources whose quota exceeds the parent's
// effective quota.
func cut(standing *queue.Snapshot, name string) corev1.ResourceList {
	out := make(corev1.ResourceList)
	for _, f := range standing.Faults {
		if i, known := standing.Tree.Find(name); known && f.Queue == name && f.Kind == fairshare.FaultQuota {
			of := standing.Names[f.Resource]
			out[corev1.ResourceName(of)] = resource.MustParse(fairshare.Format(of, standing.Tree.Queue(i).Quota[f.Resource]))
		}
	}
	return out
}

// Guard is a protection of a running unit from the preemptors of some profiles.
type Guard struct {
	scheduler.Guard
	// Profiles has the scheduler names of the profiles whose preemptors the protection applies to.
	// It is nil if the protection applies to all preemptors.
	Profiles []string
}

// Guards returns the protections of running units, sorted by their end. Protections without an end
// come last. Each profile has its own arguments, so a protection may apply only to the preemptors
// of some profiles.
func (c *Cluster) Guards() ([]Guard, error) {
	type protection struct {
		scheduler.Guard
		below  int32
		graded bool
	}
	var out []Guard
	listed := make(map[protection]int)
	for _, profile := range slices.Sorted(maps.Keys(c.plugins)) {
		if err := c.level(profile); err != nil {
			return nil, err
		}
		guards, err := c.plugins[profile].Guards()
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", profile, err)
		}
		for _, g := range guards {
			key := protection{Guard: g, below: ptr.Deref(g.Below, 0), graded: g.Below != nil}
			key.Below = nil
			i, known := listed[key]
			if !known {
				i, listed[key] = len(out), len(out)
				out = append(out, Guard{Guard: g})
			}
			out[i].Profiles = append(out[i].Profiles, profile)
		}
	}
	for i := range out {
		// Preemptors of profiles without the plugin ignore its protections. So a protection applies
		// to all preemptors only if all profiles are listed.
		if len(out[i].Profiles) == len(c.sched.Profiles) {
			out[i].Profiles = nil
		}
	}
	slices.SortStableFunc(out, inOrderOfEnds)
	return out, nil
}

func inOrderOfEnds(a, b Guard) int {
	if a.Until.IsZero() != b.Until.IsZero() {
		if a.Until.IsZero() {
			return 1
		}
		return -1
	}
	return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Rule, b.Rule))
}
