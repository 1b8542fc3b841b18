package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/native"
)

// conflictDelay is how long to wait for the cache after somebody else wrote first.
const conflictDelay = 100 * time.Millisecond

// longestDelay is how long something is put off at most that the API server refuses again and again.
const longestDelay = 30 * time.Second

// While a controller is still creating members, or the cluster is changing, a verdict changes all the time.
const (
	// settleDelay is how long a verdict has to stand before the members hear of it.
	settleDelay = time.Second
	// longestSettling is how long its reason has to, if its message keeps changing.
	longestSettling = 5 * time.Second
	// makingDelay is both while room is made: that passes by itself, the members' conditions say it within seconds, and an event for
	// each would be in the way of the evictions. By then, most pods that are asked to have ended.
	makingDelay = 30 * time.Second
	// repeatDelay is how long members hear nothing more for the same reason, whatever the message.
	repeatDelay = time.Minute
)

// Members lists the members of a group.
type Members interface {
	Members(key types.NamespacedName) gang.Members
}

// WaitingMembers knows the members of a group, and what is in the way of those that wait.
type WaitingMembers interface {
	Members
	// KeptOut says why none of the members that wait can be tried, whatever room there is; "" where one can.
	KeptOut(members *gang.Members) string
}

// Status keeps the status of PodGroups and tells pending members, by events, what keeps them pending.
type Status struct {
	client   client.Client
	members  WaitingMembers
	source   gang.Source
	profiles sets.Set[string]
	registry *gang.Registry
	runs     *gang.Runs
	queues   Queues
	recorder events.EventRecorder
	// recorderOf is the recorder of a profile; nil where recorder is everybody's.
	recorderOf func(profile string) events.EventRecorder
	// groupFor describes derived groups; nil where there are none.
	groupFor func(key types.NamespacedName) (grouping.Group, bool)
	clock    clock.PassiveClock
	told     map[types.NamespacedName]*told
	// oldest is told since when the oldest gang waits for nodes; nil where nobody asks.
	oldest func(since time.Time)
}

var _ reconcile.Reconciler = (*Status)(nil)

// told is what the members of one group have heard.
type told struct {
	verdict gang.Verdict
	// refused are those that name two groups, and know it.
	refused sets.Set[types.UID]
	// since and reasonSince are when the verdict, and its reason, came up.
	since, reasonSince time.Time
	pods               map[types.UID]heard
	// emptySince is since when the group has had no pods, and emptyTold whether that has been said.
	emptySince time.Time
	emptyTold  bool
	// pendingSince is since when the group waits for nodes with all members that it needs; zero
	// where it does not. It is known of groups that were looked at before.
	pendingSince time.Time
	looked       bool
	// ours is a PodGroup of scheduling.k8s.io whose last members were for a profile that runs here.
	ours types.UID
}

// heard is what one member has heard last.
type heard struct {
	verdict gang.Verdict
	at      time.Time
}

// NewStatus returns the status reconciler, for PodGroups that it finds in source and reads and writes with c. Of
// those of scheduling.k8s.io it leaves alone which have no members in one of the profiles. It must be run with
// one worker: it keeps what it has told.
func NewStatus(c client.Client, members WaitingMembers, source gang.Source, profiles sets.Set[string], registry *gang.Registry, runs *gang.Runs, queues Queues, recorder events.EventRecorder, clk clock.PassiveClock) *Status {
	return &Status{
		client: c, members: members, source: source, profiles: profiles, registry: registry, runs: runs, queues: queues, recorder: recorder, clock: clk,
		told: make(map[types.NamespacedName]*told),
	}
}

// RecordAs has pods told in the name of the profile that they are for. Nil leaves it at one name for all.
func (s *Status) RecordAs(of func(profile string) events.EventRecorder) { s.recorderOf = of }

// DerivedFrom sets what describes derived groups: one whose object is over says so.
func (s *Status) DerivedFrom(of func(key types.NamespacedName) (grouping.Group, bool)) {
	s.groupFor = of
}

