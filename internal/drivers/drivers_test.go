package drivers

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/leaving"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// now is the time in these tests. Drivers without another time were created and bound a minute ago.
var now = time.Unix(100_000, 0)

// fixture is a Bounds with an informer's store of pods. It records the workloads that are retried.
type fixture struct {
	*Bounds
	t       *testing.T
	engine  *engine.Engine
	pods    cache.Indexer
	retried []workload.Key
}

// Retry is part of Retrier.
func (f *fixture) Retry(key workload.Key) { f.retried = append(f.retried, key) }

// newFixture returns a fixture with these pods. bound is the maximum number of drivers without
// workers.
func newFixture(t *testing.T, bound int32, pods ...*corev1.Pod) *fixture {
	t.Helper()
	f := &fixture{t: t, engine: engine.New(nil)}
	informer := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().Pods().Informer()
	index := cluster.NewIndex(cluster.Sources{Groups: &gang.Store{}})
	if err := gang.AddDriverIndexes(informer, index.Derived); err != nil {
		t.Fatal(err)
	}
	f.pods = informer.GetIndexer()
	index.Pods, index.Lister = corelisters.NewPodLister(f.pods), gang.NewLister(f.pods)
	args := &configv1alpha1.ReprieveArgs{}
	configv1alpha1.SetDefaults(args)
	args.Drivers = configv1alpha1.DriverArgs{
		WithoutWorkers: ptr.To(bound), CreateTimeout: &metav1.Duration{Duration: 5 * time.Minute}, WorkersTimeout: &metav1.Duration{Duration: time.Hour},
	}
	index.Profiles.Add("reprieve-scheduler", args, nil)
	clk := clocktesting.NewFakePassiveClock(now)
	placements := cluster.NewPlacements(index, f.engine, &leaving.Pods{}, clk)
	f.Bounds = New(index, placements, cluster.NewLedger(placements, f.engine, queue.NewLedger(), nil), f.engine, clk, f)
	for _, pod := range pods {
		f.add(pod)
	}
	return f
}

// add adds a version of a pod to the informer's store, and reports it to the engine.
func (f *fixture) add(pod *corev1.Pod) {
	f.t.Helper()
	if err := f.pods.Add(pod); err != nil {
		f.t.Fatal(err)
	}
	f.engine.Step(now, engine.PodArrives{Pod: string(pod.UID), Key: gang.KeyOfPod(pod)})
}

// driver returns a pending driver of the application that has its name. The changes are applied to
// the pod.
func driver(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(now.Add(-time.Minute)),
			Labels: map[string]string{"spark-role": "driver", "spark-app-selector": name},
		},
		Spec: corev1.PodSpec{SchedulerName: "reprieve-scheduler"},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

// worker returns a worker of a driver.
func worker(of string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := driver("worker-of-"+of, changes...)
	p.Labels = map[string]string{"spark-role": "executor", "spark-app-selector": of}
	return p
}

func bound(p *corev1.Pod) { p.Spec.NodeName = "node-0" }

func terminating(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }

func elsewhere(p *corev1.Pod) { p.Namespace = "other" }

func priority(is int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Priority = ptr.To(is) }
}

func created(ago time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(now.Add(-ago)) }
}

// started makes a pod run a container that started some time ago.
func started(ago time.Duration, restarts int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			RestartCount: restarts, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-ago))}},
		}}
	}
}

func leads(workers string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{v1alpha1.AnnotationLeads: workers} }
}

// unplaced sets the reason why a pod has no node.
func unplaced(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason}}
	}
}

func gated(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "test/gate"}} }

