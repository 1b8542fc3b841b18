package eviction

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	k8smetrics "k8s.io/component-base/metrics"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
)

// bench is an Executor whose API calls fail if a test requests it. The clients do not enforce the
// UID precondition. Tests in test/integration/eviction show that a real API server does.
type bench struct {
	t        *testing.T
	executor *Executor
	// scheduler answers the questions of the [Scheduler] interface.
	scheduler *fakeScheduler
	statuses  *podstatus.Writer
	pods      *fake.Clientset
	groups    client.Client
	events    *events.FakeRecorder
	registry  k8smetrics.KubeRegistry
	clock     *clocktesting.FakeClock

	mu sync.Mutex
	// calls lists the writes in their order: "list g" writes an intent, "mark p" a condition,
	// "delete p", "nominate p", and "end g" ends a disruption. A dry run has the prefix "ask", as
	// in "ask delete p".
	calls []string
	// fail is called with each write or dry run before it is made. If it returns an error, the call
	// fails. If the error is an errAfter, the call is made before it fails.
	fail func(call string) error
	// done lists the groups that the Executor has passed to groupDone.
	done []string
}

// fakeScheduler implements Scheduler. By default, it wants every order, and every victim must be
// deleted. A test may set functions to change this.
type fakeScheduler struct {
	turnBack  func(victim *corev1.Pod) bool
	wants     func() bool
	runsAnew  func(group string) bool
	isShort   func(group string) bool
	hasMoved  func(victim string) bool
	isUnbound func(victim string) bool
	hasEnded  func(victim string) bool
}

func (f *fakeScheduler) TurnBack(victim *corev1.Pod) bool {
	return f.turnBack != nil && f.turnBack(victim)
}

func (f *fakeScheduler) Wants(*Order) bool { return f.wants == nil || f.wants() }

func (f *fakeScheduler) RunsAnew(_ *Order, group types.NamespacedName) bool {
	return f.runsAnew != nil && f.runsAnew(group.Name)
}

func (f *fakeScheduler) KeepsMinCount(group types.NamespacedName) bool {
	return f.isShort == nil || !f.isShort(group.Name)
}

func (f *fakeScheduler) IsUnbound(victim *corev1.Pod) bool {
	return f.isUnbound != nil && f.isUnbound(victim.Name)
}

func (f *fakeScheduler) HasMoved(victim *corev1.Pod) bool {
	return f.hasMoved != nil && f.hasMoved(victim.Name)
}

func (f *fakeScheduler) HasEnded(victim *corev1.Pod) bool {
	return f.hasEnded != nil && f.hasEnded(victim.Name)
}

// errAfter is the error of a call that the API server has carried out.
type errAfter struct{ error }

func (e errAfter) Unwrap() error { return e.error }

func newBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	return newBenchWith(t, nil, objects...)
}

// newBenchWith is newBench with options.
func newBenchWith(t *testing.T, options []Option, objects ...client.Object) *bench {
	t.Helper()
	b := &bench{
		t: t, scheduler: &fakeScheduler{}, events: events.NewFakeRecorder(1000), registry: k8smetrics.NewKubeRegistry(),
		clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), fail: func(string) error { return nil },
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var pods []runtime.Object
	builder := fakeclient.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.PodGroup{})
	for _, object := range objects {
		if _, ok := object.(*corev1.Pod); ok {
			pods = append(pods, object)
			continue
		}
		builder = builder.WithObjects(object)
	}
	b.groups = builder.WithInterceptorFuncs(interceptor.Funcs{SubResourceUpdate: b.updateGroup, SubResourcePatch: b.patchGroup}).Build()
	b.pods = fake.NewClientset(pods...)
	b.pods.PrependReactor("*", "pods", b.podCall)
	b.statuses = podstatus.New(t.Context(), b.pods, b.pods, flowcontrol.NewFakeAlwaysRateLimiter(), b.clock)
	m := metrics.New()
	if err := m.Register(b.registry.Register); err != nil {
		t.Fatal(err)
	}
	options = append([]Option{WithMetrics(m), WithGroupDone(func(key types.NamespacedName) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.done = append(b.done, key.Name)
	})}, options...)
	b.executor = New(t.Context(), b.pods, b.groups, b.statuses, b.events, b.clock, options...)
	return b
}

func (b *bench) note(verb, name string, dryRun ...string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	call := verb + " " + name
	if len(dryRun) > 0 {
		b.calls = append(b.calls, "ask "+call)
	} else {
		b.calls = append(b.calls, call)
	}
	return b.fail(call)
}

func (b *bench) updateGroup(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	verb := "end"
	if pg, ok := obj.(*v1alpha1.PodGroup); ok && pg.Status.Disruption != nil {
		verb = "list"
	}
	err := b.note(verb, obj.GetName())
	if after := (errAfter{}); err == nil || errors.As(err, &after) {
		err = errors.Join(err, c.SubResource(sub).Update(ctx, obj, opts...))
	}
	return err
}

// patchGroup records a patch that follows a conflict of an update. The record has the name "over".
func (b *bench) patchGroup(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	if patch.Type() == types.JSONPatchType {
		if err := b.note("over", obj.GetName()); err != nil {
			return err
		}
		var err error
		if patch, err = withoutDefaults(obj, patch); err != nil {
			return err
		}
	}
	return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
}

// withoutDefaults converts a JSON patch for the fake client, which stores no default values. The API
// server stores a default of 0 for each counter in the status. If the patch compares the status with
// one that lacks a counter, withoutDefaults returns the error of the API server.
func withoutDefaults(obj client.Object, patch client.Patch) (client.Patch, error) {
	data, err := patch.Data(obj)
	if err != nil {
		return nil, err
	}
	var ops []map[string]any
	if err := json.Unmarshal(data, &ops); err != nil {
		return nil, err
	}
	for _, op := range ops {
		status, ok := op["value"].(map[string]any)
		if !ok || op["op"] != "test" || op["path"] != "/status" {
			continue
		}
		for _, counter := range []string{"pending", "scheduled", "running", "terminating", "finished"} {
			count, has := status[counter]
			if !has {
				return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", "testing value /status failed", 0, false)
			}
			if count == 0.0 {
				delete(status, counter)
			}
		}
	}
	data, err = json.Marshal(ops)
	return client.RawPatch(types.JSONPatchType, data), err
}

func (b *bench) podCall(action clienttesting.Action) (bool, runtime.Object, error) {
	var err error
	switch a := action.(type) {
	case clienttesting.PatchAction:
		verb := "mark"
		if strings.Contains(string(a.GetPatch()), "nominatedNodeName") {
			verb = "nominate"
		}
		var dry []string
		if patch, ok := a.(clienttesting.PatchActionImpl); ok {
			dry = patch.PatchOptions.DryRun
		}
		if err = b.note(verb, a.GetName(), dry...); len(dry) > 0 {
			return true, &corev1.Pod{}, err
		}
	case clienttesting.DeleteAction:
		dry := a.GetDeleteOptions().DryRun
		if err = b.note("delete", a.GetName(), dry...); len(dry) > 0 {
			return true, nil, err
		}
		if after := (errAfter{}); errors.As(err, &after) {
			gone := b.pods.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), a.GetNamespace(), a.GetName())
			return true, nil, errors.Join(err, gone)
		}
	}
	return err != nil, nil, err
}

// failing makes all calls with one of these prefixes fail.
func (b *bench) failing(err error, calls ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = func(call string) error {
		if slices.ContainsFunc(calls, func(c string) bool { return strings.HasPrefix(call, c) }) {
			return err
		}
		return nil
	}
}

// made returns the calls so far with this prefix.
func (b *bench) made(prefix string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, call := range b.calls {
		if strings.HasPrefix(call, prefix) {
			out = append(out, call)
		}
	}
	return out
}

var (
	errForbidden = apierrors.NewForbidden(corev1.Resource("pods"), "x", errors.New("no"))
	errLost      = errors.New("connection reset by peer")
)

func uidOf(name string) types.UID { return types.UID("uid-" + name) }

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uidOf(name)}}
}

func group(name string) *v1alpha1.PodGroup {
	return &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uidOf(name)}}
}

// whole returns a group of two pods, and its pods.
func whole(name string) []client.Object {
	return []client.Object{group(name), pod(name + "-0"), pod(name + "-1")}
}

func victim(name string, pods ...string) core.Victim {
	v := core.Victim{Namespace: "ns", Name: name, UID: "uid-" + name, Group: len(pods) > 0, Priority: 3, Rule: core.RuleLowerPriority}
	if len(pods) == 0 {
		pods = []string{name}
	}
	for _, p := range pods {
		v.Pods = append(v.Pods, core.VictimPod{Namespace: "ns", Name: p, UID: "uid-" + p, Node: "n"})
	}
	return v
}

