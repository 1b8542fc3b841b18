package controller

import (
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

// isOurs reports whether a PodGroup of scheduling.k8s.io is scheduled here: other schedulers have theirs, and
// say how they stand.
func (s *Status) isOurs(pg *v1alpha1.PodGroup, m *gang.Members) bool {
	key := client.ObjectKeyFromObject(pg)
	switch _, ok := s.told[key]; {
	case pg.Status.StartTime != nil:
		// Only Reprieve writes that down.
		s.toldOf(key).ours = pg.UID
		return true
	case m.Total() == 0 && ok:
		// It is still that of the pods which it had last.
		return s.told[key].ours == pg.UID
	case m.Total() == 0 && pg.Status.LastDisruption != nil:
		// What it had while another process led, only a preemption tells.
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

// groupOf reads a group, and whether its name stands for another one too.
func (s *Status) groupOf(pg *v1alpha1.PodGroup) *gang.Group {
	g := gang.FromPodGroup(pg)
	if known, ok := s.source.Group(g.Key); ok {
		g.Ambiguous = known.Ambiguous
	}
	return g
}

// knownAs is a group as the scheduler knows it: of a name that stands for two, it takes both for one.
func (s *Status) knownAs(g *gang.Group) *gang.Group {
	if known, ok := s.source.Group(g.Key); ok && known.Ambiguous {
		return known
	}
	return g
}

// tellRefused lets pods that name two groups know, once, that this is why they are not scheduled.
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

// tellPod tells a pod why it is not scheduled. The reason stands for the action as well: events that differ in
// nothing but their text are counted as one, with the text of the first.
func (s *Status) tellPod(pod *corev1.Pod, v gang.Verdict) {
	recorder := s.recorder
	if s.recorderOf != nil {
		recorder = s.recorderOf(pod.Spec.SchedulerName)
	}
	recorder.Eventf(pod, nil, corev1.EventTypeWarning, "FailedScheduling", v.Reason, "%s: %s", v.Reason, v.Message)
}

// unserved says of members none of which is for a profile that runs here that they wait for nothing.
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

// emptyTime is how long a group has no pods before that is told: those that make them come after it, as a rule.
const emptyTime = time.Minute

// tellEmpty tells, once, of a group that has had no pods for emptyTime, and returns when to look again; 0 for never. What was
// long so when this process saw it first, an earlier one has told.
func (s *Status) tellEmpty(pg *v1alpha1.PodGroup, m *gang.Members) (again time.Duration) {
	t, now := s.toldOf(client.ObjectKeyFromObject(pg)), s.clock.Now()
	// One that was made for an object outlives the pods of that, such as of a RayJob that is done; no label leads to it. One of
	// scheduling.k8s.io is ours by pods that it has had.
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

// toldOf is what the members of a group have heard.
func (s *Status) toldOf(key types.NamespacedName) *told {
	t, ok := s.told[key]
	if !ok {
		t = &told{pods: make(map[types.UID]heard), refused: sets.New[types.UID]()}
		s.told[key] = t
	}
	return t
}
