package reporter

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

// lacksRoom reports whether the reason of a verdict is a lack of room. The reporter reports a lack
// of room in a form that makes a cluster autoscaler add nodes. For any other reason, added nodes
// would not help.
func lacksRoom(v gang.Verdict) bool {
	return v.Reason == v1alpha1.ReasonUnschedulable || v.Reason == v1alpha1.ReasonPreempting
}

// NoRoom records the verdict of a decision that found no room for a gang. A later tick reports the
// verdict to the members.
func (t *Reporter) NoRoom(key workload.Key, v gang.Verdict) {
	t.gangs.FoundNoRoom(key, v, lacksRoom(v), t.clock.Now())
}

// ReportMembers reports to the pending members of all gangs whose report is due. The main loop
// calls it.
func (t *Reporter) ReportMembers(now time.Time) {
	left := maxReports
	for _, key := range t.gangs.ReportsDue(now) {
		if left -= t.reportGang(gang.NameOf(key), left, now); left <= 0 {
			return
		}
	}
}

// reportGang reports to pending members of a gang, and returns the number of reports. most bounds
// that number.
func (t *Reporter) reportGang(key types.NamespacedName, most int, now time.Time) int {
	g, ok := t.index.Groups.Group(key)
	members := t.placements.Members(key)
	if len(members.Pending) == 0 || ok && !g.IsGang() {
		t.gangs.DropReport(gang.KeyOf(key))
		return 0
	}
	if !ok {
		g = nil
	}
	gang.SortByAge(members.Pending)
	report := t.reportFor(key, g, &members)
	pods := make(map[string]*corev1.Pod, len(members.Pending))
	var pending, outdated []string
	for _, pod := range members.Pending {
		uid := string(pod.UID)
		pods[uid], pending = pod, append(pending, uid)
		isOurs := t.index.Profiles.Of(pod.Spec.SchedulerName) != nil
		if isOurs && !members.Reserved.Has(pod.UID) && !t.records.IsAssumed(uid) && report.isMissing(pod) && !t.isBlockedItself(pod) {
			outdated = append(outdated, uid)
		}
	}
	reported := t.gangs.Report(gang.KeyOf(key), pending, outdated, most, now)
	for _, uid := range reported {
		t.statuses.Say(pods[uid], Condition(pods[uid], report.Verdict))
	}
	if len(reported) > 0 {
		logging.Of(context.Background(), gang.KeyOf(key)).V(4).Info("Reported to members why they are pending", "members", len(reported), "reason", report.Reason)
	}
	return len(reported)
}

// isBlockedItself reports whether a member is blocked for a reason that does not concern its gang.
// Other code reports that reason, and added room would not help.
func (t *Reporter) isBlockedItself(pod *corev1.Pod) bool {
	return t.index.Derived.Hold(pod) != gang.Verdict{} || gang.Outranked(t.index.Derived, t.index.Groups, pod) != gang.Verdict{}
}

// gangReport is the report to the pending members of a gang.
type gangReport struct {
	gang.Verdict
	// leader is the UID of the member whose condition the framework writes; "" for none.
	leader string
}

// reportFor returns the report that the pending members of a gang need now. g is nil if the group
// does not exist. If the gate blocks the members, its reason takes precedence over the verdict of
// an earlier decision.
func (t *Reporter) reportFor(key types.NamespacedName, g *gang.Group, members *gang.Members) gangReport {
	verdict := t.gangs.BeginReport(gang.KeyOf(key))
	blocked := gang.Gate(key, g, members)
	if blocked == (gang.Verdict{}) && g != nil && t.ledger.AsksForQueues() {
		blocked = t.ledger.ClaimOfGroup(g, members).Bar
	}
	if v := t.gangs.Verdict(gang.KeyOf(key)); blocked == (gang.Verdict{}) && v.Reason == v1alpha1.ReasonDriversWithoutWorkers {
		blocked = v
	}
	if blocked != (gang.Verdict{}) {
		t.gangs.FoundRoom(gang.KeyOf(key))
		return gangReport{Verdict: blocked}
	}
	leader := t.gangs.Leader(gang.KeyOf(key))
	if verdict == (gang.Verdict{}) && t.lacksNodes(leader, members.Pending) {
		verdict = gang.Verdict{Reason: v1alpha1.ReasonUnschedulable, Message: kubescheduler.ErrNoNodesAvailable.Error()}
	}
	return gangReport{Verdict: verdict, leader: leader}
}

// lacksNodes reports whether the leader was rejected because the cluster has no nodes. Without
// nodes, the framework runs no plugin in the leader's cycle.
func (t *Reporter) lacksNodes(leader string, pending []*corev1.Pod) bool {
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
func (r *gangReport) isMissing(pod *corev1.Pod) bool {
	switch unschedulable := isUnschedulable(pod); {
	case r.Verdict == gang.Verdict{}:
		return false
	case unschedulable && string(pod.UID) == r.leader:
		return false
	case lacksRoom(r.Verdict):
		return !unschedulable || cluster.ScheduledCondition(pod).Message != r.Message
	default:
		return unschedulable
	}
}

// Condition returns the condition of a pending pod that reports a verdict.
func Condition(pod *corev1.Pod, v gang.Verdict) corev1.PodCondition {
	reason := v.Reason
	if lacksRoom(v) {
		reason = corev1.PodReasonUnschedulable
	}
	return corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: v.Message,
		ObservedGeneration: podutil.CalculatePodConditionObservedGeneration(&pod.Status, pod.Generation, corev1.PodScheduled),
	}
}

// isUnschedulable reports whether the PodScheduled condition of a pod reports a lack of room.
func isUnschedulable(pod *corev1.Pod) bool {
	c := cluster.ScheduledCondition(pod)
	return c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
}

// WhyHeld returns the message for a member that is in its cycle, although another member plans for
// the gang or the plan leaves the member out.
func (t *Reporter) WhyHeld(key types.NamespacedName, admission engine.Admission) string {
	if v := t.gangs.Verdict(gang.KeyOf(key)); lacksRoom(v) {
		return v.Message
	}
	if admission == engine.HoldForPlan {
		return string(admission)
	}
	return "the gang is being planned again"
}