// order returns an order that evicts victims for the gang ns/urgent. The gang has one member, which
// is nominated to node n.
func order(victims ...core.Victim) Order {
	o := Order{
		Decision: core.Decision{
			Outcome:   core.Preempts,
			Preemptor: core.Preemptor{Namespace: "ns", Name: "urgent", UID: "uid-urgent", Gang: true, Priority: 9},
			Victims:   victims,
			Message:   "it fits once they are gone",
		},
		Victims:     map[types.UID]*corev1.Pod{},
		Nominations: []podstatus.Nomination{{Pod: pod("urgent-0"), Node: "n"}},
		Profile:     "main",
	}
	for _, v := range victims {
		if v.Group {
			o.Groups = append(o.Groups, types.NamespacedName{Namespace: v.Namespace, Name: v.Name})
		}
		for _, p := range v.Pods {
			o.Victims[types.UID(p.UID)] = pod(p.Name)
		}
	}
	return o
}

// evict carries out an order and returns its outcome. The test fails if the number of outcomes is
// not one.
func (b *bench) evict(o Order) Outcome {
	b.t.Helper()
	outcomes := b.executor.Evict(b.t.Context(), o, b.scheduler)
	b.executor.Wait()
	if n := len(outcomes); n != 1 {
		b.t.Fatalf("There are %d outcomes", n)
	}
	return <-outcomes
}

func (b *bench) recorded() []string {
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

func (b *bench) group(name string) *v1alpha1.PodGroup {
	b.t.Helper()
	var pg v1alpha1.PodGroup
	if err := b.groups.Get(b.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, &pg); err != nil {
		b.t.Fatal(err)
	}
	return &pg
}

// listed returns the names of the pods in the intent to evict a group (status.disruption).
func (b *bench) listed(name string) []string {
	b.t.Helper()
	d := b.group(name).Status.Disruption
	if d == nil {
		return nil
	}
	var out []string
	for _, p := range d.Pods {
		out = append(out, p.Name)
	}
	return out
}

// target returns the status and the reason of a group's DisruptionTarget condition, such as "True
// PreemptionByScheduler"; "" if there is none.
func (b *bench) target(name string) string {
	b.t.Helper()
	c := meta.FindStatusCondition(b.group(name).Status.Conditions, v1alpha1.ConditionDisruptionTarget)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

// pod returns a pod, or nil if it does not exist.
func (b *bench) pod(name string) *corev1.Pod {
	b.t.Helper()
	p, err := b.pods.CoreV1().Pods("ns").Get(b.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// expectPods checks that exactly these pods exist.
func (b *bench) expectPods(want ...string) {
	b.t.Helper()
	list, err := b.pods.CoreV1().Pods("ns").List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	var got []string
	for i := range list.Items {
		got = append(got, list.Items[i].Name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.t.Errorf("The pods %v are left, want %v (calls: %q)", got, want, b.calls)
	}
}

// counted returns the value of a counter, or the sum of a histogram, with these labels.
func (b *bench) counted(name, operation, result string) float64 {
	b.t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if family.GetName() == "reprieve_"+name && labels["operation"] == operation && labels["result"] == result {
				sum += m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
			}
		}
	}
	return sum
}

// informed takes the place of the scheduler's informers. It has the pods that [bench.look] copied
// last.
type informed struct {
	store    cache.Indexer
	finished []*corev1.Pod
}

func (i *informed) Members(types.NamespacedName) gang.Members {
	return gang.Members{Finished: i.finished}
}

// look copies the pods in the API to informed, as an informer does when it receives their events.
func (b *bench) look(i *informed) {
	b.t.Helper()
	list, err := b.pods.CoreV1().Pods("ns").List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	var all []any
	for k := range list.Items {
		all = append(all, &list.Items[k])
	}
	if err := i.store.Replace(all, ""); err != nil {
		b.t.Fatal(err)
	}
}

func newInformed() *informed {
	return &informed{store: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
}

// victims returns whole groups of two pods each, as victims.
func victims(prefix string, count int) []core.Victim {
	out := make([]core.Victim, count)
	for i := range out {
		name := fmt.Sprintf("%s%d", prefix, i)
		out[i] = victim(name, name+"-0", name+"-1")
	}
	return out
}

// gated is a client that calls the function before ahead of each patch or delete of a pod. The
// function may block. So several calls can wait at the same time, although the fake client makes
// one call at a time.
type gated struct {
	kubernetes.Interface
	before func(call string)
}

type gatedCore struct {
	typedcorev1.CoreV1Interface
	gated
}

type gatedPods struct {
	typedcorev1.PodInterface
	gated
}

func (g gated) CoreV1() typedcorev1.CoreV1Interface { return gatedCore{g.Interface.CoreV1(), g} }

func (g gatedCore) Pods(namespace string) typedcorev1.PodInterface {
	return gatedPods{g.CoreV1Interface.Pods(namespace), g.gated}
}

func (g gatedPods) Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subs ...string) (*corev1.Pod, error) {
	g.before("mark " + name)
	return g.PodInterface.Patch(ctx, name, pt, data, opts, subs...)
}
