package scheduler

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestMembersThatLackAnother checks a gang that lacks a member that another plugin gates, for
// example because its ResourceClaim does not exist. The other members must not activate each other
// in a loop, because pods of lower priority would then never have a cycle.
func TestMembersThatLackAnother(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "8")...)
	var tried atomic.Int64
	r.meanwhile = func(*corev1.Pod) { tried.Add(1) }
	r.gangOf("g", 3, 10)
	all := members("g", 3, "1", 10)
	claiming(all[2], "typo")
	r.create(all...)
	r.create(pod("low", "", "1", 0))
	r.eventually("the pod of a lower priority is placed", func() bool {
		if len(r.active()) > 0 {
			r.cycle()
		}
		return r.nodeOf("low") != ""
	})
	if n := tried.Load(); n > 20 {
		t.Errorf("%d cycles for 2 members that cannot be placed without the third", n)
	}
}

// TestLeaderThatIsGatedWhileItWaits checks a gang with surplus that waits for room. While it waits,
// the ResourceClaim of its leader is deleted, so another plugin gates the leader. The other members
// must be placed without the leader.
func TestLeaderThatIsGatedWhileItWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t, node("node-0", "2"))
	v := on(pod("v", "", "2", 10), "node-0")
	r.create(v)
	r.gangOf("g", 2, 0)
	all := members("g", 3, "1", 0)
	for _, p := range all {
		claiming(p, "of-"+p.Name)
		r.createClaim(&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "of-" + p.Name, UID: types.UID("claim-" + p.Name)}})
		r.eventually("the claim is known", func() bool { return r.sched.index.EntersQueue(p) })
	}
	r.create(all...)
	r.eventually("the gang found no room", func() bool {
		r.cycles()
		return r.sched.gangs.Verdict(gangKey(key("g"))).Reason == v1alpha1.ReasonUnschedulable
	})
	leader := r.sched.gangs.Leader(gangKey(key("g")))
	if err := r.client.ResourceV1().ResourceClaims("ns").Delete(t.Context(), "of-"+strings.TrimPrefix(leader, "uid-"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("another member leads", func() bool {
		r.cycles()
		now := r.sched.gangs.Leader(gangKey(key("g")))
		return now != "" && now != leader
	})
	r.remove(v)
	r.eventually("the others are bound", func() bool {
		r.cycles()
		return r.bound(3) == 2
	})
}

// TestClaimsThatComeLate checks that a gang is planned once the last ResourceClaim of its members
// exists. The claims are created one by one, some after the last member. The queue stops at the
// first plugin that gates a pod, so some members get no events about their claims.
func TestClaimsThatComeLate(t *testing.T) {
	t.Parallel()
	const count = 8
	r := newRig(t, nodes(1, "64")...)
	r.gangOf("g", count, 0)
	all := members("g", count, "1", 0)
	for _, p := range all {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimTemplateName: ptr.To("template")}}
	}
	r.create(all...)
	r.generateClaim("g-0")
	r.eventually("the gang cannot be planned", func() bool {
		r.cycles()
		return strings.Contains(r.sched.gangs.Verdict(gangKey(key("g"))).Message, "can be scheduled")
	})
	// The last claims belong to members that ReprieveGate gates. These members get no events about
	// claims.
	var last []string
	for i := 1; i < count; i++ {
		name := fmt.Sprintf("g-%d", i)
		if info, ok := r.upstream.SchedulingQueue.GetPod(name, "ns", nil); ok && info.GatingPlugin == GateName {
			last = append(last, name)
			continue
		}
		r.generateClaim(name)
	}
	for _, name := range last {
		r.generateClaim(name)
	}
	r.eventually("some members are planned or placed", func() bool {
		r.cycles()
		return r.sched.gangs.Planned(gangKey(key("g"))) > 0 || r.bound(count) > 0 || r.waiting() > 0
	})
}

func (r *rig) createClaim(claim *resourceapi.ResourceClaim) {
	r.t.Helper()
	if _, err := r.client.ResourceV1().ResourceClaims("ns").Create(r.t.Context(), claim, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// generateClaim acts like kube-controller-manager: it creates the claim of a pod with a
// ResourceClaimTemplate, and then names the claim in the pod's status.
func (r *rig) generateClaim(name string) {
	r.t.Helper()
	p, err := r.client.CoreV1().Pods("ns").Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name + "-devices", UID: "claim-" + p.UID,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: name, UID: p.UID, Controller: ptr.To(true)}},
	}}
	r.createClaim(claim)
	p = p.DeepCopy()
	// The version must change, because the scheduler's queue ignores updates with an equal version.
	p.ResourceVersion = "2"
	p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "devices", ResourceClaimName: ptr.To(claim.Name)}}
	if _, err := r.client.CoreV1().Pods("ns").UpdateStatus(r.t.Context(), p, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.eventually("no other plugin gates "+name, func() bool {
		now, err := r.sched.index.Pods.Pods("ns").Get(name)
		return err == nil && r.sched.index.EntersQueue(now)
	})
}
