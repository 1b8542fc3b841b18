package controller

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// isOurs reports whether a PodGroup of scheduling.k8s.io is scheduled here: other schedulers have theirs, and
// say how they stand.
func (s *Status) isOurs(pg *v1alpha1.PodGroup, m *gang.Members) bool {
	if pg.Status.StartTime != nil {
		// Only Reprieve writes that down.
		return true
	}
	for _, pods := range [][]*corev1.Pod{m.Pending, m.Gated, m.Assigned, m.Terminating, m.Succeeded} {
		for _, pod := range pods {
			if s.profiles.Has(pod.Spec.SchedulerName) {
				return true
			}
		}
	}
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

// toldOf is what the members of a group have heard.
func (s *Status) toldOf(key types.NamespacedName) *told {
	t, ok := s.told[key]
	if !ok {
		t = &told{pods: make(map[types.UID]heard), refused: sets.New[types.UID]()}
		s.told[key] = t
	}
	return t
}
