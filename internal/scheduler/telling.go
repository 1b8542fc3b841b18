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
	// tellDelay is how long a gang has to be without room before its members say so: most find some at once.
	tellDelay = time.Second
	// retellDelay is how long a member says what it says, whatever the message becomes: it has counts in it that change.
	retellDelay = 10 * time.Second
	// tellBatch is how many members are told with each tick of [Hub.run].
	tellBatch = 100
)

// telling keeps what the members of gangs are to say of themselves, and when. The framework speaks of pods that were in a
// cycle, and of a gang that is one member; the others wait in PreEnqueue, of which it says nothing. It is plain memory: the
// Hub hands in the time, and writes. The zero value is ready to use, and safe for concurrent use.
type telling struct {
	mu    sync.Mutex
	gangs map[types.NamespacedName]*news
}

// news is what there is to tell of one gang.
type news struct {
	// verdict is what the last decision that found no room said; zero for none, or since there is room.
	verdict gang.Verdict
	// since is when it was first without room.
	since time.Time
	// look is when its members are to be looked at next; zero for not before something happens.
	look time.Time
	// heard is when a member was told last, by UID.
	heard map[types.UID]time.Time
}

// lacksRoom reports whether a verdict says that the members cannot be placed for want of room. For other reasons no room that
// is added would help, and a cluster autoscaler is not to add any.
func lacksRoom(v gang.Verdict) bool {
	return v.Reason == v1alpha1.ReasonUnschedulable || v.Reason == v1alpha1.ReasonPreempting
}

// say records what a decision has said of a gang.
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

// touch has the members of a gang looked at: they, or what is said of them in the API, have changed.
func (t *telling) touch(key types.NamespacedName, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(key).lookBy(now.Add(tellDelay))
}

// retouch is touch for a gang of which something is known already: members of others need not be looked at.
func (t *telling) retouch(key types.NamespacedName, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.gangs[key]; n != nil {
		n.lookBy(now.Add(tellDelay))
	}
}

// found records that a gang has room: what was said of it before is not told any more.
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

// due are the gangs that are to be looked at, those first that have waited longest.
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

// verdict is what a gang is told that is being looked at. It is not looked at again before something happens, or tell says so.
func (t *telling) verdict(key types.NamespacedName) gang.Verdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.of(key)
	n.look = time.Time{}
	return n.verdict
}

// tell picks those members that are told now, at most so many, out of all that are still pending and those among them that do
// not say what they should. The others are looked at later. What it knows of members that are not pending any more it forgets.
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

// Len counts the gangs that there is something to remember of, for tests that look for leaks.
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

// lookBy has the members looked at by a moment, or before that if they are to be anyway.
func (n *news) lookBy(at time.Time) {
	if n.look.IsZero() || at.Before(n.look) {
		n.look = at
	}
}

// nothing reports that there is nothing to remember.
func (n *news) nothing() bool {
	return n.verdict == gang.Verdict{} && n.look.IsZero() && len(n.heard) == 0
}

// Statuses writes what is said of pending pods outside of their own cycles.
type Statuses interface {
	// Say has the API show a condition of a pod, unless it does already or the pod is bound, and returns at once.
	Say(pod *corev1.Pod, condition corev1.PodCondition)
	// Bound is told of a pod that has its node, so that no more is said of why it waits.
	Bound(uid types.UID)
}

// unsaid is where there is nothing that writes.
type unsaid struct{}

// Say is part of Statuses.
func (unsaid) Say(*corev1.Pod, corev1.PodCondition) {}

// Bound is part of Statuses.
func (unsaid) Bound(types.UID) {}

// tellMembers has the members of gangs say why they are not placed, as far as it is time.
func (t *teller) tellMembers(now time.Time) {
	left := tellBatch
	for _, key := range t.due(now) {
		if left -= t.tellGang(key, left, now); left <= 0 {
			return
		}
	}
}

// tellGang tells the members of one gang, at most so many, and counts them.
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

// isHeldItself reports whether a member is held back whatever its gang is. It says why by itself, and no room that is added would help it.
func (r *roster) isHeldItself(pod *corev1.Pod) bool {
	return r.derived.Hold(pod) != gang.Verdict{} || gang.Outranked(r.derived, r.groups, pod) != gang.Verdict{}
}

// word is what the pending members of a gang say.
type word struct {
	gang.Verdict
	// leader is the member of which the framework speaks, or "".
	leader types.UID
}

// wordFor is what the pending members of a gang say now; the group is nil where there is none any more. What holds them in PreEnqueue comes before what a
// decision said when it did not.
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

// lacksNodes reports whether a leader came to nothing because there is no node at all. Its cycle ends before any plugin is
// asked.
func (r *roster) lacksNodes(leader types.UID, pending []*corev1.Pod) bool {
	i := slices.IndexFunc(pending, func(pod *corev1.Pod) bool { return pod.UID == leader })
	if i < 0 || !isUnschedulable(pending[i]) {
		return false
	}
	nodes, err := r.nodes.List(labels.Everything())
	return err == nil && len(nodes) == 0
}

// isMissing reports whether a member does not say what it should. Of the leader the framework has said the same in its own
// words, or will. A member that says it lacks room is to say so no more where it is held for another reason; one that has never
// said so need not hear of that.
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

// condition is what a member says.
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

// scheduledCondition is what a pod says of its being scheduled; nil for nothing.
func scheduledCondition(pod *corev1.Pod) *corev1.PodCondition {
	_, c := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled)
	return c
}

// isUnschedulable reports whether a pod says that it lacks room.
func isUnschedulable(pod *corev1.Pod) bool {
	c := scheduledCondition(pod)
	return c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
}

// whyHeld is what a member is told that comes to its cycle when another one plans for the gang, or the gang is being placed
// without it.
func (o *occupancy) whyHeld(key types.NamespacedName, admission gang.Admission) string {
	if v := o.registry.Verdict(key); lacksRoom(v) {
		return v.Message
	}
	if admission == gang.HoldForPlan {
		return string(admission)
	}
	return "the gang is being planned again"
}
