package scheduler

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// Derived knows the groups that are made for pods which do not name one.
type Derived interface {
	gang.Derived
	gang.Bounds
	// Hold says why a pod cannot be considered before more is known of what it belongs to.
	Hold(pod *corev1.Pod) gang.Verdict
	// MinCount is how many members a derived group is to need; false for one that is not derived.
	MinCount(key types.NamespacedName) (int, bool)
	// QueueOf is the queue that a pod names in words of another scheduler which its profile understands; "" for none.
	QueueOf(pod *corev1.Pod) string
}

// underived is where no groups are derived.
type underived struct{ gang.Named }

// AnchorsOf is part of gang.Derived.
func (underived) AnchorsOf(*corev1.Pod) []string { return nil }

// Anchors is part of gang.Derived.
func (underived) Anchors(types.NamespacedName) []string { return nil }

// Hold is part of Derived.
func (underived) Hold(*corev1.Pod) gang.Verdict { return gang.Verdict{} }

// MinCount is part of Derived.
func (underived) MinCount(types.NamespacedName) (int, bool) { return 0, false }

// IsBounded is part of gang.Bounds.
func (underived) IsBounded(types.NamespacedName) bool { return false }

// QueueOf is part of Derived.
func (underived) QueueOf(*corev1.Pod) string { return "" }

// Anchored are the pods with an anchor, those that have finished included.
func (h *Hub) Anchored(anchor string) []*corev1.Pod { return h.lister.Anchored(anchor) }

// MembershipChanged follows a pod into another group, or out of one, because of what has become known of the object that it
// belongs to. One that was held back for want of that is tried.
func (h *Hub) MembershipChanged(pod *corev1.Pod, before types.NamespacedName, was bool) {
	now, is := h.groupOf(pod)
	if was != is || before != now {
		h.regrouped(pod, before, was)
		if is {
			h.cluster.GroupChanged(now)
		}
	}
	h.podChanged(pod, pod.Spec.NodeName == "")
	if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil {
		h.activate(pod)
	}
}

// regrouped repairs what a pod leaves behind that is in another group now.
func (h *Hub) regrouped(pod *corev1.Pod, before types.NamespacedName, was bool) {
	// What it was promised, it was promised as a part of something else.
	h.reserved.ReleasePod(pod.UID)
	h.waits.Forget(podKey(pod))
	if was {
		h.memberLeft(before, pod)
	}
}

// behind says of a derived gang, none of whose members has had a node, that its PodGroup does not ask for all of them yet, or stands
// higher than one of them. Once some have, such a one waits by itself.
func (h *Hub) behind(g *gang.Group, members *gang.Members) gang.Verdict {
	want, ok := h.derived.MinCount(g.Key)
	if !ok || !g.IsGang() || h.through(members) > 0 {
		return gang.Verdict{}
	}
	for _, pod := range slices.Concat(members.Pending, members.Gated) {
		if v := gang.Outranked(h.derived, h.groups, pod); v != (gang.Verdict{}) {
			return v
		}
	}
	if g.MinCount >= want {
		return gang.Verdict{}
	}
	return gang.Verdict{
		Reason:  v1alpha1.ReasonBehindItsObject,
		Message: fmt.Sprintf("PodGroup %s needs %d members, and is to need %d before it is placed", g.Key, g.MinCount, want),
	}
}
