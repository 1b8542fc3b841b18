package scheduler

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

const (
	// tellDelay is how long a gang must be without room before its members report it. Most gangs
	// find room at once.
	tellDelay = time.Second
	// retellDelay is how long a member keeps its message, even if the message changes. The message
	// has counts that change often.
	retellDelay = 10 * time.Second
	// tellBatch is the maximum number of members that get a report in each tick of the main loop.
	tellBatch = 100
)

// telling holds the reports on gang members, and when to write them. The framework reports only on
// pods that had a cycle, and a gang has one such member. The other members wait in PreEnqueue, and
// the framework reports nothing on them. telling only keeps data: the caller passes the time, and
// writes. The zero value is ready to use, and safe for concurrent use.
type telling struct {
	mu    sync.Mutex
	gangs map[types.NamespacedName]*news
}

// news is the report on one gang.
type news struct {
	// verdict is the verdict of the last decision that found no room; zero if there was none, or
	// there is room since.
	verdict gang.Verdict
	// since is when the gang was first without room.
	since time.Time
	// look is when to check the members next; zero to wait for an event.
	look time.Time
	// heard is when each member got its last report, by UID.
	heard map[types.UID]time.Time
}

// lacksRoom reports whether a verdict says that the members lack room. For other reasons added room
// would not help, so a cluster autoscaler must not add any.
func lacksRoom(v gang.Verdict) bool {
	return v.Reason == v1alpha1.ReasonUnschedulable || v.Reason == v1alpha1.ReasonPreempting
}

// say records the verdict of a decision on a gang.
func (t *telling) say(key types.NamespacedName, v gang.Verdict, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.of(key)
	if !lacksRoom(v) {
		n.since = time.Time{}
	} else if n.since.IsZero() {
		n.since = now
	}
	n.verdict = v
	n.lookBy(now.Add(tellDelay))
}

// touch schedules a check of a gang's members, because they or their conditions in the API have
// changed.
func (t *telling) touch(key types.NamespacedName, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(key).lookBy(now.Add(tellDelay))
}

// retouch is touch for a gang with a record. Members of other gangs need no check.
func (t *telling) retouch(key types.NamespacedName, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.gangs[key]; n != nil {
		n.lookBy(now.Add(tellDelay))
	}
}

// found records that a gang has room. The previous verdict is not reported any more.
func (t *telling) found(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.gangs[key]; n != nil {
		n.verdict, n.since = gang.Verdict{}, time.Time{}
	}
}

// drop forgets a gang.
func (t *telling) drop(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.gangs, key)
}