// TestBlocked checks which other pods block the driver d.
func TestBlocked(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		// bound is the maximum number of drivers without workers; 0 for 1.
		bound int32
		pod   *corev1.Pod
		other []*corev1.Pod
		// want is a part of the message; "" if the driver is not blocked.
		want string
	}{
		"alone":                        {},
		"a placed driver":              {other: []*corev1.Pod{driver("a", bound)}, want: "1 driver of namespace ns runs without its workers: ns/a; drivers.withoutWorkers is 1;"},
		"a placed driver, and room":    {bound: 2, other: []*corev1.Pod{driver("a", bound)}},
		"two placed drivers":           {bound: 2, other: []*corev1.Pod{driver("b", bound), driver("a", bound)}, want: "2 drivers of namespace ns run without their workers: ns/a, ns/b; drivers.withoutWorkers is 2;"},
		"a bound below their number":   {other: []*corev1.Pod{driver("a", bound), driver("b", bound), driver("c", bound), driver("e", bound)}, want: "ns/a, ns/b, ns/c and 1 more; drivers.withoutWorkers is 1;"},
		"a driver with its worker":     {other: []*corev1.Pod{driver("a", bound), worker("a", bound)}},
		"a driver with a pending one":  {other: []*corev1.Pod{driver("a", bound), worker("a")}, want: "ns/a"},
		"a driver with one of two":     {other: []*corev1.Pod{driver("a", bound, leads("2")), worker("a", bound)}, want: "ns/a"},
		"a driver that needs none":     {other: []*corev1.Pod{driver("a", bound, leads("0"))}},
		"a terminating driver":         {other: []*corev1.Pod{driver("a", bound, terminating)}},
		"a driver in another place":    {other: []*corev1.Pod{driver("a", bound, elsewhere)}},
		"a driver of lower priority":   {other: []*corev1.Pod{driver("a", bound, priority(-1))}},
		"a driver of higher priority":  {other: []*corev1.Pod{driver("a", bound, priority(1))}, want: "ns/a"},
		"a driver of the same work":    {other: []*corev1.Pod{driver("a", bound, func(p *corev1.Pod) { p.Labels["spark-app-selector"] = "d" })}},
		"an older pending driver":      {other: []*corev1.Pod{driver("a", created(time.Hour))}, want: "1 driver of namespace ns runs, or is about to run, without its workers: ns/a;"},
		"a younger pending driver":     {other: []*corev1.Pod{driver("a", created(time.Second))}},
		"a younger, more important":    {other: []*corev1.Pod{driver("a", created(time.Second), priority(1))}, want: "ns/a"},
		"an older one without room":    {other: []*corev1.Pod{driver("a", created(time.Hour), unplaced(corev1.PodReasonUnschedulable))}},
		"an older one that is blocked": {other: []*corev1.Pod{driver("a", created(time.Hour), unplaced(v1alpha1.ReasonDriversWithoutWorkers))}, want: "ns/a"},
		"an older gated driver":        {other: []*corev1.Pod{driver("a", created(time.Hour), gated)}},
		"the first of the older ones":  {bound: 2, other: []*corev1.Pod{driver("a", bound), driver("b", created(2*time.Hour)), driver("c", created(time.Hour))}, want: "2 drivers of namespace ns run, or are about to run, without their workers: ns/a, ns/b;"},
		"a pod that drives nothing":    {pod: worker("x"), other: []*corev1.Pod{driver("a", bound)}},
		"a driver with a node":         {pod: driver("d", bound), other: []*corev1.Pod{driver("a", bound)}},
		"a driver of another profile":  {pod: driver("d", func(p *corev1.Pod) { p.Spec.SchedulerName = "another" }), other: []*corev1.Pod{driver("a", bound)}},
		"a driver with a worker":       {other: []*corev1.Pod{driver("a", bound), worker("d")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := tt.pod
			if pod == nil {
				pod = driver("d")
			}
			f := newFixture(t, max(tt.bound, 1), append(tt.other, pod)...)
			got := f.Blocked(pod)
			if blocked := got != (gang.Verdict{}); blocked != (tt.want != "") || !strings.Contains(got.Message, tt.want) || blocked && got.Reason != v1alpha1.ReasonDriversWithoutWorkers {
				t.Errorf("the verdict is %+v, want %q", got, tt.want)
			}
		})
	}
}

