package preemption

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/reprieve-dev/reprieve/test/integration/preemption/turnstile"
)

const (
	// slowCall is the duration of the slow calls in a case.
	slowCall = 5 * time.Second
	// boundWithin is the longest time until the scheduler binds a pod that fits, on an idle
	// machine.
	boundWithin = time.Second
	// slowness allows for a busy machine. For each pod, the test binds a second pod itself and
	// measures how long that takes. slowness times this duration is added to the bound. It is above
	// 1, because the scheduler has more work than the test.
	slowness = 2
)

// TestUnrelatedPodsBindWithinASecond creates pods that fit without a preemption, while some calls
// of a preemption take 5 seconds: the deletes, or the writes of the preemptor's status. At least
// half of the pods must be bound within a second. If the scheduler waited for the slow calls,
// nearly all pods would be late.
//
// The time of a pod is from before its creation until a watch reports its node. For each pod, the
// test creates a second pod, and binds the second pod itself when the watch reports it. The time of
// the second pod shows how busy the machine is, and increases the bound.
//
// The test does not run in parallel with others, because they share the scheduler.
//
//nolint:tparallel // See above.
func TestUnrelatedPodsBindWithinASecond(t *testing.T) {
	cases := map[string]struct {
		victims, gang int
		slow          func(*env) turnstile.Request
	}{
		"a pod with one victim": {victims: 1, slow: anyDelete},
		// The number of victims exceeds the number of concurrent deletes.
		"a gang with many victims": {victims: 40, gang: 4, slow: anyDelete},
		// The writes of the preemptor's status are slow. A scheduling cycle that made such a write
		// itself would wait for the response.
		"a pod whose status takes long":  {victims: 1, slow: (*env).statuses},
		"a gang whose status takes long": {victims: 4, gang: 4, slow: (*env).statuses},
	}
	for name, c := range cases {
		each(t, name, c.gang > 0, func(e *env) {
			const fewest, most, cpus = 3, 40, 40
			e.addNodes("a", 1, cpus)
			e.addNodes("b", 1, most)
			e.addNodes("c", 1, most)
			for i := range c.victims {
				e.create(unitSpec{name: fmt.Sprintf("victim-%d", i), cpus: cpus / int64(c.victims), priority: "low", zone: "a"})
			}
			for i := range c.victims {
				e.waitRunning(unitSpec{name: fmt.Sprintf("victim-%d", i)})
			}
			delay := e.proxy.Delay(c.slow(e), slowCall)
			e.Cleanup(delay.End)
			urgent := unitSpec{name: "urgent", cpus: cpus / int64(max(c.gang, 1)), priority: "mid", zone: "a", gang: c.gang}
			e.create(urgent)
			e.Eventually("the preemption is under way", func(context.Context) string {
				if len(e.proxy.Calls(c.slow(e))) == 0 {
					return "there is no call for it"
				}
				return ""
			})
			came := e.keepComing(most, func() bool { return len(e.succeeded()) < c.victims })
			if len(came) < fewest {
				e.Errorf("%d pods came while the calls were under way, want %d at least", len(came), fewest)
			}
			e.checkBindings(came)
			e.waitRunning(urgent)
			if got := len(e.deleted()); got != c.victims {
				e.Errorf("%v were deleted, want all %d victims", e.deleted(), c.victims)
			}
		})
	}
}

// anyDelete matches the scheduler's requests that delete pods.
func anyDelete(e *env) turnstile.Request { return e.deletes("") }

// statuses matches the scheduler's requests that write the status of pods.
func (e *env) statuses() turnstile.Request {
	return turnstile.Request{Verb: "patch", Resource: "pods", Subresource: "status", Namespace: e.Namespace}
}

// binding has the times when a pod was created and when its node was seen.
type binding struct{ created, bound time.Time }

func (b binding) took() time.Duration { return b.bound.Sub(b.created) }

