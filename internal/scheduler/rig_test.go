package scheduler

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
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
	"github.com/reprieve-dev/reprieve/internal/gang"
)

const schedulerYAML = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: reprieve-scheduler
  plugins:
    multiPoint:
      enabled: [{name: Reprieve}, {name: SlowPreBind}]
      disabled: [{name: DefaultPreemption}]
    preFilter:
      enabled: [{name: Reprieve}]
`

// bound is how long anything may take on a machine that is busy with other things.
const bound = time.Minute

// rig is a whole scheduler, queue and cache and all, on a client without a server. Nothing is scheduled
// until a test says so, cycle by cycle.
type rig struct {
	t       *testing.T
	sched   *kubescheduler.Scheduler
	client  *fake.Clientset
	hub     *Hub
	plugin  *Plugin
	evictor *fakeEvictor
	groups  *groups
}

// groups is a gang.Source that tests fill.
type groups struct {
	mu  sync.Mutex
	all map[types.NamespacedName]*gang.Group
}

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

// fakeEvictor keeps orders for the test to finish.
type fakeEvictor struct {
	orders []EvictionOrder
	done   []func(error)
	// atOnce, if set, is what every eviction comes to before its call returns.
	atOnce func() error

	mu          sync.Mutex
	nominations []Nomination
}

func (f *fakeEvictor) Evict(_ context.Context, order EvictionOrder, done func(error)) {
	f.orders, f.done = append(f.orders, order), append(f.done, done)
	if f.atOnce != nil {
		go done(f.atOnce())
	}
}

func (f *fakeEvictor) Nominate(_ context.Context, nominations []Nomination) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nominations = append(f.nominations, nominations...)
}

func newRig(t *testing.T, objects ...runtime.Object) *rig {
	t.Helper()
	return newRigWith(t, schedulerYAML, nil, objects...)
}

// newRigExtended is newRig with scheduler extenders.
func newRigExtended(t *testing.T, extenders []config.Extender, objects ...runtime.Object) *rig {
	t.Helper()
	return newRigWith(t, schedulerYAML, extenders, objects...)
}

// newRigArgs is newRig with arguments for the plugin, in YAML's short form.
func newRigArgs(t *testing.T, args string, objects ...runtime.Object) *rig {
	t.Helper()
	return newRigWith(t, schedulerYAML+"  pluginConfig: [{name: Reprieve, args: "+args+"}]\n", nil, objects...)
}

func newRigWith(t *testing.T, configuration string, extenders []config.Extender, objects ...runtime.Object) *rig {
	t.Helper()
	r := &rig{t: t, client: fake.NewClientset(objects...), evictor: &fakeEvictor{},
		groups: &groups{all: map[types.NamespacedName]*gang.Group{}}}
	r.client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		list, ok := action.(clienttesting.ListAction)
		return ok && onlyFinished(list.GetListRestrictions().Fields), &corev1.PodList{}, nil
	})
	r.client.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, watch.Interface, error) {
		w, ok := action.(clienttesting.WatchAction)
		return ok && onlyFinished(w.GetWatchRestrictions().Fields), watch.NewFake(), nil
	})
	r.client.PrependReactor("create", "pods", r.bind)
	r.hub = NewHub(r.groups, gang.NewRegistry(func(types.NamespacedName) {}), r.evictor)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	factory := informers.NewSharedInformerFactory(r.client, 0)
	sched, err := kubescheduler.New(ctx, r.client, factory, nil, profile.NewRecorderFactory(events.NewBroadcaster(&events.EventSinkImpl{Interface: r.client.EventsV1()})),
		kubescheduler.WithProfiles(decodeProfiles(t, configuration)...),
		kubescheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{
			Name: r.factory,
			slowPreBindName: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
				return slowPreBind{}, nil
			},
		}),
		kubescheduler.WithPodInitialBackoffSeconds(1),
		kubescheduler.WithExtenders(extenders...),
	)
	if err != nil {
		t.Fatal(err)
	}
	r.sched = sched
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		t.Fatal(err)
	}
	sched.SchedulingQueue.Run(klog.Background())
	t.Cleanup(sched.SchedulingQueue.Close)
	return r
}

func onlyFinished(selector fields.Selector) bool {
	return selector != nil && strings.Contains(selector.String(), "status.phase!=Pending")
}

func (r *rig) factory(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	pl, err := r.hub.Factory()(ctx, args, handle)
	if p, ok := pl.(*Plugin); ok {
		r.plugin = p
	}
	return pl, err
}

// bind does what the API server does when a pod is bound.
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
	pod = pod.DeepCopy()
	pod.Spec.NodeName = binding.Target.Name
	return true, binding, pods.Update(gvr, pod, binding.Namespace)
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

// cycle runs one scheduling cycle, for whichever pod the queue has next.
func (r *rig) cycle() {
	r.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.sched.ScheduleOne(context.Background())
	}()
	select {
	case <-done:
	case <-time.After(bound):
		r.t.Fatalf("The queue has no pod to schedule: %s", r.pending())
	}
}

// cycles runs scheduling cycles until the active queue is empty.
func (r *rig) cycles() {
	r.t.Helper()
	for len(r.sched.SchedulingQueue.PodsInActiveQ()) > 0 {
		r.cycle()
	}
}

// snapshot brings the framework's snapshot up to date, as a cycle does at its start.
func (r *rig) snapshot() {
	r.t.Helper()
	snapshot, ok := r.plugin.handle.SnapshotSharedLister().(*internalcache.Snapshot)
	if !ok {
		r.t.Fatal("The framework's snapshot is of another type")
	}
	if err := r.sched.Cache.UpdateSnapshot(klog.Background(), snapshot); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) pending() string {
	_, summary := r.sched.SchedulingQueue.PendingPods()
	return summary
}

// eventually waits for what informers and binding goroutines bring about.
func (r *rig) eventually(what string, condition func() bool) {
	r.t.Helper()
	err := wait.PollUntilContextTimeout(r.t.Context(), 5*time.Millisecond, bound, true,
		func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		r.t.Fatalf("%s: not within %v (%s)", what, bound, r.pending())
	}
}

// create creates pods and waits until the scheduler knows them.
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
				_, err := r.sched.Cache.GetPod(pod)
				return err == nil
			}
			known, _ := r.sched.SchedulingQueue.PendingPods()
			for _, k := range known {
				if k.UID == pod.UID {
					return true
				}
			}
			return false
		})
	}
}

// remove deletes a pod and waits until the scheduler has noticed.
func (r *rig) remove(pod *corev1.Pod) {
	r.t.Helper()
	if err := r.client.CoreV1().Pods(pod.Namespace).Delete(r.t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.eventually("the scheduler notices that "+pod.Name+" has gone", func() bool {
		_, err := r.hub.pods.Pods(pod.Namespace).Get(pod.Name)
		_, cached := r.sched.Cache.GetPod(pod)
		return err != nil && cached != nil
	})
}

// nodeOf is where a pod is bound to, or "".
func (r *rig) nodeOf(name string) string {
	r.t.Helper()
	pod, err := r.client.CoreV1().Pods("ns").Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return pod.Spec.NodeName
}

// waitBound waits until all of the pods have a node.
func (r *rig) waitBound(names ...string) {
	r.t.Helper()
	for _, name := range names {
		r.eventually(name+" is bound", func() bool { return r.nodeOf(name) != "" })
	}
}

// active are the names of the pods that may be scheduled now.
func (r *rig) active() []string {
	var names []string
	for _, pod := range r.sched.SchedulingQueue.PodsInActiveQ() {
		names = append(names, pod.Name)
	}
	return names
}

func key(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }

// gangOf makes a gang known.
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

// pod makes a pod that asks for CPUs, of a group unless that is "".
func pod(name, group, cpu string, priority int32) *corev1.Pod {
	p := st.MakePod().Namespace("ns").Name(name).UID("uid-" + name).SchedulerName("reprieve-scheduler").
		Priority(priority).Req(map[corev1.ResourceName]string{corev1.ResourceCPU: cpu}).Obj()
	if group != "" {
		p.Labels = map[string]string{v1alpha1.LabelPodGroup: group}
	}
	return p
}

// on puts a pod on a node.
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

// wrap gives a pod to the builders of upstream's tests.
func wrap(p *corev1.Pod) *st.PodWrapper { return &st.PodWrapper{Pod: *p} }
