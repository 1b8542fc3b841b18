package scheduler

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/profiles"
)

// long is a profile's argument that lets pods terminate for 10 s before they are overdue.
const long = "{terminationTimeout: 10s}"

// said returns the last message about a preemptor: from the verdict of its gang, or from its
// condition.
func (r *rig) said(p *corev1.Pod) string {
	if g := r.sched.index.GangOf(p); g != nil {
		return r.sched.gangs.Verdict(gangKey(g.Key)).Message
	}
	got, err := r.client.CoreV1().Pods(p.Namespace).Get(r.t.Context(), p.Name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, c := range got.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.Message
		}
	}
	return ""
}

// TestOverdue checks a preemptor that waits for a terminating pod and evicts no other pods. When
// the pod is overdue, it counts as running. The messages then name it, and the preemptor looks for
// other room.
func TestOverdue(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, newPreemptor func(r *rig) *corev1.Pod) {
		r := newRigArgs(t, long, nodes(2, "1")...)
		r.create(on(pod("stuck", "", "1", 0), "node-0"), on(pod("other", "", "1", 5), "node-1"))
		since := time.Now()
		r.terminate("stuck", since)
		p := newPreemptor(r)
		r.create(p)
		r.cycle()
		if node, _ := r.reservedOn(p.UID); node != "node-0" || len(r.evictor.orders) != 0 {
			t.Fatalf("Room is promised on %q, with %d evictions; want it to wait on node-0", node, len(r.evictor.orders))
		}
		r.eventually("it is tried again", func() bool { return len(r.active()) > 0 })
		if waited := time.Since(since); waited < 10*time.Second {
			t.Errorf("It waited for %v only", waited)
		}
		r.cycle()
		if got := r.victims(); !slices.Equal(got, []string{"other"}) {
			t.Errorf("Victims are %v", got)
		}
		if node, _ := r.reservedOn(p.UID); node != "node-1" {
			t.Errorf("Room is promised on %q", node)
		}
		r.eventually("it is named", func() bool {
			return strings.Contains(r.said(p), "not waited for, still terminating more than 10s after the grace period: ns/stuck on node-0")
		})
	})
}

// TestLongGraceIsBounded checks a pod that was deleted with a grace period of 31 years. The
// preemptor waits for maxGracePeriod and the timeout, and then looks for other room.
func TestLongGraceIsBounded(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, newPreemptor func(r *rig) *corev1.Pod) {
		r := newRigArgs(t, "{terminationTimeout: 2s, maxGracePeriod: 8s}", nodes(2, "1")...)
		r.create(on(pod("stuck", "", "1", 0), "node-0"), on(pod("other", "", "1", 5), "node-1"))
		since := time.Now()
		r.terminateWithin("stuck", since.Add(1_000_000_000*time.Second), ptr.To[int64](1_000_000_000))
		p := newPreemptor(r)
		r.create(p)
		r.cycle()
		if node, _ := r.reservedOn(p.UID); node != "node-0" || len(r.evictor.orders) != 0 {
			t.Fatalf("Room is promised on %q, with %d evictions; want it to wait on node-0", node, len(r.evictor.orders))
		}
		r.eventually("it is tried again", func() bool { return len(r.active()) > 0 })
		if waited := time.Since(since); waited < 10*time.Second {
			t.Errorf("It waited for %v only", waited)
		}
		r.cycle()
		if got := r.victims(); !slices.Equal(got, []string{"other"}) {
			t.Errorf("Victims are %v", got)
		}
		r.eventually("it is named", func() bool {
			return strings.Contains(r.said(p), "not waited for, deleted with a grace period longer than maxGracePeriod (8s): ns/stuck on node-0")
		})
	})
}

// TestOverdueAt checks the time from the start of a deletion until the pod is overdue.
func TestOverdueAt(t *testing.T) {
	t.Parallel()
	limits := profiles.Limits{Grace: time.Hour, Timeout: 5 * time.Minute}
	begun := time.Unix(1_000_000, 0)
	for name, tt := range map[string]struct {
		// seconds is the grace period; a negative value means none.
		seconds int64
		want    time.Duration
	}{
		"no grace period is known":     {-1, 5 * time.Minute},
		"killed at once":               {0, 5 * time.Minute},
		"half a minute":                {30, 5*time.Minute + 30*time.Second},
		"the longest":                  {3600, time.Hour + 5*time.Minute},
		"a second more":                {3601, time.Hour + 5*time.Minute},
		"31 years":                     {1_000_000_000, time.Hour + 5*time.Minute},
		"more than a duration can be":  {10_000_000_000, time.Hour + 5*time.Minute},
		"as much as the field can be":  {math.MaxInt64, time.Hour + 5*time.Minute},
		"a duration's overflow is a 0": {1 << 55, time.Hour + 5*time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pod("p", "", "1", 0)
			// The API server computes the timestamp with the same overflow.
			p.DeletionTimestamp = &metav1.Time{Time: begun.Add(time.Second * time.Duration(max(tt.seconds, 0)))}
			if tt.seconds >= 0 {
				p.DeletionGracePeriodSeconds = &tt.seconds
			}
			if got := limits.OverdueAt(p).Sub(begun); got != tt.want {
				t.Errorf("Overdue %v after the deletion began, want %v", got, tt.want)
			}
		})
	}
}

