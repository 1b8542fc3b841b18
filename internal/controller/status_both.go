package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/native"
)

// isOurs reports whether Reprieve schedules the pods of a native PodGroup (scheduling.k8s.io). If
// not, another scheduler writes the status.
func (s *Status) isOurs(pg *v1alpha1.PodGroup, m *gang.Members) bool {
	key := client.ObjectKeyFromObject(pg)
	switch _, ok := s.told[key]; {
	case pg.Status.StartTime != nil:
		// Only Reprieve writes startTime, so Reprieve has scheduled this group.
		s.toldOf(key).ours = pg.UID
		return true
	case m.Total() == 0 && ok:
		// The group has no pods now, so the scheduler of its last pods continues to write the
		// status.
		return s.told[key].ours == pg.UID
	case m.Total() == 0 && pg.Status.LastDisruption != nil:
		// The status records a preemption, so an earlier process of Reprieve has scheduled pods of
		// this group.
		s.toldOf(key).ours = pg.UID
		return true
	case m.Total() == 0:
		return false
	}
	for _, pods := range [][]*corev1.Pod{m.Pending, m.Gated, m.Refused, m.Assigned, m.Terminating, m.Succeeded, m.Finished} {
		if slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return s.profiles.Has(pod.Spec.SchedulerName) }) {
			s.toldOf(key).ours = pg.UID
			return true
		}
	}
	s.toldOf(key).ours = ""
	return false
}

// disown sets the condition MembersScheduled of a native PodGroup to false when the group no longer
// has members of Reprieve. While the condition is true, the PodGroup cannot be deleted.
func (s *Status) disown(ctx context.Context, pg *v1alpha1.PodGroup) error {
	if !meta.IsStatusConditionTrue(pg.Status.Conditions, native.ConditionMembersScheduled) {
		return nil
	}
	before := pg.DeepCopy()
	native.SetMembersScheduled(&pg.Status, 0, pg.Generation)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := s.client.Status().Patch(ctx, pg, patch); err != nil {
		return fmt.Errorf("end the condition %s of PodGroup %s: %w", native.ConditionMembersScheduled, client.ObjectKeyFromObject(pg), err)
	}
	return nil
}

// groupOf returns the group that a PodGroup describes. Ambiguous is true if a group of the other
// API has the same name.
func (s *Status) groupOf(pg *v1alpha1.PodGroup) *gang.Group {
	g := gang.FromPodGroup(pg)
	if gang.IsTree(g.Key) {
		if known, ok := s.source.Group(g.Key); ok && known.UID == g.UID {
			return known
		}
	}
	if known, ok := s.source.Group(g.Key); ok {
		g.Ambiguous = known.Ambiguous
	}
	return g
}

// knownAs returns the group as the scheduler has cached it. If the groups of both APIs share the
// name, the cached group combines both.
func (s *Status) knownAs(g *gang.Group) *gang.Group {
	if known, ok := s.source.Group(g.Key); ok && known.Ambiguous {
		return known
	}
	return g
}

// tellRefused reports once, to each pod that names two groups, that the pod is not scheduled for
// this reason.
func (s *Status) tellRefused(key types.NamespacedName, pods []*corev1.Pod) {
	if len(pods) == 0 {
		return
	}
	t := s.toldOf(key)
	present := sets.New[types.UID]()
	for _, pod := range pods {
		present.Insert(pod.UID)
		if v := gang.Contradiction(pod); v != (gang.Verdict{}) && !t.refused.Has(pod.UID) {
			t.refused.Insert(pod.UID)
			s.tellPod(pod, v)
		}
	}
	t.refused = t.refused.Intersection(present)
}

// tellPod sends an event to a pod about why it is not scheduled. The reason is also the action of
// the event, so that Kubernetes does not count events with different reasons as one.
func (s *Status) tellPod(pod *corev1.Pod, v gang.Verdict) {
	recorder := s.recorder
	if s.recorderOf != nil {
		recorder = s.recorderOf(pod.Spec.SchedulerName)
	}
	recorder.Eventf(pod, nil, corev1.EventTypeWarning, "FailedScheduling", v.Reason, "%s: %s", v.Reason, v.Message)
}

// unserved returns a verdict if members wait and none of them names a profile of this scheduler;
// otherwise zero.
func (s *Status) unserved(m *gang.Members) gang.Verdict {
	waiting := slices.Concat(m.Pending, m.Gated)
	if len(waiting) == 0 || slices.ContainsFunc(waiting, func(pod *corev1.Pod) bool { return s.profiles.Has(pod.Spec.SchedulerName) }) {
		return gang.Verdict{}
	}
	return gang.Verdict{
		Reason: v1alpha1.ReasonSchedulerNotServed,
		Message: fmt.Sprintf("the members name the scheduler %q, which does not run here; name one that does, in schedulerName: %q",
			waiting[0].Spec.SchedulerName, sets.List(s.profiles)),
	}
}

// emptyTime is the time that a group has no pods before this is reported. Usually, pods are created
// soon after their group.
const emptyTime = time.Minute

// tellEmpty reports once that a group has had no pods for emptyTime. again is the delay before the
// next check; 0 for no check. If the status shows that an earlier process has already sent the
// report, tellEmpty does not repeat it.
func (s *Status) tellEmpty(pg *v1alpha1.PodGroup, m *gang.Members) (again time.Duration) {
	t, now := s.toldOf(client.ObjectKeyFromObject(pg)), s.clock.Now()
	// Do not report derived groups and native PodGroups. Users add no pods to a derived group, and
	// its pods may be gone, for example after a RayJob has finished. A native PodGroup belongs to
	// Reprieve only after it had pods.
	if m.Total() > 0 || pg.Labels[labelManagedBy] == managedBy || native.IsNative(pg) {
		t.emptySince, t.emptyTold = time.Time{}, false
		return 0
	}
	if t.emptySince.IsZero() {
		t.emptySince = now
		last := meta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionPodGroupScheduled)
		t.emptyTold = last != nil && pg.Status.Pending+pg.Status.Scheduled+pg.Status.Terminating+pg.Status.Finished == 0 &&
			now.Sub(last.LastTransitionTime.Time) > emptyTime
	}
	if left := emptyTime - now.Sub(t.emptySince); left > 0 {
		return left
	}
	if !t.emptyTold {
		t.emptyTold = true
		s.recorder.Eventf(pg, nil, corev1.EventTypeWarning, "NoMembers", "Counting",
			"no pod has joined for %s; pods join by the label %s: %s in the same namespace", emptyTime, v1alpha1.LabelPodGroup, pg.Name)
	}
	return 0
}

// toldOf returns the record of the reports to a group's members. It creates the record if there is
// none.
func (s *Status) toldOf(key types.NamespacedName) *told {
	t, ok := s.told[key]
	if !ok {
		t = &told{pods: make(map[types.UID]heard), refused: sets.New[types.UID]()}
		s.told[key] = t
	}
	return t
}
