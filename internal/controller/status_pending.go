package controller

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// OldestTo sets the function that receives the time when the oldest gang began to wait for nodes;
// zero for none.
func (s *Status) OldestTo(figure func(since time.Time)) { s.oldest = figure }

// notePending records whether a gang waits for nodes although all members that it needs exist. If
// the gang waited before this process first saw it, the time comes from the condition
// PodGroupScheduled. Otherwise, the time is the creation or ungating of the last needed member.
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

// endPending records that a group does not wait for nodes, because its PodGroup does not exist or
// belongs to another scheduler.
func (s *Status) endPending(key types.NamespacedName) {
	if t, ok := s.told[key]; ok && !t.pendingSince.IsZero() {
		t.pendingSince = time.Time{}
		s.countPending()
	}
}

// countPending reports when the oldest gang began to wait.
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
