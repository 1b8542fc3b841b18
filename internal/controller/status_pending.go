package controller

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// OldestTo sets the function that receives the time when the oldest waiting gang began to wait for
// nodes. The time is zero if no gang waits.
func (s *Status) OldestTo(figure func(since time.Time)) { s.oldest = figure }

// notePending records whether a gang waits for nodes although all needed members exist. The wait
// begins when the last needed member is created or ungated. If the wait began before this process
// first saw the gang, its time comes from the condition PodGroupScheduled.
func (s *Status) notePending(key types.NamespacedName, pg *v1alpha1.PodGroup, g *gang.Group, m *gang.Members, scheduled bool) {
	t := s.toldOf(key)
	before := t.pendingSince
	switch {
	case scheduled || !g.IsGang() || len(m.Pending) == 0 || m.Available() < g.MinCount:
		t.pendingSince = time.Time{}
	case !before.IsZero():
	case t.looked:
		t.pendingSince = s.clock.Now()
	default:
		t.pendingSince = s.clock.Now()
		if c := meta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionPodGroupScheduled); c != nil {
			t.pendingSince = c.LastTransitionTime.Time
		}
	}
	t.looked = true
	if !t.pendingSince.Equal(before) {
		s.countPending()
	}
}

// endPending records that a gang does not wait for nodes any more: its PodGroup does not exist, or
// another scheduler is responsible for it.
func (s *Status) endPending(key types.NamespacedName) {
	if t, ok := s.told[key]; ok && !t.pendingSince.IsZero() {
		t.pendingSince = time.Time{}
		s.countPending()
	}
}

// countPending reports the time when the oldest waiting gang began to wait.
func (s *Status) countPending() {
	if s.oldest == nil {
		return
	}
	var oldest time.Time
	for _, t := range s.told {
		if since := t.pendingSince; !since.IsZero() && (oldest.IsZero() || since.Before(oldest)) {
			oldest = since
		}
	}
	s.oldest(oldest)
}
