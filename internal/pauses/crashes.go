package pauses

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/logging"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// CrashLimitOf returns the limit that a profile sets for crashes of preemptors.
func CrashLimitOf(args *configv1alpha1.RetryArgs) engine.CrashLimit {
	return engine.CrashLimit{
		Starts:  int(*args.CrashLimit),
		Backing: engine.Backing{Initial: args.InitialBindingBackoff.Duration, Max: args.MaxBindingBackoff.Duration},
	}
}

// FollowStart records whether a pod of a preemptor has started, become ready or crashed. Only
// workloads that have preempted others are recorded.
func (ps *Pauses) FollowStart(before, after *corev1.Pod) {
	if after.Spec.NodeName == "" || ps.engine.Crashes.IsEmpty() {
		return
	}
	bound, crashed := before.Spec.NodeName == "", restarted(before, after)
	if !bound && crashed == nil && isReady(before) == isReady(after) && before.Status.Phase == after.Status.Phase {
		return
	}
	key, now := ps.index.KeyOf(after), ps.clock.Now()
	if bound {
		if !key.Gang {
			ps.engine.Crashes.Inherits(key, ControllerOf(after), now)
		}
		ps.engine.Crashes.Starts(key, string(after.UID))
	}
	if crashed != nil && after.DeletionTimestamp == nil && !IsDisrupted(after) {
		f := crashOf(after, crashed)
		ps.crashed(key, ps.engine.Crashes.Restarts(key, string(after.UID), f, ps.stateOf(key), now), f)
	}
	// Readiness alone may not show a crash, so the code above records crashes separately. One
	// update may report a crash together with the next readiness, or other members may keep the
	// gang ready.
	ps.engine.Crashes.Observes(key, ps.isWorking(key, after), now)
	ps.StartEnds(after)
}

// MemberEnds updates the readiness of a gang after a member on a node was lost or has succeeded. It
// does nothing for single pods.
func (ps *Pauses) MemberEnds(pod *corev1.Pod) {
	if ps.engine.Crashes.IsEmpty() {
		return
	}
	if key := ps.index.KeyOf(pod); key.Gang && ps.engine.Crashes.Has(key) {
		ps.engine.Crashes.Observes(key, ps.isWorking(key, pod), ps.clock.Now())
	}
}

// StartEnds records the result of a pod that has finished, or that is evicted or deleted. Only the
// failure of a pod that was neither evicted nor deleted counts as a crash.
func (ps *Pauses) StartEnds(pod *corev1.Pod) {
	if ps.engine.Crashes.IsEmpty() {
		return
	}
	switch {
	case pod.DeletionTimestamp != nil || IsDisrupted(pod):
		ps.engine.Crashes.Stops(string(pod.UID))
	case pod.Status.Phase == corev1.PodSucceeded:
		ps.engine.Crashes.Succeeds(string(pod.UID))
	case pod.Status.Phase == corev1.PodFailed:
		key, f := ps.index.KeyOf(pod), engine.Failure{Stage: "pod " + pod.Name, Message: "it failed"}
		ps.crashed(key, ps.engine.Crashes.Fails(string(pod.UID), f, ps.stateOf(key), ps.clock.Now()), f)
	}
}

// crashed logs a crash of a preemptor. count is the number of crashes in a row; 0 for a crash that
// does not count.
func (ps *Pauses) crashed(key workload.Key, count int, f engine.Failure) {
	if count > 0 {
		logging.Happened(logging.Of(context.Background(), key), "A preemptor crashed", f.Message, "crashed", f.Stage, "inARow", count)
	}
}

// isWorking reports whether a workload is ready: enough members of a gang, or the single pod.
func (ps *Pauses) isWorking(key workload.Key, pod *corev1.Pod) bool {
	if !key.Gang {
		return isReady(pod)
	}
	name := gang.NameOf(key)
	g, ok := ps.index.Groups.Group(name)
	if !ok || !ps.engine.Crashes.Has(key) {
		return false
	}
	members := ps.index.Lister.Members(name)
	members.Assigned = slices.DeleteFunc(members.Assigned, func(member *corev1.Pod) bool { return !isReady(member) })
	return gang.IsPlaced(g, ps.index.Derived, &members)
}

// crashSentence returns a sentence that says until when a workload preempts nothing because of
// crashes.
func crashSentence(p *engine.PreemptionPause, key workload.Key) string {
	what, n := "pod", "1 start"
	if key.Gang {
		what = "gang"
	}
	if p.Crashes > 1 {
		n = fmt.Sprintf("%d starts in a row", p.Crashes)
	}
	return fmt.Sprintf("%s of this %s crashed after a preemption, before it was ready for %v, so it preempts nothing before %s; the last crash is of %s: %s",
		n, what, engine.SettledAfter, p.Until.UTC().Format(time.RFC3339), p.Last.Stage, p.Last.Message)
}

func isReady(pod *corev1.Pod) bool { return hasCondition(pod, corev1.PodReady) }

// IsDisrupted reports whether a pod is being evicted, by the scheduler, the kubelet or another
// component.
func IsDisrupted(pod *corev1.Pod) bool { return hasCondition(pod, corev1.DisruptionTarget) }

func hasCondition(pod *corev1.Pod, of corev1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == of && c.Status == corev1.ConditionTrue
	})
}

// restarted returns the status of a container that restarted between two versions of a pod; nil for
// none. It includes init containers and sidecars.
func restarted(before, after *corev1.Pod) *corev1.ContainerStatus {
	counts := make(map[string]int32, len(before.Status.ContainerStatuses))
	for _, statuses := range [...][]corev1.ContainerStatus{before.Status.InitContainerStatuses, before.Status.ContainerStatuses} {
		for i := range statuses {
			counts[statuses[i].Name] = statuses[i].RestartCount
		}
	}
	for _, statuses := range [...][]corev1.ContainerStatus{after.Status.ContainerStatuses, after.Status.InitContainerStatuses} {
		for i := range statuses {
			if statuses[i].RestartCount > counts[statuses[i].Name] {
				return &statuses[i]
			}
		}
	}
	return nil
}

// crashOf describes the crash of a container, after its restart.
func crashOf(pod *corev1.Pod, container *corev1.ContainerStatus) engine.Failure {
	f := engine.Failure{Stage: "container " + container.Name + " of pod " + pod.Name, Message: "it was restarted"}
	if t := container.LastTerminationState.Terminated; t != nil {
		f.Message = fmt.Sprintf("exit code %d", t.ExitCode)
		if t.Reason != "" {
			f.Message += " (" + t.Reason + ")"
		}
	}
	return f
}