// TestBlockedUntil checks the time when a driver without workers stops counting. A driver has 5m to
// create a worker, and 1h until enough workers are placed.
func TestBlockedUntil(t *testing.T) {
	t.Parallel()
	at := func(end time.Duration) string {
		return "at " + now.Add(end).UTC().Format(time.RFC3339) + " at the latest"
	}
	for name, tt := range map[string]struct {
		bound int32
		other []*corev1.Pod
		// want is a part of the message; "" if the driver is not blocked.
		want string
	}{
		"no worker is created":             {other: []*corev1.Pod{driver("a", bound)}, want: at(4 * time.Minute)},
		"a worker is pending":              {other: []*corev1.Pod{driver("a", bound), worker("a")}, want: at(59 * time.Minute)},
		"the driver started later":         {other: []*corev1.Pod{driver("a", bound, started(10*time.Second, 0))}, want: at(5*time.Minute - 10*time.Second)},
		"the driver has restarted":         {other: []*corev1.Pod{driver("a", bound, started(10*time.Second, 1))}, want: at(4 * time.Minute)},
		"no worker, too late":              {other: []*corev1.Pod{driver("a", bound, created(5*time.Minute))}},
		"no worker, just in time":          {other: []*corev1.Pod{driver("a", bound, created(5*time.Minute-time.Second))}, want: at(time.Second)},
		"a pending worker, too late":       {other: []*corev1.Pod{driver("a", bound, created(time.Hour)), worker("a")}},
		"the first of two ends":            {bound: 2, other: []*corev1.Pod{driver("a", bound), driver("b", bound, created(2*time.Minute))}, want: at(3 * time.Minute)},
		"the second of two ends":           {bound: 1, other: []*corev1.Pod{driver("a", bound), driver("b", bound, created(2*time.Minute))}, want: at(4 * time.Minute)},
		"the time of a pending is unknown": {other: []*corev1.Pod{driver("a", created(time.Hour))}, want: "when one has its workers or has ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := driver("d")
			f := newFixture(t, max(tt.bound, 1), append(tt.other, pod)...)
			if got := f.Blocked(pod).Message; (got != "") != (tt.want != "") || !strings.HasSuffix(got, tt.want) {
				t.Errorf("the message is %q, want %q", got, tt.want)
			}
		})
	}
}

// TestRetry checks that a blocked driver is retried once it is not blocked any more.
func TestRetry(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(f *fixture)
		// wantRetried is true if the driver is retried, and wantBlocked if it is still blocked.
		wantRetried, wantBlocked bool
	}{
		"nothing changes":           {change: func(*fixture) {}, wantBlocked: true},
		"the worker is placed":      {change: func(f *fixture) { f.add(worker("a", bound)) }, wantRetried: true},
		"the worker is created":     {change: func(f *fixture) { f.add(worker("a")) }, wantBlocked: true},
		"the other driver ends":     {change: func(f *fixture) { f.add(driver("a", bound, terminating)) }, wantRetried: true},
		"the driver itself is gone": {change: func(f *fixture) { f.add(driver("d", terminating)) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := driver("d")
			f := newFixture(t, 1, driver("a", bound), pod)
			if v := f.BlockSingle(pod); v == (gang.Verdict{}) || !f.waits.Awaits(engine.Drivers) {
				t.Fatalf("the driver is not blocked: %+v", v)
			}
			tt.change(f)
			f.Bounds.Retry()
			if got := slices.Contains(f.retried, gang.KeyOfPod(pod)); got != tt.wantRetried {
				t.Errorf("retried is %v, want %v", got, tt.wantRetried)
			}
			if got := f.waits.Awaits(engine.Drivers); got != tt.wantBlocked {
				t.Errorf("blocked is %v, want %v", got, tt.wantBlocked)
			}
		})
	}
}

// TestTouch checks which changed pods make the caller check the blocked drivers again.
func TestTouch(t *testing.T) {
	t.Parallel()
	single := driver("single")
	single.Labels = nil
	for name, tt := range map[string]struct {
		pod *corev1.Pod
		// idle is true if no driver is blocked.
		idle, want bool
	}{
		"a driver":                      {pod: driver("a"), want: true},
		"a worker":                      {pod: worker("a"), want: true},
		"another pod":                   {pod: single},
		"a driver, and none is blocked": {pod: driver("a"), idle: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := driver("d")
			f := newFixture(t, 1, driver("a", bound), pod)
			if !tt.idle {
				f.BlockSingle(pod)
			}
			f.Touch(tt.pod)
			// A second value must not block the informer.
			f.Touch(tt.pod)
			if got := len(f.Changed()) == 1; got != tt.want {
				t.Errorf("the channel has a value: %v, want %v", got, tt.want)
			}
		})
	}
}