// Reconcile brings the status of one PodGroup up to date, or tells the members of one that does not exist.
func (s *Status) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	m := s.members.Members(req.NamespacedName)
	var pg v1alpha1.PodGroup
	err := s.client.Get(ctx, req.NamespacedName, &pg)
	s.tellRefused(req.NamespacedName, m.Refused)
	if apierrors.IsNotFound(err) {
		if len(m.Pending)+len(m.Refused) == 0 {
			delete(s.told, req.NamespacedName)
			s.countPending()
			return reconcile.Result{}, nil
		}
		// One that is to be made may say more.
		return s.tell(req.NamespacedName, &m, cmp.Or(s.registry.Unresolved(req.NamespacedName), gang.Gate(req.NamespacedName, nil, &m))), nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("get PodGroup %s: %w", req, err)
	}
	if native.IsNative(&pg) && !s.isOurs(&pg, &m) {
		return reconcile.Result{}, nil
	}
	g := s.groupOf(&pg)
	verdict, scheduled := s.verdict(g, &m)
	before := pg.DeepCopy()
	run := s.runs.Look(s.knownAs(g), s.clock.Now())
	s.setStatus(&pg, g, &m, run, verdict, scheduled)
	s.notePending(req.NamespacedName, &pg, g, &m, scheduled)
	if !apiequality.Semantic.DeepEqual(before.Status, pg.Status) {
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := s.client.Status().Patch(ctx, &pg, patch); err != nil {
			return retryConflict(fmt.Errorf("write status of PodGroup %s: %w", req, err))
		}
		s.tellDegraded(before, &pg)
	}
	if scheduled {
		verdict = gang.Verdict{}
	}
	result := s.tell(req.NamespacedName, &m, verdict)
	for _, soon := range []time.Duration{s.soonShort(run), s.soonDegraded(run), s.tellEmpty(before, &m)} {
		if soon > 0 && (result.RequeueAfter == 0 || soon < result.RequeueAfter) {
			result.RequeueAfter = soon
		}
	}
	return result, nil
}

// verdict says whether the group is scheduled, and if not, why.
func (s *Status) verdict(g *gang.Group, m *gang.Members) (gang.Verdict, bool) {
	need := max(g.MinCount, 1)
	if have := m.Placed(); have >= need && g.Template == "" {
		msg := fmt.Sprintf("%d members have a node", have)
		if g.IsGang() {
			msg = fmt.Sprintf("%d members have a node, %d are needed", have, g.MinCount)
		}
		if n := len(m.Succeeded); n > 0 {
			msg += fmt.Sprintf("; %d of them have succeeded", n)
		}
		if v := s.flaw(g, m); v != (gang.Verdict{}) {
			msg += "; " + v.Message
		}
		return gang.Verdict{Reason: v1alpha1.ReasonScheduled, Message: msg}, true
	}
	if v := s.flaw(g, m); v != (gang.Verdict{}) {
		return v, false
	}
	if v := s.over(g, m); v != (gang.Verdict{}) {
		return v, false
	}
	if v := gang.Gate(g.Key, g, m); v != (gang.Verdict{}) {
		return v, false
	}
	if v := s.unserved(m); v != (gang.Verdict{}) {
		return v, false
	}
	switch v := s.registry.Verdict(g.Key); v.Reason {
	case v1alpha1.ReasonUnschedulable, v1alpha1.ReasonPreempting, v1alpha1.ReasonPending, v1alpha1.ReasonBehindItsObject, v1alpha1.ReasonPriorityAbovePods, v1alpha1.ReasonQueueNotFound,
		v1alpha1.ReasonQueueNotLeaf, v1alpha1.ReasonQueueUnusable, v1alpha1.ReasonQueueLimit,
		v1alpha1.ReasonQueueNotAllowed, v1alpha1.ReasonPriorityAboveQueue, v1alpha1.ReasonQueueRequired,
		v1alpha1.ReasonDriversWithoutWorkers:
		return v, false
	}
	message := "waiting for its turn"
	if why := s.members.KeptOut(m); why != "" {
		message = "no member can be scheduled: " + why
	}
	return gang.Verdict{Reason: v1alpha1.ReasonPending, Message: message}, false
}

// flaw says what is wrong with a group itself, however its members are.
func (s *Status) flaw(g *gang.Group, m *gang.Members) gang.Verdict {
	switch {
	case g.Ambiguous:
		return gang.Gate(g.Key, g, m)
	case !g.IsResolved():
		return s.registry.Unresolved(g.Key)
	default:
		return gang.Verdict{}
	}
}

// over says of a group whose object is over, and of which there are only pods that have finished, that no more members are to come.
func (s *Status) over(g *gang.Group, m *gang.Members) gang.Verdict {
	if s.groupFor == nil || len(living(m))+len(m.Terminating)+len(m.Refused) > 0 {
		return gang.Verdict{}
	}
	derived, ok := s.groupFor(g.Key)
	if !ok || !derived.Finished {
		return gang.Verdict{}
	}
	return gang.Verdict{
		Reason: v1alpha1.ReasonWorkIsOver,
		Message: fmt.Sprintf("%s %s, for which PodGroup %s was made, is over, and none of its pods runs or waits",
			derived.Owner.Kind, derived.Owner.Name, g.Key),
	}
}

