package scheduler

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// TestRunThatIsOver checks the protection of a gang after members were replaced. If one member was
// replaced, the protection must not begin again. If all members were replaced, the gang must be
// protected, even before its status shows the new run.
func TestRunThatIsOver(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		// replace replaces the second member of the gang by m.
		replace func(r *rig, g *gang.Group, second, m *corev1.Pod)
		// first is true if the first member is replaced too, which begins a new run.
		first bool
	}{
		"short for long enough": {replace: func(r *rig, g *gang.Group, second, m *corev1.Pod) {
			r.remove(second)
			r.eventually("it has lacked a member for long enough", func() bool { return r.sched.runs.Look(g, r.sched.clock.Now()).Start.IsZero() })
			r.create(m)
		}},
		"short for a moment": {replace: func(r *rig, g *gang.Group, second, m *corev1.Pod) {
			r.remove(second)
			r.eventually("it lacks a member", func() bool { return !r.sched.runs.Look(g, r.sched.clock.Now()).ShortSince.IsZero() })
			r.create(m)
		}},
		"replaced between two looks": {replace: func(r *rig, _ *gang.Group, second, m *corev1.Pod) {
			r.create(m)
			r.remove(second)
		}},
		"of other members": {first: true, replace: func(r *rig, _ *gang.Group, second, m *corev1.Pod) {
			r.remove(second)
			r.eventually("no member is left", func() bool { return r.sched.gangs.Len() == 0 })
			r.create(m)
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, append([]runtime.Object{tolerantClass("c", "100", "3600")}, nodes(2, "3")...)...)
			g := r.gangOf("g", 2, 0)
			long, now := time.Now().Add(-2*time.Hour).Truncate(time.Second), time.Now().Truncate(time.Second)
			g.PriorityClassName, g.StartTime = "c", long
			m, p := members("g", 4, "1", 0), pod("p", "", "3", 10)
			for _, member := range m {
				member.Status.Phase = corev1.PodRunning
				member.CreationTimestamp = metav1.NewTime(long)
			}
			m[2].CreationTimestamp, m[3].CreationTimestamp = metav1.NewTime(now), metav1.NewTime(now)
			r.create(on(classed(m[0], "c", long), "node-0"), on(classed(m[1], "c", long), "node-0"), on(pod("other", "", "3", 50), "node-1"), p)
			if d := r.decideFor(p); d.Outcome != core.Preempts {
				t.Fatalf("%s: %s, want to preempt what has run long", d.Outcome, d.Message)
			}
			order := eviction.Order{Groups: r.sched.index.GroupsOf(m[:2]), Seen: r.sched.runs.Settle(r.sched.index.Groups, r.sched.clock.Now())}
			if r.plugin.RunsAnew(&order, g.Key) {
				t.Error("It has begun anew, and nothing has happened")
			}
			if c.first {
				r.remove(m[0])
			}
			c.replace(r, g, m[1], on(classed(m[2], "c", now), "node-0"))
			if c.first {
				r.create(on(classed(m[3], "c", now), "node-0"))
			}
			r.eventually("the other member is known", func() bool {
				members := r.sched.index.Lister.Members(g.Key)
				return len(members.Assigned) == 2 && !slices.ContainsFunc(members.Assigned, func(pod *corev1.Pod) bool { return pod.UID == m[1].UID })
			})
			d := r.decideFor(p)
			if !c.first {
				if r.plugin.RunsAnew(&order, g.Key) || d.Outcome != core.Preempts {
					t.Errorf("%s: %s, want to preempt what has run long", d.Outcome, d.Message)
				}
				return
			}
			if began := time.Unix(0, d.RetryAt-1).Add(-time.Hour); d.Outcome != core.Infeasible || began.Before(now) {
				t.Errorf("%s, retry at %v: %s; want to wait for an hour from now on", d.Outcome, time.Unix(0, d.RetryAt), d.Message)
			}
		})
	}
}

// TestSyncWaitsForFinished checks that HasSynced is false until the finished members are known.
func TestSyncWaitsForFinished(t *testing.T) {
	t.Parallel()
	succeeded := members("g", 2, "1", 0)[0]
	succeeded.Spec.NodeName, succeeded.Status.Phase = "node-0", corev1.PodSucceeded
	client, served := fake.NewClientset(nodes(1, "3")...), atomic.Bool{}
	listFinished(client, func() (*corev1.PodList, error) {
		if !served.Load() {
			return &corev1.PodList{}, apierrors.NewServiceUnavailable("not yet")
		}
		return &corev1.PodList{Items: []corev1.Pod{*succeeded}}, nil
	})
	r := newRigOn(t, client, &groups{all: map[types.NamespacedName]*gang.Group{}}, schedulerYAML, nil)
	g := r.gangOf("g", 2, 0)
	r.eventually("it has heard of the nodes", func() bool { return r.upstream.Cache.NodeCount() == 1 })
	if r.sched.HasSynced() {
		t.Error("It says that it knows all there was, and lacks the finished members")
	}
	served.Store(true)
	r.eventually("it has heard of all", r.sched.HasSynced)
	if m := r.sched.Members(g.Key); len(m.Succeeded) != 1 {
		t.Errorf("%d members have succeeded, want 1", len(m.Succeeded))
	}
}

// TestFinishedMemberReplacedInARelist checks a finished member that is replaced by a finished pod
// of the same name while the watch is interrupted. Informers report that as an update.
func TestFinishedMemberReplacedInARelist(t *testing.T) {
	t.Parallel()
	before := members("g", 1, "1", 0)[0]
	before.Spec.NodeName, before.Status.Phase = "node-0", corev1.PodSucceeded
	client, watcher := fake.NewClientset(nodes(1, "3")...), watch.NewFake()
	listFinished(client, func() (*corev1.PodList, error) { return &corev1.PodList{Items: []corev1.Pod{*before}}, nil })
	client.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, watch.Interface, error) {
		w, ok := action.(clienttesting.WatchAction)
		return ok && onlyFinished(w.GetWatchRestrictions().Fields), watcher, nil
	})
	r := newRigOn(t, client, &groups{all: map[types.NamespacedName]*gang.Group{}}, schedulerYAML, nil)
	g := r.gangOf("g", 1, 0)
	r.eventually("the member is known", func() bool { m := r.sched.Members(g.Key); return len(m.Succeeded) == 1 })
	r.sched.gangs.SetVerdict(gangKey(g.Key), gang.Verdict{Reason: "Pending"})
	after := before.DeepCopy()
	after.UID, after.Labels = "another", nil
	watcher.Modify(after)
	r.eventually("nothing is remembered of the gang", func() bool { return r.sched.gangs.Len() == 0 })
}