// due returns the gangs whose members must be checked, longest waiting first.
func (t *telling) due(now time.Time) []types.NamespacedName {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []types.NamespacedName
	for key, n := range t.gangs {
		if !n.look.IsZero() && !n.look.After(now) {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, func(a, b types.NamespacedName) int {
		return cmp.Or(t.gangs[a].look.Compare(t.gangs[b].look), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// verdict returns the verdict to report on a gang, and clears the time of the next check. The gang
// is checked again after an event, or when tell schedules it.
func (t *telling) verdict(key types.NamespacedName) gang.Verdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.of(key)
	n.look = time.Time{}
	return n.verdict
}

// tell picks the members that get a report now, no more than most of them. pending are all pending
// members, and wrong are the pending members with an outdated condition. tell schedules a later
// check for the other wrong members, and forgets members that are not pending any more.
func (t *telling) tell(key types.NamespacedName, pending, wrong []types.UID, most int, now time.Time) (told []types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.of(key)
	heard := make(map[types.UID]time.Time, len(n.heard))
	for _, uid := range pending {
		if at, ok := n.heard[uid]; ok {
			heard[uid] = at
		}
	}
	n.heard = heard
	if v := n.verdict; lacksRoom(v) && now.Sub(n.since) < tellDelay && len(wrong) > 0 {
		n.lookBy(n.since.Add(tellDelay))
		return nil
	}
	for _, uid := range wrong {
		again := n.heard[uid].Add(retellDelay)
		switch {
		case !n.heard[uid].IsZero() && again.After(now):
			n.lookBy(again)
		case len(told) == most:
			n.lookBy(now)
		default:
			told = append(told, uid)
			n.heard[uid] = now
			n.lookBy(now.Add(retellDelay))
		}
	}
	if n.nothing() {
		delete(t.gangs, key)
	}
	return told
}

// Len returns the number of gangs with a record, for tests that look for leaks.
func (t *telling) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.gangs)
}

func (t *telling) of(key types.NamespacedName) *news {
	if t.gangs == nil {
		t.gangs = make(map[types.NamespacedName]*news)
	}
	if t.gangs[key] == nil {
		t.gangs[key] = &news{}
	}
	return t.gangs[key]
}

// lookBy schedules a check of the members, unless an earlier one is scheduled.
func (n *news) lookBy(at time.Time) {
	if n.look.IsZero() || at.Before(n.look) {
		n.look = at
	}
}

// nothing reports whether the record is empty.
func (n *news) nothing() bool {
	return n.verdict == gang.Verdict{} && n.look.IsZero() && len(n.heard) == 0
}

// Statuses writes conditions of pending pods outside of their cycles.
type Statuses interface {
	// Say writes a condition of a pod to the API, unless the pod has it already or is bound. It
	// returns at once.
	Say(pod *corev1.Pod, condition corev1.PodCondition)
	// Bound reports that a pod has its node, so that no more conditions are written for it.
	Bound(uid types.UID)
}

// unsaid is the Statuses that writes nothing.
type unsaid struct{}

// Say is part of Statuses.
func (unsaid) Say(*corev1.Pod, corev1.PodCondition) {}

// Bound is part of Statuses.
func (unsaid) Bound(types.UID) {}

// tellMembers reports why members of gangs are not placed, for the gangs that are due.
func (t *teller) tellMembers(now time.Time) {
	left := tellBatch
	for _, key := range t.due(now) {
		if left -= t.tellGang(key, left, now); left <= 0 {
			return
		}
	}
}

// tellGang reports on up to most members of one gang, and returns their number.
func (t *teller) tellGang(key types.NamespacedName, most int, now time.Time) int {
	g, ok := t.groups.Group(key)
	members := t.members(key)
	if len(members.Pending) == 0 || ok && !g.IsGang() {
		t.drop(key)
		return 0
	}
	if !ok {
		g = nil
	}
	gang.SortByAge(members.Pending)
	word := t.wordFor(key, g, &members)
	pods := make(map[types.UID]*corev1.Pod, len(members.Pending))
	var pending, wrong []types.UID
	for _, pod := range members.Pending {
		pods[pod.UID], pending = pod, append(pending, pod.UID)
		isOurs := t.profiles.of(pod.Spec.SchedulerName) != nil
		if isOurs && !members.Reserved.Has(pod.UID) && !t.records.IsAssumed(string(pod.UID)) && word.isMissing(pod) && !t.isHeldItself(pod) {
			wrong = append(wrong, pod.UID)
		}
	}
	told := t.tell(key, pending, wrong, most, now)
	for _, uid := range told {
		t.statuses.Say(pods[uid], word.condition(pods[uid]))
	}
	if len(told) > 0 {
		logOf(context.Background(), gangKey(key)).V(4).Info("Told members what keeps them pending", "members", len(told), "reason", word.Reason)
	}
	return len(told)
}

// isHeldItself reports whether a member is blocked regardless of its gang. Another part reports the
// cause, and added room would not help.
func (r *roster) isHeldItself(pod *corev1.Pod) bool {
	return r.derived.Hold(pod) != gang.Verdict{} || gang.Outranked(r.derived, r.groups, pod) != gang.Verdict{}
}

// word is the report for the pending members of a gang.
type word struct {
	gang.Verdict
	// leader is the member that the framework reports on, or "".
	leader types.UID
}

// wordFor returns the current report for the pending members of a gang. g is nil if the group does
// not exist any more. A cause in PreEnqueue takes precedence over the verdict of an earlier
// decision.
func (t *teller) wordFor(key types.NamespacedName, g *gang.Group, members *gang.Members) word {
	verdict := t.verdict(key)
	held := gang.Gate(key, g, members)
	if held == (gang.Verdict{}) && g != nil && t.asksForQueues() {
		held = t.claimOfGroup(g, members).Bar
	}
	if v := t.registry.Verdict(key); held == (gang.Verdict{}) && v.Reason == v1alpha1.ReasonDriversWithoutWorkers {
		held = v
	}
	if held != (gang.Verdict{}) {
		t.found(key)
		return word{Verdict: held}
	}
	leader := t.registry.Leader(key)
	if verdict == (gang.Verdict{}) && t.lacksNodes(leader, members.Pending) {
		verdict = gang.Verdict{Reason: v1alpha1.ReasonUnschedulable, Message: kubescheduler.ErrNoNodesAvailable.Error()}
	}
	return word{Verdict: verdict, leader: leader}
}

// lacksNodes reports whether a leader failed because there is no node at all. Its cycle ends before
// any plugin runs.
func (r *roster) lacksNodes(leader types.UID, pending []*corev1.Pod) bool {
	i := slices.IndexFunc(pending, func(pod *corev1.Pod) bool { return pod.UID == leader })
	if i < 0 || !isUnschedulable(pending[i]) {
		return false
	}
	nodes, err := r.nodes.List(labels.Everything())
	return err == nil && len(nodes) == 0
}

// isMissing reports whether the condition of a member is outdated. The framework reports on the
// leader in its own words. If a member reports a lack of room and is blocked for another reason
// now, its condition is outdated. A member that never reported a lack of room needs no such update.
func (w *word) isMissing(pod *corev1.Pod) bool {
	switch unschedulable := isUnschedulable(pod); {
	case w.Verdict == gang.Verdict{}:
		return false
	case unschedulable && pod.UID == w.leader:
		return false
	case lacksRoom(w.Verdict):
		return !unschedulable || scheduledCondition(pod).Message != w.Message
	default:
		return unschedulable
	}
}

// condition returns the condition for a member.
func (w *word) condition(pod *corev1.Pod) corev1.PodCondition {
	reason := w.Reason
	if lacksRoom(w.Verdict) {
		reason = corev1.PodReasonUnschedulable
	}
	return corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: w.Message,
		ObservedGeneration: podutil.CalculatePodConditionObservedGeneration(&pod.Status, pod.Generation, corev1.PodScheduled),
	}
}

// scheduledCondition returns the PodScheduled condition of a pod; nil if there is none.
func scheduledCondition(pod *corev1.Pod) *corev1.PodCondition {
	_, c := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled)
	return c
}

// isUnschedulable reports whether the condition of a pod says that it lacks room.
func isUnschedulable(pod *corev1.Pod) bool {
	c := scheduledCondition(pod)
	return c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
}

// whyHeld returns the message for a member whose cycle comes while another member plans for the
// gang, or while the gang is placed without it.
func (o *occupancy) whyHeld(key types.NamespacedName, admission gang.Admission) string {
	if v := o.registry.Verdict(key); lacksRoom(v) {
		return v.Message
	}
	if admission == gang.HoldForPlan {
		return string(admission)
	}
	return "the gang is being planned again"
}
