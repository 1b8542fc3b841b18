package cluster

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// MinRuntimeOfMembers returns the min-runtimes of the profile of a group's members; nil for a
// profile that lacks the plugin. If the members name several profiles, the first name in
// alphabetical order counts. That happens when the profile was changed while members ran.
func (r *Index) MinRuntimeOfMembers(members *gang.Members) *core.MinRuntime {
	name, found := "", (*core.MinRuntime)(nil)
	for _, pods := range [][]*corev1.Pod{members.Assigned, members.Pending} {
		for _, pod := range pods {
			if found != nil && pod.Spec.SchedulerName >= name {
				continue
			}
			if m := r.Profiles.MinRuntimeOf(pod.Spec.SchedulerName); m != nil {
				name, found = pod.Spec.SchedulerName, m
			}
		}
	}
	return found
}

// GroupOf returns the PodGroup that a pod is scheduled and preempted with; false for none. In a
// profile that is not workload-aware, pods have no group. Pods of other schedulers can have one.
func (r *Index) GroupOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	key, ok := r.Derived.GroupOf(pod)
	if !ok {
		return key, false
	}
	if args := r.Profiles.Of(pod.Spec.SchedulerName); args != nil && !*args.WorkloadAware {
		return types.NamespacedName{}, false
	}
	return key, true
}

// SettleTime returns how long the scheduler collects changes of a gang before it plans the gang
// again.
func (r *Index) SettleTime(key types.NamespacedName) time.Duration {
	if same, ok := r.Profiles.SettleTime(); ok {
		return same
	}
	members := r.Lister.Members(key)
	for _, pod := range members.Pending {
		if args := r.Profiles.Of(pod.Spec.SchedulerName); args != nil {
			return args.Gang.SettleTime.Duration
		}
	}
	return 0
}