// TestOverdueIsNoRoom checks a preemptor whose only possible room is used by an overdue pod. The
// reservation of the preemptor must be released, and its message must name the overdue pod.
func TestOverdueIsNoRoom(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, newPreemptor func(r *rig) *corev1.Pod) {
		r := newRigArgs(t, long, nodes(1, "1")...)
		stuck := on(pod("stuck", "", "1", 0), "node-0")
		r.create(stuck)
		r.terminate("stuck", time.Now())
		p := newPreemptor(r)
		r.create(p)
		r.cycle()
		r.eventually("it is tried again", func() bool { return len(r.active()) > 0 })
		r.cycle()
		if !r.sched.reserved.Empty() || len(r.evictor.orders) != 0 {
			t.Errorf("Room is promised: %t, with %d evictions", !r.sched.reserved.Empty(), len(r.evictor.orders))
		}
		if g := r.sched.index.GangOf(p); g != nil && r.sched.gangs.Verdict(gangKey(g.Key)).Reason != v1alpha1.ReasonUnschedulable {
			t.Errorf("It is told %+v", r.sched.gangs.Verdict(gangKey(g.Key)))
		}
		r.eventually("it is named", func() bool { return strings.Contains(r.said(p), "ns/stuck on node-0") })
		// The overdue pod terminates at last.
		r.remove(stuck)
		r.eventually("it is tried again", func() bool { return len(r.active()) > 0 })
		r.cycles()
		r.waitBound(p.Name)
	})
}

// TestOverdueBeforeItCame checks that the snapshot of a node is updated when a pod on it becomes
// overdue, although nothing on the node has changed.
func TestOverdueBeforeItCame(t *testing.T) {
	t.Parallel()
	r := newRigArgs(t, long, nodes(1, "1")...)
	r.create(on(pod("stuck", "", "1", 0), "node-0"))
	r.terminate("stuck", time.Now())
	first := pod("first", "", "1", 10)
	r.create(first)
	r.cycle()
	r.remove(first)
	stuck, err := r.sched.index.Pods.Pods("ns").Get("stuck")
	if err != nil {
		t.Fatal(err)
	}
	r.eventually("the pod is overdue", func() bool { return r.sched.leaving.IsOverdue(stuck.UID) })
	second := pod("second", "", "1", 10)
	r.create(second)
	r.cycle()
	if !r.sched.reserved.Empty() {
		t.Error("Room is promised where a pod does not go")
	}
}

// TestOverdueByTheLongestProfile checks that the longest timeout of all profiles counts, because
// the profiles share the state of pods.
func TestOverdueByTheLongestProfile(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, schedulerYAML+`  pluginConfig: [{name: Reprieve, args: {terminationTimeout: 1s}}]
- schedulerName: patient
  plugins: {multiPoint: {enabled: [{name: Reprieve}], disabled: [{name: DefaultPreemption}]}}
  pluginConfig: [{name: Reprieve, args: {terminationTimeout: 1h}}]
`, nil, nodes(1, "1")...)
	stuck := on(pod("stuck", "", "1", 0), "node-0")
	r.create(stuck)
	r.terminate("stuck", time.Now().Add(-time.Minute))
	p := pod("p", "", "1", 10)
	r.create(p)
	r.cycle()
	if !r.sched.reserved.Has(string(p.UID)) {
		t.Error("The pod is not waited for")
	}
}

// TestOverdueIsAskedFor checks that the requests of an overdue pod count as demand of its queue.
// Otherwise, the queue's share would fall below its usage, and other pods of the queue would be
// evicted.
func TestOverdueIsAskedFor(t *testing.T) {
	t.Parallel()
	r := newRigArgs(t, "{terminationTimeout: 8s}", nodes(1, "4")...)
	r.sched.QueueSet(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	r.create(ofQueue("a", on(pod("stuck", "", "1", 0), "node-0")), ofQueue("a", on(pod("other", "", "1", 0), "node-0")))
	share := func() int64 {
		standing := r.sched.quotas.Snapshot([]string{"cpu"})
		leaf, _ := standing.Tree.Find("a")
		return standing.Shares[leaf][0]
	}
	r.terminate("stuck", time.Now().Add(time.Second))
	r.eventually("one asks for nothing while it goes", func() bool { return share() == 1000 })
	r.eventually("it asks for what it has once it is overdue", func() bool { return share() == 2000 })
	if going := r.sched.quotas.Going(); len(going) > 0 {
		t.Errorf("%v count as going", going)
	}
}

// TestLongGraceCountsInTheQueue checks a pod that was deleted with a grace period of 31 years. The
// pod must count as usage and demand of its queue from the start, so that another queue can reclaim
// its quota at once. Preemptors on the pod's node still wait for the pod.
func TestLongGraceCountsInTheQueue(t *testing.T) {
	t.Parallel()
	const years = 1_000_000_000
	for name, c := range map[string]struct {
		grace       int64
		wantVictims []string
	}{
		"31 years": {grace: years, wantVictims: []string{"borrowed"}},
		"a minute": {grace: 60},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigArgs(t, "{terminationTimeout: 1h, maxGracePeriod: 1h}", nodes(2, "1")...)
			one := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
			r.sched.QueueSet(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.QueueSpec{Quota: one}})
			r.sched.QueueSet(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.QueueSpec{Quota: one}})
			r.create(ofQueue("a", on(pod("stuck", "", "1", 0), "node-0")), ofQueue("a", on(pod("borrowed", "", "1", 0), "node-1")))
			r.terminateWithin("stuck", time.Now().Add(time.Duration(c.grace)*time.Second), &c.grace)
			next := ofQueue("b", pod("next", "", "1", 0))
			next.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-1"}
			r.create(next)
			r.cycle()
			if got := r.victims(); !slices.Equal(got, c.wantVictims) {
				t.Errorf("Victims are %v, want %v: %s", got, c.wantVictims, r.said(next))
			}
			other := pod("other", "", "1", 0)
			r.create(other)
			r.cycle()
			if node, _ := r.reservedOn(other.UID); node != "node-0" {
				t.Errorf("Another pod has room on %q, want it to wait for the terminating pod", node)
			}
		})
	}
}
