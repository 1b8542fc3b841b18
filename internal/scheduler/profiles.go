package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// minRuntimeOfMembers returns the min-runtimes of the profile of a group's members; nil for a
// profile that lacks the plugin. If the members name several profiles, the first name in
// alphabetical order counts. That happens when the profile was changed while members ran.
func (r *clusterIndex) minRuntimeOfMembers(members *gang.Members) *core.MinRuntime {
	name, found := "", (*core.MinRuntime)(nil)
	for _, pods := range [][]*corev1.Pod{members.Assigned, members.Pending} {
		for _, pod := range pods {
			if found != nil && pod.Spec.SchedulerName >= name {
				continue
			}
			if m := r.profiles.MinRuntimeOf(pod.Spec.SchedulerName); m != nil {
				name, found = pod.Spec.SchedulerName, m
			}
		}
	}
	return found
}

// groupOf returns the PodGroup that a pod is scheduled and preempted with; false for none. In a
// profile that is not workload-aware, pods have no group. Pods of other schedulers can have one.
func (r *clusterIndex) groupOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	key, ok := r.derived.GroupOf(pod)
	if !ok {
		return key, false
	}
	if args := r.profiles.Of(pod.Spec.SchedulerName); args != nil && !*args.WorkloadAware {
		return types.NamespacedName{}, false
	}
	return key, true
}

// settleTime returns how long the scheduler collects changes of a gang before it plans the gang
// again.
func (r *clusterIndex) settleTime(key types.NamespacedName) time.Duration {
	if same, ok := r.profiles.SettleTime(); ok {
		return same
	}
	members := r.lister.Members(key)
	for _, pod := range members.Pending {
		if args := r.profiles.Of(pod.Spec.SchedulerName); args != nil {
			return args.Gang.SettleTime.Duration
		}
	}
	return 0
}
