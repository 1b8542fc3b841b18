package scheduler

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestMemberWithUnboundVolume checks a gang with one member whose volume claim is not bound. It
// evicts nothing, although its other member could have room, and its message names the cause.
func TestMemberWithUnboundVolume(t *testing.T) {
	t.Parallel()
	r := newRig(t, append(nodes(2, "1"), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "claim-data"}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	})...)
	r.create(on(pod("v-0", "", "1", 0), "node-0"), on(pod("v-1", "", "1", 0), "node-1"))
	g := r.gangOf("g", 2, 10)
	all := members("g", 2, "1", 10)
	all[1].Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
	r.create(all...)
	const cause = "no node admits 1 member: pod has unbound immediate PersistentVolumeClaims"
	r.eventually("the message names the cause", func() bool {
		r.cycles()
		return strings.Contains(r.sched.gangs.Verdict(gangKey(g.Key)).Message, cause)
	})
	r.never("a pod is evicted", time.Second, func() bool { r.cycles(); return len(r.evictor.orders) > 0 })
}
