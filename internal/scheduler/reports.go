package scheduler

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/logging"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// tellBatch is the maximum number of members that get a condition in one tick of the main loop.
const tellBatch = 100

// lacksRoom reports whether the reason of a verdict is a lack of room. The reporter reports a lack
// of room in a form that makes a cluster autoscaler add nodes. For any other reason, added nodes
// would not help.
func lacksRoom(v gang.Verdict) bool {
	return v.Reason == v1alpha1.ReasonUnschedulable || v.Reason == v1alpha1.ReasonPreempting
}

// say records the verdict of a decision on a gang. A later tick reports it.
func (t *reporter) say(key workload.Key, v gang.Verdict) {
	t.gangs.FoundNoRoom(key, v, lacksRoom(v), t.clock.Now())
}

// Statuses writes conditions of pending pods outside their scheduling cycles.
type Statuses interface {
	// Say writes a condition of a pod to the API and returns at once. It does nothing if the pod
	// has the condition already or is bound.
	Say(pod *corev1.Pod, condition corev1.PodCondition)
	// Bound records that a pod is bound, so that no further condition is written for the pod.
	Bound(uid types.UID)
}

// noStatuses is a Statuses that writes nothing.
type noStatuses struct{}

// Say is part of Statuses.
func (noStatuses) Say(*corev1.Pod, corev1.PodCondition) {}

// Bound is part of Statuses.
func (noStatuses) Bound(types.UID) {}

// tellMembers reports to the members of all gangs whose report is due.
func (t *reporter) tellMembers(now time.Time) {
	left := tellBatch
	for _, key := range t.gangs.ReportsDue(now) {
		if left -= t.tellGang(nameOf(key), left, now); left <= 0 {
			return
		}
	}
}

// tellGang reports to pending members of a gang, and returns the number of reports. most bounds
// that number.
func (t *reporter) tellGang(key types.NamespacedName, most int, now time.Time) int {
	g, ok := t.index.Groups.Group(key)
	members := t.placements.Members(key)
	if len(members.Pending) == 0 || ok && !g.IsGang() {
		t.gangs.DropReport(gangKey(key))
		return 0
	}
	if !ok {
		g = nil
	}
	gang.SortByAge(members.Pending)
	word := t.wordFor(key, g, &members)
	pods := make(map[string]*corev1.Pod, len(members.Pending))
	var pending, outdated []string
	for _, pod := range members.Pending {
		uid := string(pod.UID)
		pods[uid], pending = pod, append(pending, uid)
		isOurs := t.index.Profiles.Of(pod.Spec.SchedulerName) != nil
		if isOurs && !members.Reserved.Has(pod.UID) && !t.records.IsAssumed(uid) && word.isMissing(pod) && !t.isHeldItself(pod) {
			outdated = append(outdated, uid)
		}
	}
	told := t.gangs.Report(gangKey(key), pending, outdated, most, now)
	for _, uid := range told {
		t.statuses.Say(pods[uid], word.condition(pods[uid]))
	}
	if len(told) > 0 {
		logging.Of(context.Background(), gangKey(key)).V(4).Info("Reported to members why they are pending", "members", len(told), "reason", word.Reason)
	}
	return len(told)
}

// isHeldItself reports whether a member is blocked for a reason that does not concern its gang.
// Other code reports that reason, and added room would not help.
func (t *reporter) isHeldItself(pod *corev1.Pod) bool {
	return t.index.Derived.Hold(pod) != gang.Verdict{} || gang.Outranked(t.index.Derived, t.index.Groups, pod) != gang.Verdict{}
}

// gangReport is the report to the pending members of a gang.
type gangReport struct {
	gang.Verdict
	// leader is the UID of the member whose condition the framework writes; "" for none.
	leader string
}

// wordFor returns the report that the pending members of a gang need now. g is nil if the group
// does not exist. If the gate blocks the members, its reason takes precedence over the verdict of
// an earlier decision.
func (t *reporter) wordFor(key types.NamespacedName, g *gang.Group, members *gang.Members) gangReport {
	verdict := t.gangs.BeginReport(gangKey(key))
	held := gang.Gate(key, g, members)
	if held == (gang.Verdict{}) && g != nil && t.ledger.AsksForQueues() {
		held = t.ledger.ClaimOfGroup(g, members).Bar
	}
	if v := t.gangs.Verdict(gangKey(key)); held == (gang.Verdict{}) && v.Reason == v1alpha1.ReasonDriversWithoutWorkers {
		held = v
	}
	if held != (gang.Verdict{}) {
		t.gangs.FoundRoom(gangKey(key))
		return gangReport{Verdict: held}
	}
	leader := t.gangs.Leader(gangKey(key))
	if verdict == (gang.Verdict{}) && t.lacksNodes(leader, members.Pending) {
		verdict = gang.Verdict{Reason: v1alpha1.ReasonUnschedulable, Message: kubescheduler.ErrNoNodesAvailable.Error()}
	}
	return gangReport{Verdict: verdict, leader: leader}
}

// lacksNodes reports whether the leader was rejected because the cluster has no nodes. Without
// nodes, the framework runs no plugin in the leader's cycle.
func (t *reporter) lacksNodes(leader string, pending []*corev1.Pod) bool {
	i := slices.IndexFunc(pending, func(pod *corev1.Pod) bool { return string(pod.UID) == leader })
	if i < 0 || !isUnschedulable(pending[i]) {
		return false
	}
	nodes, err := t.index.Nodes.List(labels.Everything())
	return err == nil && len(nodes) == 0
}

// isMissing reports whether a member still needs the condition of this report. A member needs the
// condition if the gang lacks room, or if its present condition reports a lack of room that is
// outdated. The leader never needs it, because the framework writes the condition of the leader.
func (w *gangReport) isMissing(pod *corev1.Pod) bool {
	switch unschedulable := isUnschedulable(pod); {
	case w.Verdict == gang.Verdict{}:
		return false
	case unschedulable && string(pod.UID) == w.leader:
		return false
	case lacksRoom(w.Verdict):
		return !unschedulable || cluster.ScheduledCondition(pod).Message != w.Message
	default:
		return unschedulable
	}
}

// condition returns the condition of this report for a member.
func (w *gangReport) condition(pod *corev1.Pod) corev1.PodCondition {
	reason := w.Reason
	if lacksRoom(w.Verdict) {
		reason = corev1.PodReasonUnschedulable
	}
	return corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: w.Message,
		ObservedGeneration: podutil.CalculatePodConditionObservedGeneration(&pod.Status, pod.Generation, corev1.PodScheduled),
	}
}

// isUnschedulable reports whether the PodScheduled condition of a pod reports a lack of room.
func isUnschedulable(pod *corev1.Pod) bool {
	c := cluster.ScheduledCondition(pod)
	return c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
}

// whyHeld returns the message for a member that is in its cycle, although another member plans for
// the gang or the plan leaves the member out.
func (t *reporter) whyHeld(key types.NamespacedName, admission engine.Admission) string {
	if v := t.gangs.Verdict(gangKey(key)); lacksRoom(v) {
		return v.Message
	}
	if admission == engine.HoldForPlan {
		return string(admission)
	}
	return "the gang is being planned again"
}