func (s *Status) setStatus(pg *v1alpha1.PodGroup, g *gang.Group, m *gang.Members, run gang.Run, v gang.Verdict, scheduled bool) {
	running := 0
	for _, pod := range m.Assigned {
		if pod.Status.Phase == corev1.PodRunning {
			running++
		}
	}
	st := &pg.Status
	st.Pending = int32(len(m.Pending) + len(m.Gated))
	st.Scheduled = int32(len(m.Assigned))
	st.Running = int32(running)
	st.Terminating = int32(len(m.Terminating))
	st.Finished = int32(len(m.Succeeded) + len(m.Finished))
	st.StartTime = nil
	if !run.Start.IsZero() {
		st.StartTime = &metav1.Time{Time: run.Start}
	}
	s.setQueueStatus(pg, g, m)
	set := func(kind string, on bool, reason, message string) {
		status := metav1.ConditionFalse
		if on {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&st.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: pg.Generation,
		})
	}
	set(v1alpha1.ConditionPodGroupScheduled, scheduled, v.Reason, v.Message)
	setDegraded(pg, g, m, run.DegradedSince, s.clock.Now())
	st.Phase = phaseOf(st, g, m, scheduled)
	pods := slices.Concat(m.Pending, m.Gated, m.Assigned)
	odd := mismatch(pods, g.Priority)
	switch {
	case odd != nil:
		set(v1alpha1.ConditionPodsNotMatchingPriority, true, v1alpha1.ReasonPodsNotMatchingPriority,
			fmt.Sprintf("pod %s has another priority than its PodGroup; the PodGroup's (%d) counts", odd.Name, *g.Priority))
	case meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionPodsNotMatchingPriority):
		set(v1alpha1.ConditionPodsNotMatchingPriority, false, v1alpha1.ReasonPodsMatchingPriority, "all members have the PodGroup's priority")
	}
}

// phaseOf sums a status up.
func phaseOf(st *v1alpha1.PodGroupStatus, g *gang.Group, m *gang.Members, scheduled bool) v1alpha1.PodGroupPhase {
	need := max(g.MinCount, 1)
	switch {
	case st.Disruption != nil:
		return v1alpha1.PodGroupDisrupted
	case len(m.Succeeded) >= need && st.Scheduled+st.Pending == 0:
		return v1alpha1.PodGroupSucceeded
	case scheduled && int(st.Running)+len(m.Succeeded) >= need:
		return v1alpha1.PodGroupRunning
	case scheduled:
		return v1alpha1.PodGroupScheduled
	case meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionDegraded):
		return v1alpha1.PodGroupDegraded
	default:
		return v1alpha1.PodGroupPending
	}
}

// soonShort is when a group is to be looked at again because it has fewer members running than it needs; 0 for not at all.
func (s *Status) soonShort(run gang.Run) time.Duration {
	if run.Start.IsZero() || run.ShortSince.IsZero() {
		return 0
	}
	return max(gang.ShortTime-s.clock.Now().Sub(run.ShortSince), time.Millisecond)
}

// soonDegraded is when a group is to be looked at again because it has just lost members; 0 for not
// at all.
func (s *Status) soonDegraded(run gang.Run) time.Duration {
	if left := gang.ShortTime - s.clock.Now().Sub(run.DegradedSince); !run.DegradedSince.IsZero() && left > 0 {
		return left
	}
	return 0
}

// tell lets every pending member know, once, what keeps it pending, when that has stood for a while.
func (s *Status) tell(key types.NamespacedName, m *gang.Members, v gang.Verdict) reconcile.Result {
	t := s.toldOf(key)
	now := s.clock.Now()
	if t.verdict.Reason != v.Reason || t.reasonSince.IsZero() {
		t.reasonSince = now
	}
	if t.verdict != v || t.since.IsZero() {
		t.verdict, t.since = v, now
	}
	if !worthTelling(v) {
		return reconcile.Result{}
	}
	left := min(settleDelay-now.Sub(t.since), longestSettling-now.Sub(t.reasonSince))
	if v.Reason == v1alpha1.ReasonPreempting {
		left = makingDelay - now.Sub(t.reasonSince)
	}
	if left > 0 {
		return reconcile.Result{RequeueAfter: left}
	}
	return reconcile.Result{RequeueAfter: s.tellPods(t, m.Pending, v, now)}
}

// tellPods tells those who have not heard, and returns when it is time to tell the others again; 0 for never.
func (s *Status) tellPods(t *told, pending []*corev1.Pod, v gang.Verdict, now time.Time) (again time.Duration) {
	present := make(map[types.UID]bool, len(pending))
	for _, pod := range pending {
		present[pod.UID] = true
		last, ok := t.pods[pod.UID]
		if ok && last.verdict == v {
			continue
		}
		if left := repeatDelay - now.Sub(last.at); ok && last.verdict.Reason == v.Reason && left > 0 {
			if again == 0 || left < again {
				again = left
			}
			continue
		}
		t.pods[pod.UID] = heard{verdict: v, at: now}
		s.tellPod(pod, v)
	}
	for uid := range t.pods {
		if !present[uid] {
			delete(t.pods, uid)
		}
	}
	return again
}

// worthTelling leaves out what passes by itself.
func worthTelling(v gang.Verdict) bool {
	return v.Reason != "" && v.Reason != v1alpha1.ReasonPending
}
