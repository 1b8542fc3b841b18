package whatif

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/native"
)

// These are the kinds of remedies.
const (
	EndOfProtection = "Wait"
	LowerMinCount   = "MinCount"
	TolerateTaint   = "Taint"
	Uncordon        = "Uncordon"
	AddNodes        = "Nodes"
	RaiseLimit      = "Limit"
	RaiseQuota      = "Quota"
	RaisePriority   = "Priority"
)

// Remedy is a change that would give a blocked workload room. A decision on the changed objects has
// verified it.
type Remedy struct {
	// Kind is the kind of the change, such as [Uncordon].
	Kind string `json:"kind"`
	// Change describes the change in words.
	Change string `json:"change"`
	// ByAdministrators is true for changes of cluster-scoped objects, such as nodes and Queues,
	// because other users cannot make them.
	ByAdministrators bool `json:"byAdministrators,omitempty"`
	// Outcome, Message and Cost are the result of the decision on the changed objects.
	Outcome core.Outcome `json:"outcome"`
	Message string       `json:"message"`
	Cost    Cost         `json:"cost"`
}

// Search looks for changes that would give a pending workload room. It returns the smallest change
// of each kind, verified by a decision on the changed objects. The arguments:
//
//   - pods has the pending pods of the workload.
//   - group is the PodGroup of the pods, or nil. For a tree, it is the PodGroup that represents the
//     CompositePodGroup. Search does not change a PodGroup of scheduling.k8s.io, because the API
//     does not permit it.
//   - told is called before each decision with the number of earlier decisions. It may be nil.
func Search(ctx context.Context, objects *inventory.Inventory, cfg *config.KubeSchedulerConfiguration, pods []*corev1.Pod, group *v1alpha1.PodGroup, told func(decided int)) ([]Remedy, error) {
	s := &search{objects: objects, cfg: cfg, pods: pods, group: group, told: told}
	var out []Remedy
	for _, look := range []func(context.Context) ([]Remedy, error){
		s.wait, s.minCount, s.taints, s.cordons, s.nodes, s.bounds, s.priorities,
	} {
		found, err := look(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// search is the state of a call of Search.
type search struct {
	objects *inventory.Inventory
	cfg     *config.KubeSchedulerConfiguration
	pods    []*corev1.Pod
	// group is the PodGroup of the pods, of reprieve.dev or scheduling.k8s.io. It may be nil.
	group   *v1alpha1.PodGroup
	told    func(int)
	decided int
}

// try makes a decision for the workload with changed objects. It returns nil if there is still no
// room.
func (s *search) try(ctx context.Context, kind, change string, objects *inventory.Inventory) (*Remedy, error) {
	if s.told != nil {
		s.told(s.decided)
	}
	s.decided++
	cluster, err := New(ctx, objects, s.cfg)
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	step, err := cluster.Decide(ctx, keyOf(s.pods[0]))
	if err != nil {
		return nil, err
	}
	if step.Outcome == core.Infeasible || step.Outcome == Held {
		return nil, nil //nolint:nilnil // That it does not help is no error.
	}
	byAdministrators := slices.Contains([]string{Uncordon, AddNodes, RaiseLimit, RaiseQuota}, kind)
	return &Remedy{Kind: kind, Change: change, ByAdministrators: byAdministrators, Outcome: step.Outcome, Message: step.Message, Cost: step.Cost}, nil
}

// smallest returns the remedy for the smallest n from 1 to most that helps. It returns nil if even
// most does not help. If some n helps, each larger n must help too.
func (s *search) smallest(most int, attempt func(n int) (*Remedy, error)) (*Remedy, error) {
	if most < 1 {
		return nil, nil //nolint:nilnil // As in try.
	}
	best, err := attempt(most)
	if best == nil || err != nil {
		return nil, err
	}
	var failed error
	sort.Search(most-1, func(i int) bool {
		if failed != nil {
			return true
		}
		var found *Remedy
		if found, failed = attempt(i + 1); found != nil {
			best = found
		}
		return found != nil
	})
	return best, failed
}

func listOf(r *Remedy, err error) ([]Remedy, error) {
	if r == nil || err != nil {
		return nil, err
	}
	return []Remedy{*r}, nil
}

// wait looks for room after the end of protections, if the decision has a time for that (RetryAt).
func (s *search) wait(ctx context.Context) ([]Remedy, error) {
	cluster, err := New(ctx, s.objects, s.cfg)
	if err != nil {
		return nil, err
	}
	step, err := cluster.Decide(ctx, keyOf(s.pods[0]))
	cluster.Close()
	if err != nil || step.RetryAt == nil {
		return nil, err
	}
	change := fmt.Sprintf("wait until %s, when protections have ended", step.RetryAt.Format(time.RFC3339))
	return listOf(s.try(ctx, EndOfProtection, change, s.objects.At(step.RetryAt.Add(time.Nanosecond))))
}

// minCount looks for the smallest reduction of the gang's minCount that helps.
func (s *search) minCount(ctx context.Context) ([]Remedy, error) {
	if s.group == nil || native.IsNative(s.group) || s.group.Spec.SchedulingPolicy == nil || s.group.Spec.SchedulingPolicy.Gang == nil {
		return nil, nil
	}
	count := int(s.group.Spec.SchedulingPolicy.Gang.MinCount)
	return listOf(s.smallest(count-1, func(fewer int) (*Remedy, error) {
		pg := s.group.DeepCopy()
		pg.Spec.SchedulingPolicy.Gang.MinCount = int32(count - fewer)
		objects, err := s.objects.With(inventory.Change{Resource: inventory.PodGroups, Object: pg})
		if err != nil {
			return nil, err
		}
		return s.try(ctx, LowerMinCount, fmt.Sprintf("lower minCount of PodGroup %s from %d to %d", pg.Name, count, count-fewer), objects)
	}))
}

// taints tries each taint that the pods do not tolerate. It returns a remedy for each taint whose
// toleration alone would give the workload room.
func (s *search) taints(ctx context.Context) ([]Remedy, error) {
	nodes, err := inventory.Decode[*corev1.Node](s.objects, inventory.Nodes)
	if err != nil {
		return nil, err
	}
	on := make(map[corev1.Taint]int)
	var order []corev1.Taint
	for _, node := range nodes {
		for _, taint := range node.Spec.Taints {
			taint.TimeAdded = nil
			tolerated := corev1helpers.TolerationsTolerateTaint(klog.Background(), s.pods[0].Spec.Tolerations, &taint, true)
			// Uncordon is another kind of remedy, so skip the taint of cordoned nodes.
			if taint.Effect == corev1.TaintEffectPreferNoSchedule || tolerated || taint.Key == corev1.TaintNodeUnschedulable {
				continue
			}
			if on[taint] == 0 {
				order = append(order, taint)
			}
			on[taint]++
		}
	}
	var out []Remedy
	for _, taint := range order {
		changed := s.changedPods(func(pod *corev1.Pod) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: taint.Key, Operator: corev1.TolerationOpEqual, Value: taint.Value, Effect: taint.Effect,
			})
		})
		objects, err := s.objects.With(changed...)
		if err != nil {
			return nil, err
		}
		found, err := s.try(ctx, TolerateTaint, fmt.Sprintf("tolerate the taint %s, which %s", taint.ToString(), have(on[taint], "node")), objects)
		if err != nil {
			return nil, err
		}
		if found != nil {
			out = append(out, *found)
		}
	}
	return out, nil
}

