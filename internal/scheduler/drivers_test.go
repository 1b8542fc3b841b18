package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// sparkPod returns a pod of a Spark application. It requests one CPU.
func sparkPod(name, role, application string, priority int32) *corev1.Pod {
	p := pod(name, "", "1", priority)
	p.Labels = map[string]string{"spark-role": role, "spark-app-selector": application}
	p.CreationTimestamp = metav1.Now()
	return p
}

// drivers returns the drivers of count Spark applications, the oldest first.
func sparkDrivers(count int) []*corev1.Pod {
	out := make([]*corev1.Pod, count)
	for i := range out {
		out[i] = sparkPod(fmt.Sprintf("driver-%d", i), "driver", fmt.Sprintf("app-%d", i), 0)
		out[i].CreationTimestamp.Time = out[i].CreationTimestamp.Add(time.Duration(i-count) * time.Second)
	}
	return out
}

// patient has timeouts for drivers that do not end during a test, even on a slow machine.
const patient = "{drivers: {createTimeout: 1h, workersTimeout: 1h}}"

func executor(name, application string) *corev1.Pod {
	return sparkPod(name, "executor", application, 0)
}

// TestDriversLeaveRoomForWorkers creates four drivers at once in a cluster with room for four pods.
// Only two drivers may be placed at first, so that they get their executors. The other two drivers
// must follow when the first two applications end.
func TestDriversLeaveRoomForWorkers(t *testing.T) {
	t.Parallel()
	r := newRigArgs(t, patient, node("node-0", "4"))
	all := sparkDrivers(4)
	r.create(all...)
	// served are the drivers with an executor.
	var served []*corev1.Pod
	// ended is the number of served drivers that are gone.
	ended := 0
	waiting := func() (placed []*corev1.Pod) {
		for _, p := range all {
			if !slices.Contains(served, p) && r.nodeOf(p.Name) != "" {
				placed = append(placed, p)
			}
		}
		return placed
	}
	for range all {
		r.eventually("another driver is placed", func() bool { r.cycles(); return len(waiting()) > 0 })
		r.never("two drivers run without their workers", 50*time.Millisecond, func() bool { r.cycles(); return len(waiting()) > 1 })
		// The order of placement can differ from the order of creation, because a driver may find
		// no room at first.
		next := waiting()[0]
		worker := executor("executor-of-"+next.Name, next.Labels["spark-app-selector"])
		r.create(worker)
		r.waitBound(worker.Name)
		served = append(served, next)
		if len(served)%2 == 0 {
			// The cluster is full, so two applications end.
			for ; ended < len(served); ended++ {
				r.remove(served[ended])
				r.remove(executor("executor-of-"+served[ended].Name, ""))
			}
		}
	}
	r.eventually("nothing is known of drivers any more", func() bool { return !r.sched.waits.Awaits(engine.Drivers) })
	if len(r.evictor.orders) > 0 {
		t.Errorf("%d preemptions", len(r.evictor.orders))
	}
}

// TestDriverIsRetried checks that a blocked driver is placed when the cause ends, for each way in
// which the cause can end.
func TestDriverIsRetried(t *testing.T) {
	t.Parallel()
	update := func(r *rig, name string, change func(*corev1.Pod)) {
		p, err := r.client.CoreV1().Pods("ns").Get(r.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			r.t.Fatal(err)
		}
		p = p.DeepCopy()
		change(p)
		if _, err := r.client.CoreV1().Pods("ns").Update(r.t.Context(), p, metav1.UpdateOptions{}); err != nil {
			r.t.Fatal(err)
		}
	}
	// short is the timeout of drivers in the cases that wait for its end.
	const short = 8 * time.Second
	for name, tt := range map[string]struct {
		args string
		// first changes the driver that is placed first, before it is created.
		first func(*corev1.Pod)
		ends  func(r *rig, first *corev1.Pod)
	}{
		"a worker is placed": {ends: func(r *rig, _ *corev1.Pod) { r.create(executor("executor", "app-0")) }},
		"the last worker is placed": {
			first: func(p *corev1.Pod) { p.Annotations = map[string]string{v1alpha1.AnnotationLeads: "2"} },
			ends: func(r *rig, _ *corev1.Pod) {
				r.create(executor("executor-0", "app-0"))
				r.waitBound("executor-0")
				r.never("it is placed too early", 100*time.Millisecond, func() bool { r.cycles(); return r.nodeOf("driver-1") != "" })
				r.create(executor("executor-1", "app-0"))
			},
		},
		"the driver is deleted": {ends: func(r *rig, first *corev1.Pod) { r.remove(first) }},
		"the driver terminates": {ends: func(r *rig, _ *corev1.Pod) {
			update(r, "driver-0", func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) })
		}},
		"its time is over": {args: "{drivers: {createTimeout: 8s}}", ends: func(*rig, *corev1.Pod) {}},
		"the time of its workers is over": {args: "{drivers: {workersTimeout: 8s}}", ends: func(r *rig, _ *corev1.Pod) {
			large := executor("executor", "app-0")
			large.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resourceMustParse("100")
			r.create(large)
		}},
		"it leads none any more": {ends: func(r *rig, _ *corev1.Pod) {
			update(r, "driver-0", func(p *corev1.Pod) { p.Annotations = map[string]string{v1alpha1.AnnotationLeads: "0"} })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigArgs(t, cmp.Or(tt.args, patient), node("node-0", "8"))
			two := sparkDrivers(2)
			// The timeouts of the test count from this time. On a slow machine, they may end before
			// the checks.
			two[0].CreationTimestamp = metav1.Now()
			timedOut := func() bool { return tt.args != "" && time.Since(two[0].CreationTimestamp.Time) >= short }
			two[1].CreationTimestamp = metav1.NewTime(two[0].CreationTimestamp.Add(time.Millisecond))
			if tt.first != nil {
				tt.first(two[0])
			}
			r.create(two...)
			r.waitBound("driver-0")
			r.never("the second is placed at once", 100*time.Millisecond, func() bool {
				r.cycles()
				return r.nodeOf("driver-1") != "" && !timedOut()
			})
			if !r.sched.waits.WaitsFor(podKey(two[1]), engine.Drivers) && !timedOut() {
				t.Fatal("the second driver does not wait for the first")
			}
			tt.ends(r, two[0])
			r.waitBound("driver-1")
			if r.sched.waits.WaitsFor(podKey(two[1]), engine.Drivers) {
				t.Error("it still waits for others")
			}
		})
	}
}

