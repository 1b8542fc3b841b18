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
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/native"
	"github.com/reprieve-dev/reprieve/internal/runs"
)

// conflictDelay is the delay before a retry after a conflict. By then, the cache may show the newer
// version.
const conflictDelay = 100 * time.Millisecond

// longestDelay is the maximum delay between attempts that the API server keeps rejecting.
const longestDelay = 30 * time.Second

// Delays before a verdict is reported to the members of a group. They are needed because a verdict
// changes often while members are created or the cluster changes.
const (
	// settleDelay is the time that a verdict must stay the same before it is reported.
	settleDelay = time.Second
	// longestSettling is the time that the reason of a verdict must stay the same before it is
	// reported, if the message keeps changing.
	longestSettling = 5 * time.Second
	// makingDelay replaces settleDelay and longestSettling while victims terminate. Most victims
	// have terminated within this time, so most members need no event. Events would also delay the
	// evictions, because both are API calls. Even without an event, the conditions of the members
	// show the state within seconds.
	makingDelay = 30 * time.Second
	// repeatDelay is the minimum time between two reports with the same reason to the same member,
	// even if the messages differ.
	repeatDelay = time.Minute
)

// Members lists the members of a group.
type Members interface {
	Members(key types.NamespacedName) gang.Members
}

// WaitingMembers lists the members of a group, and reports why pending members are blocked.
type WaitingMembers interface {
	Members
	// GangGatedBy returns the reason why no pending member can be scheduled, regardless of free
	// capacity. It returns "" if a pending member can be scheduled, or if there are no pending
	// members.
	GangGatedBy(members *gang.Members) string
}

// Status writes the status of PodGroups. It also sends events to pending members that say why they
// are pending.
type Status struct {
	client   client.Client
	members  WaitingMembers
	source   gang.Source
	profiles sets.Set[string]
	gangs    *engine.Gangs
	runs     *runs.Reader
	queues   Queues
	recorder events.EventRecorder
	// recorderOf returns the recorder for a profile; nil if recorder writes all events.
	recorderOf func(profile string) events.EventRecorder
	// groupFor describes derived groups; nil if the scheduler derives no groups.
	groupFor func(key types.NamespacedName) (grouping.Group, bool)
	// trees has the trees of CompositePodGroups; nil if there are none.
	trees *gang.Trees
	clock clock.PassiveClock
	told  map[types.NamespacedName]*told
	// oldest receives the time when the oldest waiting gang began to wait for nodes; nil if the
	// time is not needed.
	oldest func(since time.Time)
}

var _ reconcile.Reconciler = (*Status)(nil)

// told records the reports that the members of one group have received.
type told struct {
	verdict gang.Verdict
	// refused has the pods that name two groups and have received a report about that.
	refused sets.Set[types.UID]
	// since is the time when the verdict last changed, and reasonSince is the time when its reason
	// last changed.
	since, reasonSince time.Time
	pods               map[types.UID]heard
	// emptySince is the time when the group was first seen without pods.
	emptySince time.Time
	// emptyTold is true if it was reported that the group has no pods.
	emptyTold bool
	// pendingSince is the time when all needed members existed and the group began to wait for
	// nodes; zero if it does not wait.
	pendingSince time.Time
	// looked is true after the group was reconciled once.
	looked bool
	// ours is the UID of a native PodGroup (scheduling.k8s.io) whose status this scheduler writes,
	// because its last members named a profile of this scheduler.
	ours types.UID
}

// heard is the last report to one member.
type heard struct {
	verdict gang.Verdict
	at      time.Time
}

// NewStatus returns a Status. It finds groups in source, and reads and writes PodGroups with c. It
// ignores native PodGroups (scheduling.k8s.io) without a member that names one of the profiles. Run
// it with one worker, because it remembers its reports without a lock.
func NewStatus(c client.Client, members WaitingMembers, source gang.Source, profiles sets.Set[string], gangs *engine.Gangs, runs *runs.Reader, queues Queues, recorder events.EventRecorder, clk clock.PassiveClock) *Status {
	return &Status{
		client: c, members: members, source: source, profiles: profiles, gangs: gangs, runs: runs, queues: queues, recorder: recorder, clock: clk,
		told: make(map[types.NamespacedName]*told),
	}
}

// RecordAs sets the function that returns the recorder for the pods of a profile. If the function
// is nil, one recorder writes all events.
func (s *Status) RecordAs(of func(profile string) events.EventRecorder) { s.recorderOf = of }

// DerivedFrom sets the function that describes derived groups. With it, the status of a derived
// group shows whether the group's object is finished.
func (s *Status) DerivedFrom(of func(key types.NamespacedName) (grouping.Group, bool)) {
	s.groupFor = of
}

// Reconcile updates the status of one PodGroup. If the PodGroup does not exist, Reconcile reports
// this to the members.
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
		s.endPending(req.NamespacedName)
		// If the records have the reason why the PodGroup was not created, report this reason.
		// Otherwise report that the PodGroup is missing. If a CompositePodGroup is missing that
		// other groups name as their parent, source has a group that names these children.
		missing, _ := s.source.Group(req.NamespacedName)
		return s.tell(req.NamespacedName, &m, cmp.Or(s.gangs.Unresolved(gang.KeyOf(req.NamespacedName)), gang.Gate(req.NamespacedName, missing, &m))), nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("get PodGroup %s: %w", req, err)
	}
	if native.IsNative(&pg) && !s.isOurs(&pg, &m) {
		s.endPending(req.NamespacedName)
		return retryConflict(s.disown(ctx, &pg))
	}
	g := s.groupOf(&pg)
	verdict, scheduled := s.verdict(g, &m)
	workload, isPart := s.workloadOf(g.Key)
	if isPart {
		verdict, scheduled = s.partVerdict(workload, g, &m)
	}
	before := pg.DeepCopy()
	run := s.runOf(g)
	s.setStatus(&pg, g, &m, run, verdict, scheduled)
	s.notePending(req.NamespacedName, &pg, g, &m, scheduled)
	if !apiequality.Semantic.DeepEqual(before.Status, pg.Status) {
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := s.client.Status().Patch(ctx, &pg, patch); err != nil {
			return retryConflict(fmt.Errorf("write status of PodGroup %s: %w", req, err))
		}
		s.tellDegraded(before, &pg)
	}
	if scheduled || isPart {
		// This group is a part of a tree. The members get their reports when the whole workload is
		// reconciled.
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

// verdict reports whether a group is scheduled, with the reason why or why not.
func (s *Status) verdict(g *gang.Group, m *gang.Members) (gang.Verdict, bool) {
	if have := m.Placed(); s.runs.IsPlaced(g, m) && g.Template == "" {
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
	switch v := s.gangs.Verdict(gang.KeyOf(g.Key)); v.Reason {
	case v1alpha1.ReasonUnschedulable, v1alpha1.ReasonPreempting, v1alpha1.ReasonPending, v1alpha1.ReasonBehindItsObject, v1alpha1.ReasonPriorityAbovePods, v1alpha1.ReasonQueueNotFound,
		v1alpha1.ReasonQueueNotLeaf, v1alpha1.ReasonQueueUnusable, v1alpha1.ReasonQueueLimit,
		v1alpha1.ReasonQueueNotAllowed, v1alpha1.ReasonPriorityAboveQueue, v1alpha1.ReasonQueueRequired,
		v1alpha1.ReasonDriversWithoutWorkers:
		return v, false
	}
	message := "waiting for its turn"
	if short := s.runs.Shortage(g, m); short != "" && len(m.Pending)+len(m.Gated) == 0 {
		message = "waiting for members: " + short
	}
	if why := s.members.GangGatedBy(m); why != "" {
		message = "no member can be scheduled: " + why
	}
	return gang.Verdict{Reason: v1alpha1.ReasonPending, Message: message}, false
}

// flaw returns a verdict if the group itself, or its tree, has a fault, regardless of its members.
func (s *Status) flaw(g *gang.Group, m *gang.Members) gang.Verdict {
	switch {
	case g.Ambiguous:
		return gang.Gate(g.Key, g, m)
	case !g.IsResolved():
		return s.gangs.Unresolved(gang.KeyOf(g.Key))
	default:
		return g.Flaw
	}
}

// over returns a verdict if the object of a group is finished and all pods of the group have ended.
// No more members will be created then.
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
		Message: fmt.Sprintf("%s %s, for which %s was made, is over, and none of its pods runs or waits",
			derived.Owner.Kind, derived.Owner.Name, gang.Title(g.Key)),
	}
}