// pair has the times of a pod that the scheduler binds, and of a second pod that the test binds.
type pair struct{ scheduled, own binding }

// keepComing creates pods that fit, one after the other, without waiting for their nodes. It stops
// after "most" pods, or when more returns false. Then it waits until all pods have nodes.
func (e *env) keepComing(most int, more func() bool) []pair {
	e.Helper()
	const pace = 250 * time.Millisecond
	seen := e.watchBindings()
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	var out []pair
	name := func(prefix string) string { return fmt.Sprintf("%s-%d", prefix, len(out)) }
	for len(out) < most && more() {
		var p pair
		p.scheduled.created = time.Now()
		e.create(unitSpec{name: name("unrelated"), cpus: 1, priority: "low", zone: "b"})
		p.own.created = time.Now()
		e.create(unitSpec{name: name("own"), cpus: 1, priority: "low", zone: "c", change: func(pod *corev1.Pod) {
			pod.Spec.SchedulerName = byTest
		}})
		out = append(out, p)
		<-ticker.C
	}
	e.Eventually("all of them are bound", func(context.Context) string {
		for i := range out {
			for prefix, b := range map[string]*binding{"unrelated": &out[i].scheduled, "own": &out[i].own} {
				name := fmt.Sprintf("%s-%d", prefix, i)
				bound, ok := seen.at(name)
				if !ok {
					return name + " is not"
				}
				b.bound = bound
			}
		}
		return ""
	})
	return out
}

// checkBindings checks that at least half of the pods were bound in time.
func (e *env) checkBindings(came []pair) {
	e.Helper()
	var slowest, busiest time.Duration
	var late []string
	for i, p := range came {
		machine := time.Duration(0)
		for _, other := range came {
			if other.own.created.Before(p.scheduled.bound) && other.own.bound.After(p.scheduled.created) {
				machine = max(machine, other.own.took())
			}
		}
		if limit := boundWithin + slowness*machine; p.scheduled.took() >= limit {
			late = append(late, fmt.Sprintf("unrelated-%d after %v, not %v", i, p.scheduled.took(), limit))
		}
		slowest, busiest = max(slowest, p.scheduled.took()), max(busiest, machine)
	}
	// More than half of the pods are late.
	if 2*len(late) > len(came) {
		e.Errorf("%d of %d were bound late: %s", len(late), len(came), strings.Join(late, "; "))
	}
	e.Logf("%d pods, each bound within %v; those that the test bound within %v", len(came), slowest, busiest)
}

// byTest is the scheduler name of pods that the test binds.
const byTest = "test"

// bindings maps the name of a pod to the time when a watch first reported its node.
type bindings struct {
	mu    sync.Mutex
	times map[string]time.Time
}

func (b *bindings) at(pod string) (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, ok := b.times[pod]
	return at, ok
}

func (b *bindings) see(pod string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.times[pod]; !known {
		b.times[pod] = time.Now()
	}
}

// watchBindings records when pods get their nodes, and binds the pods with the scheduler name
// byTest.
func (e *env) watchBindings() *bindings {
	e.Helper()
	out := &bindings{times: map[string]time.Time{}}
	var binding sync.WaitGroup
	// Wait for bindings in progress at the end of the test.
	e.Cleanup(binding.Wait)
	e.FollowPods("", func(change watch.EventType, pod *corev1.Pod) {
		switch {
		case pod.Spec.NodeName != "":
			out.see(pod.Name)
		case change == watch.Added && pod.Spec.SchedulerName == byTest:
			binding.Go(func() { e.bind(pod) })
		}
	})
	return out
}

func (e *env) bind(pod *corev1.Pod) {
	e.Helper()
	err := e.Kube.CoreV1().Pods(e.Namespace).Bind(e.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: e.nodeName("c", 0)},
	}, metav1.CreateOptions{})
	if err != nil {
		e.Errorf("bind pod %s: %v", pod.Name, err)
	}
}