// bounds looks for a limit or quota to raise by the smallest amount that helps. It tries the
// workload's queue and all its ancestors.
func (s *search) bounds(ctx context.Context) ([]Remedy, error) {
	path, err := s.path(ctx)
	if err != nil {
		return nil, err
	}
	requests := make(corev1.ResourceList)
	for _, pod := range s.pods {
		for name, quantity := range requestsOf(pod) {
			sum := requests[name]
			sum.Add(quantity)
			requests[name] = sum
		}
	}
	var out []Remedy
	for _, q := range path {
		for _, bound := range []struct {
			kind string
			of   func(*v1alpha1.Queue) corev1.ResourceList
		}{
			{RaiseLimit, func(q *v1alpha1.Queue) corev1.ResourceList { return q.Spec.Limit }},
			{RaiseQuota, func(q *v1alpha1.Queue) corev1.ResourceList { return q.Spec.Quota }},
		} {
			for _, name := range sortedNames(bound.of(q)) {
				found, err := s.raise(ctx, q, bound.kind, bound.of, name, requests[name])
				if err != nil {
					return nil, err
				}
				if found != nil {
					out = append(out, *found)
				}
			}
		}
	}
	return out, nil
}

// raise looks for the smallest increase of a resource in a limit or quota that helps. The increase
// is at most the workload's request. A quota is not raised above the limit of its queue, because
// raising both would be two changes. The increase is a multiple of one unit of the resource, or of
// 1/64 of the maximum increase if that is larger.
func (s *search) raise(ctx context.Context, q *v1alpha1.Queue, kind string, of func(*v1alpha1.Queue) corev1.ResourceList, name corev1.ResourceName, request resource.Quantity) (*Remedy, error) {
	largest := *resource.NewQuantity(request.Value(), request.Format)
	if limit, ok := q.Spec.Limit[name]; kind == RaiseQuota && ok {
		left := limit.DeepCopy()
		if left.Sub(of(q)[name]); left.Cmp(largest) < 0 {
			largest = left
		}
	}
	total := largest.Value()
	if total <= 0 {
		return nil, nil //nolint:nilnil // As in try.
	}
	const most = 64
	unit := max((total+most-1)/most, 1)
	return s.smallest(int((total+unit-1)/unit), func(n int) (*Remedy, error) {
		changed := q.DeepCopy()
		more := resource.NewQuantity(int64(n)*unit, request.Format)
		if more.Cmp(largest) > 0 {
			more = &largest
		}
		before := of(changed)[name]
		after := before.DeepCopy()
		after.Add(*more)
		of(changed)[name] = after
		objects, err := s.objects.With(inventory.Change{Resource: inventory.Queues, Object: changed})
		if err != nil {
			return nil, err
		}
		change := fmt.Sprintf("raise the %s of queue %s by %s %s, to %s", map[string]string{RaiseLimit: "limit", RaiseQuota: "quota"}[kind], q.Name, more, name, &after)
		return s.try(ctx, kind, change, objects)
	})
}

