package controller

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// setDegraded sets the condition Degraded of a PodGroup, with a message for True. since is the time
// when the group began to lack members; zero if it lacks none. since becomes the condition's
// lastTransitionTime, so that the next process can read it there. The condition becomes true only
// after engine.ShortTime, because a member that succeeds may first appear as no longer running.
func setDegraded(pg *v1alpha1.PodGroup, message string, m *gang.Members, since, now time.Time) {
	conditions := &pg.Status.Conditions
	condition := metav1.Condition{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionFalse, ObservedGeneration: pg.Generation}
	switch {
	case !since.IsZero() && (now.Sub(since) >= engine.ShortTime || meta.IsStatusConditionTrue(*conditions, v1alpha1.ConditionDegraded)):
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, v1alpha1.ReasonMembersLost, message
	case !meta.IsStatusConditionTrue(*conditions, v1alpha1.ConditionDegraded):
		return
	case len(m.Assigned) > 0:
		condition.Reason, condition.Message = v1alpha1.ReasonWhole, "the gang lacks no members any more"
	default:
		condition.Reason, condition.Message = v1alpha1.ReasonNoneLeft, "no member has a node any more"
	}
	meta.SetStatusCondition(conditions, condition)
	if condition.Status == metav1.ConditionTrue {
		// The condition is true already, but the group may have had enough members for a moment
		// since the last write. So set the new time.
		meta.FindStatusCondition(*conditions, v1alpha1.ConditionDegraded).LastTransitionTime = metav1.NewTime(since.Truncate(time.Second))
	}
}

// degradedMessage returns the numbers of members that a degraded gang has and needs, and of pods
// that wait to replace the lost members. shortage describes the parts of the gang that need
// members; "" for none.
func degradedMessage(g *gang.Group, m *gang.Members, shortage string) string {
	message := fmt.Sprintf("%d members have a node, %d are needed", len(m.Assigned), g.MinCount)
	if shortage != "" {
		message += "; " + shortage
	}
	if n := len(m.Succeeded); n > 0 {
		message += fmt.Sprintf("; %d have succeeded", n)
	}
	switch n := len(m.Pending) + len(m.Gated); n {
	case 0:
		return message + "; no pod waits in the place of those that are lost"
	case 1:
		return message + "; 1 waits for a node"
	default:
		return message + fmt.Sprintf("; %d wait for a node", n)
	}
}

// tellDegraded sends an event when the condition Degraded of a gang becomes true.
func (s *Status) tellDegraded(before, now *v1alpha1.PodGroup) {
	kind := v1alpha1.ConditionDegraded
	condition := meta.FindStatusCondition(now.Status.Conditions, kind)
	if condition == nil || condition.Status != metav1.ConditionTrue || meta.IsStatusConditionTrue(before.Status.Conditions, kind) {
		return
	}
	s.recorder.Eventf(now, nil, corev1.EventTypeWarning, "Degraded", "Counting", "%s", condition.Message)
}
