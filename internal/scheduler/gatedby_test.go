package scheduler

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// claiming adds a reference to a ResourceClaim to a pod.
func claiming(p *corev1.Pod, claim string) *corev1.Pod {
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimName: ptr.To(claim)}}
	return p
}

// TestKeptOutByAnotherPlugin checks GangGatedBy for a gang whose members are all gated by another
// plugin. It names the plugin and the reason until the plugin admits a member.
func TestKeptOutByAnotherPlugin(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "8")...)
	r.gangOf("g", 2, 0)
	for _, member := range members("g", 2, "1", 0) {
		r.create(claiming(member, "typo"))
	}
	keptOut := func() string {
		m := r.sched.Members(key("g"))
		return r.sched.GangGatedBy(&m)
	}
	if why := keptOut(); !strings.HasPrefix(why, "member g-0: plugin DynamicResources holds it back: ") || !strings.Contains(why, "ns/typo") {
		t.Errorf("It is kept out for %q", why)
	}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "typo"}}
	if _, err := r.client.ResourceV1().ResourceClaims("ns").Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("it is tried", func() bool { return len(r.active()) > 0 })
	if why := keptOut(); why != "" {
		t.Errorf("Then, it is kept out for %q", why)
	}
}