// path returns the queues from the workload's leaf queue to the root.
func (s *search) path(ctx context.Context) ([]*v1alpha1.Queue, error) {
	queues, err := inventory.Decode[*v1alpha1.Queue](s.objects, inventory.Queues)
	if err != nil || len(queues) == 0 {
		return nil, err
	}
	cluster, err := New(ctx, s.objects, s.cfg)
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	byName := make(map[string]*v1alpha1.Queue, len(queues))
	for _, q := range queues {
		byName[q.Name] = q
	}
	var out []*v1alpha1.Queue
	for name := cluster.queueOf(s.pods[0]); name != ""; {
		q := byName[name]
		if q == nil || slices.Contains(out, q) {
			break
		}
		out = append(out, q)
		name = ptr.Deref(q.Spec.Parent, "")
	}
	return out, nil
}

// priorities looks for the PriorityClass with the lowest value that helps.
func (s *search) priorities(ctx context.Context) ([]Remedy, error) {
	classes, err := inventory.Decode[*schedulingv1.PriorityClass](s.objects, inventory.PriorityClasses)
	if err != nil {
		return nil, err
	}
	now := corev1helpers.PodPriority(s.pods[0])
	isTheirs := s.group != nil && native.IsNative(s.group)
	switch {
	case isTheirs && s.group.Spec.Priority != nil:
		return nil, nil
	case isTheirs:
		// The lowest priority of the pods is the priority of the workload.
		for _, pod := range s.pods {
			now = min(now, corev1helpers.PodPriority(pod))
		}
	case s.group != nil:
		now = ptr.Deref(s.group.Spec.Priority, now)
	}
	// Higher values are reserved for system-critical pods.
	const highestUser = 1_000_000_000
	classes = slices.DeleteFunc(classes, func(c *schedulingv1.PriorityClass) bool {
		return c.Value <= now || c.Value > highestUser || ptr.Deref(c.PreemptionPolicy, corev1.PreemptLowerPriority) == corev1.PreemptNever
	})
	slices.SortFunc(classes, func(a, b *schedulingv1.PriorityClass) int {
		return cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(a.Name, b.Name))
	})
	return listOf(s.smallest(len(classes), func(n int) (*Remedy, error) {
		class := classes[n-1]
		changes := s.changedPods(func(pod *corev1.Pod) {
			pod.Spec.Priority, pod.Spec.PriorityClassName = &class.Value, class.Name
			pod.Spec.PreemptionPolicy = ptr.To(corev1.PreemptLowerPriority)
		})
		if !isTheirs {
			groups, err := s.withClass(class)
			if err != nil {
				return nil, err
			}
			changes = append(changes, groups...)
		}
		objects, err := s.objects.With(changes...)
		if err != nil {
			return nil, err
		}
		return s.try(ctx, RaisePriority, fmt.Sprintf("submit it with the PriorityClass %s (%d in place of %d)", class.Name, class.Value, now), objects)
	}))
}

// changedPods returns copies of the pending pods, after it has called change with each copy.
func (s *search) changedPods(change func(*corev1.Pod)) []inventory.Change {
	pods := make([]*corev1.Pod, len(s.pods))
	for i, pod := range s.pods {
		pods[i] = pod.DeepCopy()
		change(pods[i])
	}
	return podChanges(pods)
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	out := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func have(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " has"
	}
	return fmt.Sprintf("%d %ss have", n, noun)
}
