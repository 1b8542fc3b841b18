package tenants

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestRunningWorkKeepsItsQueue tests changes of the objects of running work, without admission
// policies. The work must still use the limit of its queue. Another queue must get its quota by
// evicting the work.
func TestRunningWorkKeepsItsQueue(t *testing.T) {
	t.Parallel()
	for what, deed := range map[string]func(e *env, other string){
		"deletes the PodGroup": func(e *env, _ string) { e.do(e.deleteGroup("work")) },
		"creates the PodGroup again in another queue": func(e *env, other string) {
			e.do(e.deleteGroup("work"))
			e.do(e.edit.Create(e.Context(), e.group("work", "high", other, 1)))
		},
		"takes the label of the group off": func(e *env, _ string) {
			e.merge(&corev1.Pod{}, "work-0", `{"metadata":{"labels":{"reprieve.dev/pod-group":null}}}`)
		},
		"names another group and queue by labels": func(e *env, other string) {
			e.do(e.edit.Create(e.Context(), e.group("elsewhere", "high", other, 1)))
			e.merge(&corev1.Pod{}, "work-0", `{"metadata":{"labels":{"reprieve.dev/pod-group":"elsewhere","reprieve.dev/queue":"`+other+`"}}}`)
		},
		"takes the label of the queue off a single pod": func(e *env, _ string) {
			e.merge(&corev1.Pod{}, "single", `{"metadata":{"labels":{"reprieve.dev/queue":null}}}`)
		},
		"names another queue for a single pod": func(e *env, other string) {
			e.merge(&corev1.Pod{}, "single", `{"metadata":{"labels":{"reprieve.dev/queue":"`+other+`"}}}`)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e := newUnguarded(t)
			e.AddNodes(4, "a", "b")
			team, other := e.queue("team", v1alpha1.QueueSpec{Limit: cpus(4)}), e.queue("other", v1alpha1.QueueSpec{Quota: cpus(4)})
			e.do(e.edit.Create(t.Context(), e.group("work", "low", team, 1)))
			e.running("work-0", "low", "a", 1, inGroup("work"), asking(2))
			e.running("single", "low", "a", 1, inQueue(team), asking(2))
			e.used(team, 4)
			deed(e, other)
			e.pod("late", "low", "b", inQueue(team))
			e.WaitsSaying("late", "limit")
			e.Never("the limit is exceeded", func(ctx context.Context) string {
				if pod := e.Find(ctx, "late"); pod.Spec.NodeName != "" {
					return "the pod has a node"
				}
				return ""
			})
			e.used(team, 4)
			e.pod("owed", "low", "a", inQueue(other))
			e.Runs("owed", 1)
		})
	}
}

// TestRunningWorkKeepsItsPriority tests a user who gives running work a group of a higher class,
// without admission policies. A preemptor with a priority between the two must evict the work.
func TestRunningWorkKeepsItsPriority(t *testing.T) {
	t.Parallel()
	for what, deed := range map[string]func(e *env){
		"puts a single pod into the group": func(e *env) {
			e.do(e.edit.Create(e.Context(), e.group("better", "high", "", 1)))
			e.merge(&corev1.Pod{}, "single", `{"metadata":{"labels":{"reprieve.dev/pod-group":"better"}}}`)
		},
		"puts a member into another group": func(e *env) {
			e.do(e.edit.Create(e.Context(), e.group("better", "high", "", 1)))
			e.merge(&corev1.Pod{}, "work-0", `{"metadata":{"labels":{"reprieve.dev/pod-group":"better"}}}`)
		},
		"creates the group again": func(e *env) {
			e.do(e.deleteGroup("work"))
			e.do(e.edit.Create(e.Context(), e.group("work", "high", "", 1)))
		},
		"puts the group under a better tree": func(e *env) {
			e.do(e.deleteGroup("work"))
			e.do(e.edit.Create(e.Context(), e.tree("better", "high")))
			again := e.group("work", "high", "", 1)
			name := "better"
			again.Spec.ParentCompositePodGroupName = &name
			e.do(e.edit.Create(e.Context(), again))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e := newUnguarded(t)
			e.AddNodes(4, "a")
			e.do(e.edit.Create(t.Context(), e.group("work", "low", "", 1)))
			e.running("work-0", "low", "a", 1, inGroup("work"), asking(2))
			e.running("single", "low", "a", 1, asking(2))
			deed(e)
			// The scheduler must have seen the change before it decides.
			e.pod("waits", "low", "a")
			e.WaitsSaying("waits")
			e.pod("urgent", "mid", "a")
			e.Runs("urgent", 1)
		})
	}
}