func (s *Status) setStatus(pg *v1alpha1.PodGroup, g *gang.Group, m *gang.Members, run engine.Run, v gang.Verdict, scheduled bool) {
	running := 0
	for _, pod := range m.Assigned {
		if pod.Status.Phase == corev1.PodRunning {
			running++
		}
	}
	st := &pg.Status
	s.forgetStops(st, g)
	st.Pending = int32(len(m.Pending) + len(m.Gated))
	st.Scheduled = int32(len(m.Assigned))
	st.Running = int32(running)
	st.Terminating = int32(len(m.Terminating))
	st.Finished = int32(len(m.Succeeded) + len(m.Finished))
	st.StartTime = nil
	if !run.Start.IsZero() {
		st.StartTime = &metav1.Time{Time: run.Start}
	}
	s.setQueueStatus(pg, g, m, run.Clock)
	s.setSealed(pg, g, m, &run.Sealed)
	s.setPreemptionPriority(pg, g)
	s.setNever(pg, g)
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
	if native.IsNative(pg) {
		native.SetMembersScheduled(st, st.Scheduled, pg.Generation)
	}
	setDegraded(pg, degradedMessage(g, m, s.runs.Shortage(g, m)), m, run.DegradedSince, s.clock.Now())
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

// phaseOf returns the phase of a group with this status. scheduled is true if the needed members
// have nodes.
func phaseOf(st *v1alpha1.PodGroupStatus, g *gang.Group, m *gang.Members, scheduled bool) v1alpha1.PodGroupPhase {
	running := slices.DeleteFunc(slices.Clone(m.Assigned), func(pod *corev1.Pod) bool { return pod.Status.Phase != corev1.PodRunning })
	switch {
	case st.Disruption != nil:
		return v1alpha1.PodGroupDisrupted
	case st.Scheduled+st.Pending == 0 && g.IsPlaced(&gang.Members{Succeeded: m.Succeeded}):
		return v1alpha1.PodGroupSucceeded
	case scheduled && g.IsPlaced(&gang.Members{Assigned: running, Succeeded: m.Succeeded}):
		return v1alpha1.PodGroupRunning
	case scheduled:
		return v1alpha1.PodGroupScheduled
	case meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionDegraded):
		return v1alpha1.PodGroupDegraded
	default:
		return v1alpha1.PodGroupPending
	}
}

// soonShort returns the delay until a group with too few running members must be reconciled again;
// 0 for a group with enough. The delay ends engine.ShortTime after the group began to have too few.
func (s *Status) soonShort(run engine.Run) time.Duration {
	if run.Start.IsZero() || run.ShortSince.IsZero() {
		return 0
	}
	return max(engine.ShortTime-s.clock.Now().Sub(run.ShortSince), time.Millisecond)
}

// soonDegraded returns the delay until a group that has just lost members must be reconciled again;
// 0 for other groups. The delay ends engine.ShortTime after the loss.
func (s *Status) soonDegraded(run engine.Run) time.Duration {
	if left := engine.ShortTime - s.clock.Now().Sub(run.DegradedSince); !run.DegradedSince.IsZero() && left > 0 {
		return left
	}
	return 0
}

// tell reports a verdict to each pending member once, after the verdict has stayed the same for a
// while.
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

// tellPods reports a verdict to the pending members that have not received it. again is the delay
// before the next report to other members; 0 if there is none.
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

// worthTelling reports whether members get an event about a verdict. ReasonPending needs no event,
// because the scheduler plans pending members without any action by users.
func worthTelling(v gang.Verdict) bool {
	return v.Reason != "" && v.Reason != v1alpha1.ReasonPending
}