// TestDriverThatFindsNoRoom checks that a driver without room does not block other drivers. Once
// the driver is bound, it must count toward the maximum number of drivers.
func TestDriverThatFindsNoRoom(t *testing.T) {
	t.Parallel()
	r := newRigArgs(t, patient, node("node-0", "2"))
	two := sparkDrivers(2)
	two[0].Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resourceMustParse("3")
	r.create(two...)
	r.waitBound("driver-1")
	if _, err := r.client.CoreV1().Nodes().Create(t.Context(), node("node-1", "4"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.never("two run without their workers", 100*time.Millisecond, func() bool { r.cycles(); return r.nodeOf("driver-0") != "" })
	r.create(executor("executor", "app-1"))
	r.waitBound("driver-0")
}

// TestDriverWhoseBindingFails checks that another driver is placed if the binding of a driver
// fails.
func TestDriverWhoseBindingFails(t *testing.T) {
	t.Parallel()
	r := newRigArgs(t, patient, node("node-0", "4"))
	two := sparkDrivers(2)
	two[0].Annotations = map[string]string{failsAt: atBind}
	r.create(two...)
	r.waitBound("driver-1")
}

// TestBlockedDriverPreemptsNothing checks that a blocked driver evicts no pods, and that its
// condition has the reason why it waits.
func TestBlockedDriverPreemptsNothing(t *testing.T) {
	t.Parallel()
	r := newRigArgs(t, patient, node("node-0", "2"))
	r.listen()
	r.create(on(pod("victim", "", "1", -10), "node-0"))
	two := sparkDrivers(2)
	r.create(two...)
	r.waitBound("driver-0")
	r.never("it is tried", 100*time.Millisecond, func() bool { r.cycles(); return r.nodeOf("driver-1") != "" })
	if len(r.evictor.orders) > 0 {
		t.Errorf("%d preemptions", len(r.evictor.orders))
	}
	// The message contains a time only after the informer shows that driver-0 is bound.
	said := "no condition"
	r.eventually("it says why and until when", func() bool {
		r.cycles()
		r.sched.reporter.ReportBlocked()
		if now, ok := r.sched.index.PodOf(podKey(two[1])); ok {
			if c := cluster.ScheduledCondition(now); c != nil {
				said = c.Reason + ": " + c.Message
			}
		}
		return strings.HasPrefix(said, v1alpha1.ReasonDriversWithoutWorkers) &&
			strings.Contains(said, "ns/driver-0") && strings.Contains(said, "at the latest")
	})
	if t.Failed() {
		t.Log("it says " + said)
	}
}

// TestDriversAhead checks which drivers block another driver.
func TestDriversAhead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args string
		// change changes the placed driver, and the driver that is checked.
		change  func(placed, asks *corev1.Pod)
		others  []*corev1.Pod
		blocked bool
	}{
		"another one without workers": {blocked: true},
		"off":                         {args: "{drivers: {withoutWorkers: 0}}"},
		"a profile of single pods":    {args: "{workloadAware: false}"},
		"a second one is allowed":     {args: "{drivers: {withoutWorkers: 2}}"},
		"a third one is not": {
			args: "{drivers: {withoutWorkers: 2, createTimeout: 30m}}", others: []*corev1.Pod{on(sparkPod("other", "driver", "app-2", 0), "node-0")}, blocked: true,
		},
		"one of a lower priority":       {change: func(placed, _ *corev1.Pod) { placed.Spec.Priority = new(int32(-1)) }},
		"one of another scheduler":      {change: func(placed, _ *corev1.Pod) { placed.Spec.SchedulerName = "other" }},
		"one that has finished":         {change: func(placed, _ *corev1.Pod) { placed.Status.Phase = corev1.PodSucceeded }},
		"one that was bound long ago":   {change: func(placed, _ *corev1.Pod) { placed.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour)) }},
		"one whose container is young":  {change: runningSince(time.Hour, time.Second, 0), blocked: true},
		"one whose container is old":    {change: runningSince(time.Hour, 30*time.Minute, 0)},
		"one that is started again":     {change: runningSince(time.Hour, time.Second, 3)},
		"one with its worker":           {others: []*corev1.Pod{on(executor("executor", "app-0"), "node-0")}},
		"one whose worker waits":        {others: []*corev1.Pod{executor("executor", "app-0")}, blocked: true},
		"one whose worker is of others": {others: []*corev1.Pod{on(executor("executor", "app-7"), "node-0")}, blocked: true},
		"one that owns its worker": {
			change: func(placed, _ *corev1.Pod) { placed.Labels = nil; placed.Annotations = leads("1") },
			others: []*corev1.Pod{on(ownedByPod(pod("worker", "", "1", 0), "driver-0"), "node-0")},
		},
		"one that a worker names": {
			change: func(placed, _ *corev1.Pod) { placed.Labels = nil; placed.Annotations = leads("1") },
			others: []*corev1.Pod{on(ledBy(pod("worker", "", "1", 0), "driver-0"), "node-0")},
		},
		"one that says that it leads": {change: func(placed, _ *corev1.Pod) { placed.Labels = nil; placed.Annotations = leads("1") }, blocked: true},
		"one that needs two":          {change: func(placed, _ *corev1.Pod) { placed.Annotations = leads("2") }, others: []*corev1.Pod{on(executor("executor", "app-0"), "node-0")}, blocked: true},
		"one that leads none":         {change: func(placed, _ *corev1.Pod) { placed.Annotations = leads("0") }},
		"Dask":                        {change: func(placed, asks *corev1.Pod) { placed.Labels, asks.Labels = dask("a"), dask("b") }, blocked: true},
		"one of the same application": {change: func(_, asks *corev1.Pod) { asks.Labels["spark-app-selector"] = "app-0" }},
		"the asking one has a worker": {others: []*corev1.Pod{executor("executor", "app-1")}},
		"the asking one leads none":   {change: func(_, asks *corev1.Pod) { asks.Annotations = leads("0") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigArgs(t, cmp.Or(tt.args, "{drivers: {createTimeout: 30m}}"), node("node-0", "8"))
			two := sparkDrivers(2)
			on(two[0], "node-0")
			if tt.change != nil {
				tt.change(two[0], two[1])
			}
			for _, p := range tt.others {
				// A slow machine may run this case long after the table was built, so set the age
				// of the pods here.
				p.CreationTimestamp = metav1.Now()
			}
			for _, p := range slices.Concat(two, tt.others) {
				if _, err := r.client.CoreV1().Pods("ns").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			r.eventually("all is known", func() bool {
				return !slices.ContainsFunc(slices.Concat(two, tt.others), func(p *corev1.Pod) bool { _, known := r.sched.index.PodOf(podKey(p)); return !known })
			})
			if v := r.sched.BlockedDriver(two[1]); (v != gang.Verdict{}) != tt.blocked {
				t.Errorf("it is told %q, want blocked %v", v.Message, tt.blocked)
			}
		})
	}
}

func leads(workers string) map[string]string {
	return map[string]string{v1alpha1.AnnotationLeads: workers}
}

func dask(cluster string) map[string]string {
	return map[string]string{"dask.org/component": "scheduler", "dask.org/cluster-name": cluster}
}

func ownedByPod(p *corev1.Pod, driver string) *corev1.Pod {
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: driver, UID: "uid-driver-0"}}
	return p
}

func ledBy(p *corev1.Pod, driver string) *corev1.Pod {
	p.Labels = map[string]string{v1alpha1.LabelLedBy: driver}
	return p
}

// runningSince sets the times since which the placed driver is bound and since which its container
// runs.
func runningSince(bound, started time.Duration, restarts int32) func(placed, asks *corev1.Pod) {
	return func(placed, _ *corev1.Pod) {
		at := func(ago time.Duration) metav1.Time { return metav1.NewTime(time.Now().Add(-ago)) }
		placed.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at(bound)}}
		placed.Status.ContainerStatuses = []corev1.ContainerStatus{{
			RestartCount: restarts, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(started)}},
		}}
	}
}
