package scheduler

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
	"github.com/reprieve-dev/reprieve/internal/profiles"
)

const schedulerYAML = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: reprieve-scheduler
  plugins:
    multiPoint:
      enabled: [{name: Reprieve}, {name: SlowPreBind}, {name: Refusing}, {name: Failing}]
      disabled: [{name: DefaultPreemption}]
    preFilter:
      enabled: [{name: Reprieve}, {name: Refusing}]
`

// bound is the longest time that any step may take, even on a busy machine.
const bound = time.Minute

// rig is a complete scheduler, with its queue and cache, on a fake client. It schedules only when a
// test runs a cycle.
type rig struct {
	t        *testing.T
	upstream *kubescheduler.Scheduler
	client   *fake.Clientset
	sched    *Scheduler
	plugin   *Plugin
	evictor  *fakeEvictor
	// listener records the conditions that are written outside cycles.
	listener listener
	groups   *groups
	// measured is the registry of the scheduler's metrics. It must exist before the scheduler
	// starts, because registration creates the metrics.
	measured k8smetrics.KubeRegistry
	// informed is the informer's store of pods.
	informed cache.Indexer
	// meanwhile is called in every cycle after Reprieve's PreFilter, with the pod of the cycle.
	meanwhile func(*corev1.Pod)
	// unreserved is called with every pod that gives up its node in Unreserve.
	unreserved func(*corev1.Pod)
	// stop ends the scheduler. Another scheduler can use the client afterwards.
	stop func()
}

// groups is a gang.Source that tests fill.
type groups struct {
	mu  sync.Mutex
	all map[types.NamespacedName]*gang.Group
}

func noGroups() *groups { return &groups{all: map[types.NamespacedName]*gang.Group{}} }

func (g *groups) Group(key types.NamespacedName) (*gang.Group, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	found, ok := g.all[key]
	return found, ok
}

func (g *groups) set(group *gang.Group) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all[group.Key] = group
}

func (g *groups) drop(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.all, key)
}

// fakeEvictor is an Evictor that keeps orders until the test ends them.
type fakeEvictor struct {
	orders   []eviction.Order
	outcomes []chan eviction.Outcome
	// atOnce, if set, is called for every order and returns its result.
	atOnce func() error
	mu     sync.Mutex
	// statuses, if set, writes nominations to the API.
	statuses    *podstatus.Writer
	nominations []podstatus.Nomination
}

func (f *fakeEvictor) Evict(_ context.Context, order eviction.Order, _ eviction.Scheduler) <-chan eviction.Outcome {
	outcome := make(chan eviction.Outcome, 1)
	f.orders, f.outcomes = append(f.orders, order), append(f.outcomes, outcome)
	f.mu.Lock()
	f.write(order.Nominations)
	f.mu.Unlock()
	if f.atOnce != nil {
		go func() { outcome <- eviction.Outcome{Err: f.atOnce()} }()
	}
	return outcome
}

func (f *fakeEvictor) Nominate(_ context.Context, nominations []podstatus.Nomination) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nominations = append(f.nominations, nominations...)
	f.write(nominations)
}

// writeTo sets the writer of nominations; nil to write none.
func (f *fakeEvictor) writeTo(statuses *podstatus.Writer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.statuses = statuses
}

// write writes nominations to the API, as the real evictor does. The caller holds the lock.
func (f *fakeEvictor) write(nominations []podstatus.Nomination) {
	statuses := f.statuses
	if statuses == nil {
		return
	}
	for _, claim := range statuses.Nominate(nominations) {
		// An error means that the pod does not exist any more.
		go func() { _ = statuses.Write(context.Background(), claim) }()
	}
}

// finish ends an order with an outcome, and waits until the scheduler has handled the outcome.
func (r *rig) finish(order int, outcome eviction.Outcome) {
	r.t.Helper()
	before := r.sched.executions.count.Load()
	r.evictor.outcomes[order] <- outcome
	r.eventually("the scheduler has acted on an outcome", func() bool { return r.sched.executions.count.Load() < before })
}

func (r *rig) fail(order int, err error) {
	r.t.Helper()
	r.finish(order, eviction.Outcome{Err: err})
}

func (r *rig) succeed(order int) {
	r.t.Helper()
	if !r.wants(order) {
		r.t.Errorf("Order %d cannot have been carried out: its preemptor does not want it", order)
	}
	r.finish(order, eviction.Outcome{})
}

// wants reports whether an order is still wanted; see Plugin.Wants.
func (r *rig) wants(order int) bool { return r.plugin.Wants(&r.evictor.orders[order]) }

func newRig(t *testing.T, objects ...runtime.Object) *rig {
	t.Helper()
	return newRigWith(t, schedulerYAML, nil, objects...)
}

// newRigExtended is newRig with scheduler extenders.
func newRigExtended(t *testing.T, extenders []config.Extender, objects ...runtime.Object) *rig {
	t.Helper()
	return newRigWith(t, schedulerYAML, extenders, objects...)
}

// newRigArgs is like newRig, and also sets arguments of the plugin, as YAML in flow style.
func newRigArgs(t *testing.T, args string, objects ...runtime.Object) *rig {
	t.Helper()
	return newRigWith(t, schedulerYAML+"  pluginConfig: [{name: Reprieve, args: "+args+"}]\n", nil, objects...)
}

func newRigWith(t *testing.T, configuration string, extenders []config.Extender, objects ...runtime.Object) *rig {
	t.Helper()
	return newRigOn(t, clientWith(objects...), &groups{all: map[types.NamespacedName]*gang.Group{}}, configuration, extenders)
}

// clientWith returns a client with objects and without finished pods. A list of finished pods needs
// a separate reaction, because the fake client does not support field selectors.
func clientWith(objects ...runtime.Object) *fake.Clientset {
	client := fake.NewClientset(objects...)
	listFinished(client, func() (*corev1.PodList, error) { return &corev1.PodList{}, nil })
	return client
}

// listFinished sets the result of listing finished pods with a client.
func listFinished(client *fake.Clientset, list func() (*corev1.PodList, error)) {
	client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		of, ok := action.(clienttesting.ListAction)
		if !ok || !onlyFinished(of.GetListRestrictions().Fields) {
			return false, nil, nil
		}
		pods, err := list()
		return true, pods, err
	})
	client.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, watch.Interface, error) {
		w, ok := action.(clienttesting.WatchAction)
		return ok && onlyFinished(w.GetWatchRestrictions().Fields), watch.NewFake(), nil
	})
}

// newRigOn is like newRigWith, but uses an existing client and existing groups. The function change
// changes the inputs of the plugins.
func newRigOn(t *testing.T, client *fake.Clientset, known *groups, configuration string, extenders []config.Extender, change ...func(*Inputs)) *rig {
	t.Helper()
	r := &rig{t: t, client: client, evictor: &fakeEvictor{}, groups: known, measured: k8smetrics.NewKubeRegistry()}
	r.meanwhile, r.unreserved = func(*corev1.Pod) {}, func(*corev1.Pod) {}
	m := metrics.New()
	if err := m.Register(r.measured.Register); err != nil {
		t.Fatal(err)
	}
	// The namespace exists already if an earlier rig used the client.
	_ = client.Tracker().Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})
	r.client.PrependReactor("create", "pods", r.bind)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	factory := informers.NewSharedInformerFactory(r.client, 0)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: r.client.EventsV1()})
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			cancel()
			broadcaster.Shutdown()
			if r.upstream != nil {
				r.upstream.SchedulingQueue.Close()
			}
		})
	}
	t.Cleanup(r.stop)
	served := decodeProfiles(t, configuration)
	AddGate(served)
	in := Inputs{Statuses: &r.listener, Groups: r.groups, Engine: engine.New(nil), Evictor: r.evictor, Metrics: m, Confined: profiles.Confine(served, extenders)}
	for _, c := range change {
		c(&in)
	}
	plugins := NewPlugins(in)
	sched, err := kubescheduler.New(ctx, r.client, factory, nil, profile.NewRecorderFactory(broadcaster),
		kubescheduler.WithProfiles(served...),
		kubescheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{
			Name:     r.factory(plugins),
			GateName: plugins.newGate,
			refusedBy: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
				return refusing{meanwhile: func(pod *corev1.Pod) { r.meanwhile(pod) }}, nil
			},
			failsAt: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return failing{}, nil },
			slowPreBindName: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
				return slowPreBind{unreserved: func(pod *corev1.Pod) { r.unreserved(pod) }}, nil
			},
		}),
		kubescheduler.WithPodInitialBackoffSeconds(1),
		kubescheduler.WithExtenders(extenders...),
	)
	if err != nil {
		t.Fatal(err)
	}
	sched.FailureHandler = plugins.AfterFailures(sched.FailureHandler)
	r.upstream, r.informed = sched, factory.Core().V1().Pods().Informer().GetIndexer()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		t.Fatal(err)
	}
	if r.sched != nil {
		r.sched.Lead()
	}
	sched.SchedulingQueue.Run(klog.Background())
	return r
}

func onlyFinished(selector fields.Selector) bool {
	return selector != nil && strings.Contains(selector.String(), "status.phase!=Pending")
}

// factory returns a factory that creates the plugin and stores it in the rig.
func (r *rig) factory(plugins *Plugins) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		pl, err := plugins.Registry()[Name](ctx, args, handle)
		if p, ok := pl.(*Plugin); ok {
			r.plugin, r.sched = p, p.sched
		}
		return pl, err
	}
}

// bind handles the binding of a pod as the API server does: it sets the pod's node, seal and
// condition.
func (r *rig) bind(action clienttesting.Action) (bool, runtime.Object, error) {
	create, ok := action.(clienttesting.CreateAction)
	if !ok || action.GetSubresource() != "binding" {
		return false, nil, nil
	}
	binding, ok := create.GetObject().(*corev1.Binding)
	if !ok {
		return false, nil, nil
	}
	pods := r.client.Tracker()
	gvr := corev1.SchemeGroupVersion.WithResource("pods")
	obj, err := pods.Get(gvr, binding.Namespace, binding.Name)
	if err != nil {
		return true, nil, err
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return true, nil, fmt.Errorf("%T is no pod", obj)
	}
	if pod.Annotations[failsAt] == atBind {
		return true, nil, apierrors.NewForbidden(gvr.GroupResource(), pod.Name, errFailing)
	}
	pod = pod.DeepCopy()
	pod.Spec.NodeName = binding.Target.Name
	// The real binder adds the seal; see Plugins.Seals.
	if seal := r.sched.records.SealOf(string(pod.UID)); seal != "" {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.AnnotationPlacedAs, seal)
	}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now().Rfc3339Copy(),
	})
	err = pods.Update(gvr, pod, binding.Namespace)
	if pod.Annotations[failsAt] == afterBind {
		err = apierrors.NewTimeoutError("the binding took too long", 1)
	}
	return true, binding, err
}

func decodeProfiles(t *testing.T, configuration string) []config.KubeSchedulerProfile {
	t.Helper()
	obj, _, err := configscheme.Codecs.UniversalDecoder().Decode([]byte(configuration), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg, ok := obj.(*config.KubeSchedulerConfiguration)
	if !ok {
		t.Fatalf("The configuration is a %T", obj)
	}
	return cfg.Profiles
}

// cycle runs one scheduling cycle for the next pod of the queue.
func (r *rig) cycle() {
	r.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.upstream.ScheduleOne(context.Background())
	}()
	select {
	case <-done:
	case <-time.After(bound):
		r.t.Fatalf("The queue has no pod to schedule: %s", r.pending())
	}
}

func (r *rig) cycles() {
	r.t.Helper()
	for len(r.upstream.SchedulingQueue.PodsInActiveQ()) > 0 {
		r.cycle()
	}
}

// snapshot updates the framework's snapshot, as each cycle does first.
func (r *rig) snapshot() {
	r.t.Helper()
	snapshot, ok := r.plugin.handle.SnapshotSharedLister().(*internalcache.Snapshot)
	if !ok {
		r.t.Fatal("The framework's snapshot is of another type")
	}
	if err := r.upstream.Cache.UpdateSnapshot(klog.Background(), snapshot); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) pending() string {
	_, summary := r.upstream.SchedulingQueue.PendingPods()
	return summary
}

// eventually waits until a condition is true. It is for effects of informers and of binding
// goroutines.
func (r *rig) eventually(what string, condition func() bool) {
	r.t.Helper()
	err := wait.PollUntilContextTimeout(r.t.Context(), 5*time.Millisecond, bound, true,
		func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		r.t.Fatalf("%s: not within %v (%s)", what, bound, r.pending())
	}
}

// create creates pods and waits until the scheduler's cache or queue has them.
func (r *rig) create(pods ...*corev1.Pod) {
	r.t.Helper()
	for _, pod := range pods {
		if _, err := r.client.CoreV1().Pods(pod.Namespace).Create(r.t.Context(), pod, metav1.CreateOptions{}); err != nil {
			r.t.Fatal(err)
		}
	}
	for _, pod := range pods {
		r.eventually("the scheduler knows "+pod.Name, func() bool {
			if pod.Spec.NodeName != "" {
				_, err := r.upstream.Cache.GetPod(pod)
				return err == nil
			}
			known, _ := r.upstream.SchedulingQueue.PendingPods()
			for _, k := range known {
				if k.UID == pod.UID {
					return true
				}
			}
			return false
		})
	}
}

// remove deletes a pod and waits until the scheduler knows the deletion.
func (r *rig) remove(pod *corev1.Pod) {
	r.t.Helper()
	if err := r.client.CoreV1().Pods(pod.Namespace).Delete(r.t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.eventually("the scheduler notices that "+pod.Name+" has gone", func() bool {
		_, err := r.sched.index.Pods.Pods(pod.Namespace).Get(pod.Name)
		_, cached := r.upstream.Cache.GetPod(pod)
		return err != nil && cached != nil
	})
}

// nodeOf returns the node of a bound pod; "" for a pod that is not bound.
func (r *rig) nodeOf(name string) string {
	r.t.Helper()
	pod, err := r.client.CoreV1().Pods("ns").Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return pod.Spec.NodeName
}

// bound returns how many of the members g-0, g-1 and so on, up to the given number, have a node.
func (r *rig) bound(members int) (count int) {
	r.t.Helper()
	for i := range members {
		if r.nodeOf(fmt.Sprintf("g-%d", i)) != "" {
			count++
		}
	}
	return count
}

// waitBound runs cycles until all named pods have a node.
func (r *rig) waitBound(names ...string) {
	r.t.Helper()
	for _, name := range names {
		r.eventually(name+" is bound", func() bool { r.cycles(); return r.nodeOf(name) != "" })
	}
}

func (r *rig) active() []string {
	var names []string
	for _, pod := range r.upstream.SchedulingQueue.PodsInActiveQ() {
		names = append(names, pod.Name)
	}
	return names
}

func key(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }

func (r *rig) gangOf(name string, minCount int, priority int32) *gang.Group {
	g := &gang.Group{Key: key(name), UID: types.UID("uid-" + name), MinCount: minCount, Priority: ptr.To(priority)}
	r.groups.set(g)
	return g
}

func node(name, cpu string) *corev1.Node {
	return st.MakeNode().Name(name).Label(corev1.LabelHostname, name).
		Capacity(map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: "64Gi", corev1.ResourcePods: "110"}).Obj()
}

func nodes(count int, cpu string) []runtime.Object {
	out := make([]runtime.Object, count)
	for i := range out {
		out[i] = node(fmt.Sprintf("node-%d", i), cpu)
	}
	return out
}

// pod returns a pod that requests CPUs. group is the name of its PodGroup; "" for none.
func pod(name, group, cpu string, priority int32) *corev1.Pod {
	p := st.MakePod().Namespace("ns").Name(name).UID("uid-" + name).SchedulerName("reprieve-scheduler").
		Priority(priority).Req(map[corev1.ResourceName]string{corev1.ResourceCPU: cpu}).Obj()
	if group != "" {
		p.Labels = map[string]string{v1alpha1.LabelPodGroup: group}
	}
	return p
}

func on(p *corev1.Pod, node string) *corev1.Pod {
	p.Spec.NodeName = node
	return p
}

func members(group string, count int, cpu string, priority int32) []*corev1.Pod {
	out := make([]*corev1.Pod, count)
	for i := range out {
		out[i] = pod(fmt.Sprintf("%s-%d", group, i), group, cpu, priority)
	}
	return out
}

// decideFor returns the decision for a pod's workload on the current snapshot, with the real
// filters.
func (r *rig) decideFor(pods ...*corev1.Pod) *core.Decision {
	r.t.Helper()
	return &r.decide(pods[0]).decision
}

// decide is decideFor, but returns the complete cycleDecision.
func (r *rig) decide(pod *corev1.Pod) *cycleDecision {
	r.t.Helper()
	r.snapshot()
	pre := r.plugin.podPreemptor(pod)
	if g := r.sched.index.GangOf(pod); g != nil {
		m := r.sched.placements.Members(g.Key)
		pre = r.plugin.gangPreemptor(g, &m)
	}
	made, err := r.plugin.decide(r.t.Context(), pre)
	if err != nil {
		r.t.Fatal(err)
	}
	return made
}

func resourceMustParse(s string) resource.Quantity { return resource.MustParse(s) }

// never is the opposite of eventually: the test fails if happens returns true within the given
// time.
func (r *rig) never(what string, within time.Duration, happens func() bool) {
	r.t.Helper()
	end, tick := time.After(within), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-end:
			return
		case <-tick.C:
			if happens() {
				r.t.Fatal(what)
			}
		}
	}
}

// reservedOn returns the node of a pod's reservation; false for none.
func (r *rig) reservedOn(uid types.UID) (string, bool) {
	for node, reserved := range r.sched.reserved.Nodes() {
		for _, one := range reserved {
			if one.UID == string(uid) {
				return node, true
			}
		}
	}
	return "", false
}

// detached returns a Scheduler that has only state in memory: it has no framework and no informers.
func detached(in *Inputs) *Scheduler {
	index := cluster.NewIndex(in.sources())
	index.Pods = corelisters.NewPodLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}))
	return in.assemble(index, nil, nil)
}