// minRuntime is the min-runtime of the queue in TestClocksGoOn, and renewEvery the time between two
// actions of the tenant.
const minRuntime, renewEvery = 10 * time.Second, 1500 * time.Millisecond

// TestClocksGoOn tests a gang whose owner acts all the time, so that its min-runtime would begin
// again. Another queue must get its quota after the min-runtime and at most one restart of a
// member.
func TestClocksGoOn(t *testing.T) {
	t.Parallel()
	replace := func(e *env, n int) error {
		name := fmt.Sprintf("work-%d", n%2)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}}
		if err := client.IgnoreNotFound(e.edit.Delete(e.Context(), pod, client.GracePeriodSeconds(0))); err != nil {
			return err
		}
		return e.edit.Create(e.Context(), e.member(name))
	}
	relabel := func(e *env, n int) error {
		value := "null"
		if n%2 == 1 {
			value = `"work"`
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "work-0"}}
		return client.IgnoreNotFound(e.edit.Patch(e.Context(), pod, client.RawPatch("application/merge-patch+json",
			fmt.Appendf(nil, `{"metadata":{"labels":{"reprieve.dev/pod-group":%s}}}`, value))))
	}
	recreate := func(e *env, n int) error {
		if n%2 == 1 {
			return client.IgnoreAlreadyExists(e.edit.Create(e.Context(), e.group("work", "low", "team-"+e.Namespace, 2)))
		}
		return client.IgnoreNotFound(e.deleteGroup("work"))
	}
	for what, tc := range map[string]struct {
		env  func(*testing.T) *env
		deed func(e *env, n int) error
	}{
		"replaces a member":                    {newEnv, replace},
		"replaces a member, without policies":  {newUnguarded, replace},
		"takes a label off for a time":         {newUnguarded, relabel},
		"deletes the PodGroup, and creates it": {newUnguarded, recreate},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e := tc.env(t)
			e.AddNodes(4, "a")
			team := e.queue("team", v1alpha1.QueueSpec{ReclaimMinRuntime: &metav1.Duration{Duration: minRuntime}})
			other := e.queue("other", v1alpha1.QueueSpec{Quota: cpus(4)})
			e.do(e.edit.Create(t.Context(), e.group("work", "low", team, 2)))
			for _, name := range []string{"work-0", "work-1"} {
				e.do(e.edit.Create(t.Context(), e.member(name)))
			}
			e.Runs("work-", 2)
			// A slow machine may show late that the work runs, so count from its placement.
			began := e.placedAt("work-0", "work-1")
			e.pod("owed", "low", "a", inQueue(other))
			e.owedAfter(began, tc.deed)
		})
	}
}

// member returns a pod of the PodGroup work with 2 CPUs.
func (e *env) member(name string) *corev1.Pod {
	pod := newPodOn(e, name, "low", "a")
	inGroup("work")(pod)
	asking(2)(pod)
	return pod
}

// placedAt returns the time when the last of some pods was placed.
func (e *env) placedAt(names ...string) (last time.Time) {
	e.Helper()
	for _, name := range names {
		pod := e.Pod(name)
		_, c := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled)
		if c == nil {
			e.Fatalf("%s has no condition PodScheduled", name)
		}
		if at := c.LastTransitionTime.Time; at.After(last) {
			last = at
		}
	}
	return last
}

// owedAfter repeats an action of the tenant until the pod owed runs. The test fails if the pod runs
// before the end of the min-runtime, or does not run. began is the time when the min-runtime began.
func (e *env) owedAfter(began time.Time, deed func(e *env, n int) error) {
	e.Helper()
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for n := 0; time.Since(began) < minRuntime+stage.Patience; n++ {
		<-tick.C
		if pod := e.Find(e.Context(), "owed"); pod != nil && pod.Spec.NodeName != "" {
			if took := time.Since(began); took < minRuntime-time.Second {
				e.Errorf("the work was protected for %v only", took)
			}
			return
		}
		if err := client.IgnoreAlreadyExists(deed(e, n)); err != nil {
			e.Fatal(err)
		}
	}
	e.Fatalf("owed does not run after %v:\n%s", time.Since(began), e.Dump())
}
