package scheduler

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// shortGang returns a rig with a gang that needs two members with one CPU each. One member runs on
// the first node. The other member is lost, and the pod filler occupies the second node.
func shortGang(t *testing.T, healTimeout string) (r *rig, filler *corev1.Pod) {
	t.Helper()
	r = newRigArgs(t, "{gang: {healTimeout: "+healTimeout+", staleTimeout: 0s}}", nodes(2, "1")...)
	g := r.gangOf("g", 2, 0)
	g.Scheduled = true
	member := pod("g-0", "g", "1", 0)
	member.Status.Phase = corev1.PodRunning
	filler = on(pod("filler", "", "1", 0), "node-1")
	r.create(on(member, "node-0"), filler)
	r.eventually("the gang is known to lack a member", func() bool { return r.sched.stale.degradedBy(g).Lacks == 1 })
	return r, filler
}

// older sets the creation time of a pod to one minute ago.
func older(p *corev1.Pod) *corev1.Pod {
	p.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Minute))
	return p
}

// TestLostMemberComesBackFirst checks that free room goes to the replacement of a lost member
// first. An older pod of equal priority comes after it, and a pod of higher priority before it.
func TestLostMemberComesBackFirst(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		priority int32
		timeout  string
		want     string
	}{
		"equal priority":                   {0, "1h", "g-1"},
		"higher priority":                  {1, "1h", "lone"},
		"higher priority, no room is kept": {1, "0s", "lone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, filler := shortGang(t, c.timeout)
			lone := older(pod("lone", "", "1", c.priority))
			lone.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
			r.create(lone, pod("g-1", "g", "1", 0))
			r.eventually("both are in the queue", func() bool { return len(r.active()) == 2 })
			r.remove(filler)
			r.eventually("the room is taken", func() bool { r.cycles(); return r.nodeOf("lone") != "" || r.nodeOf("g-1") != "" })
			if r.nodeOf(c.want) != "node-1" {
				t.Errorf("%s is on %q, want it to have the room", c.want, r.nodeOf(c.want))
			}
		})
	}
}

// TestMembersThatHealSortFirst checks that the replacement of a lost member sorts before other pods
// of its priority, even if no room is kept. When the gang is whole, its members must sort as usual.
func TestMembersThatHealSortFirst(t *testing.T) {
	t.Parallel()
	r, filler := shortGang(t, "0s")
	lone, lost, came := older(pod("lone", "", "1", 0)), pod("g-1", "g", "1", 0), time.Now()
	first, second := r.sched.positionOf(lost, came), r.sched.positionOf(lone, came.Add(-time.Minute))
	if first.Priority != second.Priority || !first.Time.Before(second.Time) {
		t.Errorf("The member has seat %v and the pod %v, want the member first", first, second)
	}
	r.remove(filler)
	r.create(on(pod("g-2", "g", "1", 0), "node-1"))
	r.eventually("the gang is whole", func() bool { return r.sched.positionOf(lost, came).Time.Equal(came) })
}

// TestRoomIsKeptForALostMember checks that room is kept for a lost member without a replacement,
// until healTimeout. Pods of equal priority must not use this room. If the gang is deleted or needs
// fewer members, these pods may use the room at once.
func TestRoomIsKeptForALostMember(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		timeout string
		change  func(r *rig)
		kept    bool
	}{
		"until the timeout": {timeout: "8s", kept: true},
		"turned off":        {timeout: "0s"},
		"until the gang is gone": {timeout: "1h", kept: true, change: func(r *rig) {
			r.groups.drop(key("g"))
			r.sched.GroupChanged(key("g"))
		}},
		"until fewer are needed": {timeout: "1h", kept: true, change: func(r *rig) {
			r.gangOf("g", 1, 0)
			r.sched.GroupChanged(key("g"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			r, filler := shortGang(t, c.timeout)
			r.remove(filler)
			lone := pod("lone", "", "1", 0)
			r.create(lone)
			if c.kept {
				timeout, err := time.ParseDuration(c.timeout)
				if err != nil {
					t.Fatal(err)
				}
				d := r.decideFor(lone)
				// On a slow machine, the timeout may end before the checks.
				timedOut := func() bool { return time.Since(began) >= timeout }
				if (d.Outcome != core.Infeasible || !strings.Contains(d.Message, "room on node node-1 is reserved for ns/g (priority 0)")) && !timedOut() {
					t.Errorf("%s: %s; want the room to be kept for the gang", d.Outcome, d.Message)
				}
				r.never("it is placed", time.Second, func() bool { r.cycles(); return r.nodeOf("lone") != "" && !timedOut() })
			}
			if c.change != nil {
				c.change(r)
			}
			r.eventually("it is placed", func() bool { r.cycles(); return r.nodeOf("lone") != "" })
		})
	}
}

// TestRoomIsKeptWhereItHindersLeast checks that room is kept on the node that the requesting pod
// cannot use. If no node has free room, it is kept on a node with terminating pods.
func TestRoomIsKeptWhereItHindersLeast(t *testing.T) {
	t.Parallel()
	r, filler := shortGang(t, "1h")
	for _, other := range []*corev1.Node{node("node-2", "1"), node("node-3", "2")} {
		if _, err := r.client.CoreV1().Nodes().Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		r.eventually("the node is known", func() bool {
			_, err := r.sched.index.Nodes.Get(other.Name)
			return err == nil && r.upstream.Cache.NodeCount() > 2
		})
	}
	r.eventually("both nodes are known", func() bool { return r.upstream.Cache.NodeCount() == 4 })
	large := pod("large", "", "2", 0)
	r.create(large)
	r.waitBound("large")
	// Now only node-2 has free room. On node-1, the end of a terminating pod will free room.
	lone := pod("lone", "", "1", 0)
	r.create(lone)
	if d := r.decideFor(lone); d.Outcome != core.Infeasible {
		t.Errorf("%s: %s; want the room of node-2 to be kept", d.Outcome, d.Message)
	}
	r.create(on(pod("full", "", "1", 0), "node-2"))
	leaving, err := r.client.CoreV1().Pods("ns").Get(t.Context(), filler.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	leaving.DeletionTimestamp, leaving.Finalizers = ptr.To(metav1.Now()), []string{"test/keeps"}
	if _, err := r.client.CoreV1().Pods("ns").Update(t.Context(), leaving, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the pod is leaving", func() bool {
		now, err := r.sched.index.Pods.Pods("ns").Get(filler.Name)
		return err == nil && now.DeletionTimestamp != nil
	})
	if d := r.decideFor(lone); d.Outcome != core.Infeasible {
		t.Errorf("%s: %s; want the room of a pod that is leaving to be kept", d.Outcome, d.Message)
	}
}
