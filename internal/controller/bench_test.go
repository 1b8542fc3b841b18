package controller

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/runs"
)

// bench is a Status reconciler of a test. The test sets its members, its clock and its client.
type bench struct {
	t      *testing.T
	client client.Client
	clock  *clocktesting.FakePassiveClock
	events *events.FakeRecorder
	gangs  *engine.Gangs
	pods   []*corev1.Pod
	known  gang.Store
	status *Status
	// minRuntime is the result of MinRuntime, and orphaned is the result of Orphaned. before is the
	// argument of the last call of Orphaned.
	minRuntime time.Duration
	orphaned   gang.Verdict
	before     bool
	// gatedBy is the result of GangGatedBy.
	gatedBy string
}

// MinRuntime is part of Queues.
func (b *bench) MinRuntime(*gang.Group, *gang.Members) time.Duration { return b.minRuntime }

// QueueLabel is part of Queues.
func (b *bench) QueueLabel(*corev1.Pod) string { return v1alpha1.LabelQueue }

func (b *bench) QueueNamedBy(pod *corev1.Pod) string { return pod.Labels[v1alpha1.LabelQueue] }

// QueueNamedByGroup is part of Queues.
func (b *bench) QueueNamedByGroup(g *gang.Group) string { return g.Queue }

// NeverOf is part of Queues. The only PriorityClass of the test is "high".
func (b *bench) NeverOf(g *gang.Group) gang.Verdict {
	if !g.Never {
		return gang.Verdict{}
	}
	return g.ReportNever(gang.Verdict{}, []gang.Bound{{Class: g.PriorityClassName, Exists: g.PriorityClassName == "high", Seconds: 60, Below: 100}}, true)
}

// VictimPriority is part of Queues. The only PriorityClass of the test is "high".
func (b *bench) VictimPriority(g *gang.Group) (int32, gang.Verdict) {
	return g.VictimPriority(ptr.Deref(g.Priority, 0), func(class string) (int32, bool) { return 100, class == "high" })
}

// Orphaned is part of Queues.
func (b *bench) Orphaned(_ *gang.Group, before bool) gang.Verdict {
	b.before = before
	return b.orphaned
}

// Members is part of WaitingMembers.
func (b *bench) Members(types.NamespacedName) gang.Members { return gang.MembersOf(b.pods) }

func (b *bench) GangGatedBy(*gang.Members) string { return b.gatedBy }

// gangsOf returns Gangs in which each of the groups has a member.
func gangsOf(groups ...types.NamespacedName) *engine.Gangs {
	e := engine.New(nil)
	for _, key := range groups {
		e.Step(time.Time{}, engine.GroupArrives{Group: gang.KeyOf(key)})
	}
	return e.Gangs
}

var groupKey = types.NamespacedName{Namespace: "ns", Name: "g"}

func newClient(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	return newWithWatch(t, objects...)
}

func newWithWatch(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.PodGroup{}, &v1alpha1.Queue{}).Build()
}

// noRoles is a gang.Roles without derived groups.
type noRoles struct{}

func (noRoles) MinCount(types.NamespacedName) (int, bool) { return 0, false }
func (noRoles) RoleOf(*corev1.Pod) (string, int)          { return "", 0 }

func newBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	return newBenchOf(t, noRoles{}, objects...)
}

// newBenchOf is like newBench, and also sets the roles of members.
func newBenchOf(t *testing.T, roles gang.Roles, objects ...client.Object) *bench {
	t.Helper()
	b := &bench{
		t: t, client: newClient(t, objects...), events: events.NewFakeRecorder(1000),
		clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)),
		gangs: gangsOf(groupKey),
	}
	runs := runs.NewReader(b.gangs, b.Members, roles, func() bool { return true }, func(types.NamespacedName) {})
	b.status = NewStatus(b.client, b, &b.known, sets.New("reprieve-scheduler"), b.gangs, runs, b, b.events, b.clock)
	return b
}

func (b *bench) reconcile() time.Duration {
	b.t.Helper()
	result, err := b.status.Reconcile(b.t.Context(), reconcile.Request{NamespacedName: groupKey})
	if err != nil {
		b.t.Fatal(err)
	}
	return result.RequeueAfter
}

// step advances the clock.
func (b *bench) step(d time.Duration) { b.clock.SetTime(b.clock.Now().Add(d)) }

func (b *bench) group() *v1alpha1.PodGroup {
	b.t.Helper()
	var pg v1alpha1.PodGroup
	if err := b.client.Get(b.t.Context(), groupKey, &pg); err != nil {
		b.t.Fatal(err)
	}
	return &pg
}

// told returns the events that were recorded since the last call.
func (b *bench) told() []string {
	var out []string
	for {
		select {
		case e := <-b.events.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

func gangGroup(minCount int32) *v1alpha1.PodGroup {
	pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "u"}}
	pg.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: minCount}}
	pg.Spec.Priority = ptr.To[int32](5)
	return pg
}

func named(prefix string, count int, change ...func(*corev1.Pod)) []*corev1.Pod {
	out := make([]*corev1.Pod, count)
	for i := range out {
		name := fmt.Sprintf("%s-%d", prefix, i)
		out[i] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
		out[i].Spec.Priority = ptr.To[int32](5)
		out[i].Spec.SchedulerName = "reprieve-scheduler"
		for _, c := range change {
			c(out[i])
		}
	}
	return out
}

func running(pod *corev1.Pod) {
	pod.Spec.NodeName = "n"
	pod.Status.Phase = corev1.PodRunning
}

func assigned(pod *corev1.Pod) { pod.Spec.NodeName = "n" }

func terminating(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

func succeeded(pod *corev1.Pod) {
	pod.Spec.NodeName = "n"
	pod.Status.Phase = corev1.PodSucceeded
}

func failed(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }
