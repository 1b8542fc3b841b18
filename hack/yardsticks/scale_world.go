package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

const (
	// profileName is the name of the only scheduler profile. It enables the default plugins, with
	// Reprieve's plugins in place of DefaultPreemption and PrioritySort.
	profileName = "reprieve-scheduler"
	cycleConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: ` + profileName + `
  plugins:
    multiPoint:
      enabled: [{name: Reprieve}]
      disabled: [{name: DefaultPreemption}]
    queueSort:
      enabled: [{name: ReprievePrioritySort}]
      disabled: [{name: PrioritySort}]
    preFilter:
      enabled: [{name: Reprieve}]
`
	// worldNamespace is the namespace of all pods in the generated cluster.
	worldNamespace = "load"
	gpuResource    = corev1.ResourceName("nvidia.com/gpu")
)

// world is a scheduler whose cache and indexes are filled directly. Its informers never run, and it
// makes no API calls.
type world struct {
	sched   *kubescheduler.Scheduler
	shared  *scheduler.Scheduler
	fw      framework.Framework
	pods    cache.Indexer
	evictor *refusingEvictor
	running [][]*corev1.Pod
	gang    []*corev1.Pod
	// turn counts the changes of pods. It selects the pod to change next.
	turn int
	stop func()
}

// refusingEvictor is an Evictor that records the last order and evicts no pod.
type refusingEvictor struct {
	order    eviction.Order
	outcomes chan eviction.Outcome
}

// Evict implements scheduler.Evictor.
func (e *refusingEvictor) Evict(_ context.Context, order eviction.Order, _ eviction.Scheduler) <-chan eviction.Outcome {
	e.order, e.outcomes = order, make(chan eviction.Outcome, 1)
	return e.outcomes
}

// Nominate implements scheduler.Evictor. It does nothing.
func (*refusingEvictor) Nominate(context.Context, []podstatus.Nomination) {}

// errNobodyEvicts is the outcome of every order.
var errNobodyEvicts = errors.New("the row scale evicts nobody")

// oneGang is a gang.Source with a single gang.
type oneGang struct{ group *gang.Group }

// Group implements gang.Source.
func (g oneGang) Group(key types.NamespacedName) (*gang.Group, bool) {
	return g.group, key == g.group.Key
}

// newWorld returns a scheduler for a cluster of full nodes, and a gang that waits. The gang has one
// member per ten nodes, but at most gangSize members.
func newWorld(ctx context.Context, nodes int) (*world, error) {
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	w := &world{evictor: &refusingEvictor{}, stop: cancel}
	key := types.NamespacedName{Namespace: worldNamespace, Name: "gang"}
	members := min(gangSize, nodes/10)
	plugins := scheduler.NewPlugins(scheduler.Inputs{
		Evictor: w.evictor,
		Groups:  oneGang{&gang.Group{Key: key, UID: "gang", MinCount: members, Priority: ptr.To[int32](100)}},
	})
	obj, _, err := configscheme.Codecs.UniversalDecoder().Decode([]byte(cycleConfig), nil, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	cfg, ok := obj.(*config.KubeSchedulerConfiguration)
	if !ok {
		cancel()
		return nil, fmt.Errorf("the configuration is a %T", obj)
	}
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	recorders := profile.NewRecorderFactory(events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()}))
	w.sched, err = kubescheduler.New(ctx, client, factory, nil, recorders,
		kubescheduler.WithProfiles(cfg.Profiles...), kubescheduler.WithFrameworkOutOfTreeRegistry(plugins.Registry()))
	if err != nil {
		cancel()
		return nil, err
	}
	w.stop = func() {
		cancel()
		w.sched.SchedulingQueue.Close()
	}
	w.sched.FailureHandler = plugins.AfterFailures(w.sched.FailureHandler)
	w.shared, w.fw, w.pods = plugins.Scheduler(), w.sched.Profiles[profileName], factory.Core().V1().Pods().Informer().GetIndexer()
	if err := w.fill(ctx, nodes, members); err != nil {
		w.stop()
		return nil, err
	}
	return w, nil
}

// fill adds the nodes, the pods on the nodes, and the gang to the scheduler.
func (w *world) fill(ctx context.Context, nodes, members int) error {
	logger := klog.FromContext(ctx)
	for n := range nodes {
		w.sched.Cache.AddNode(logger, worldNode(n))
		var pods []*corev1.Pod
		for i := range podsPerNode {
			pod := runningPod(n, i)
			if err := w.sched.Cache.AddPod(logger, pod); err != nil {
				return err
			}
			if err := w.pods.Add(pod); err != nil {
				return err
			}
			pods = append(pods, pod)
		}
		w.running = append(w.running, pods)
	}
	for i := range members {
		pod := worldPod(fmt.Sprintf("gang-%04d", i), 32, 256, 8, 100)
		pod.Labels[v1alpha1.LabelPodGroup] = "gang"
		if err := w.pods.Add(pod); err != nil {
			return err
		}
		w.gang = append(w.gang, pod)
	}
	return nil
}

// refresh updates the snapshot of the cluster that scheduling cycles read.
func (w *world) refresh(ctx context.Context) error {
	snapshot, ok := w.fw.SnapshotSharedLister().(*schedulercache.Snapshot)
	if !ok {
		return fmt.Errorf("the snapshot is a %T", w.fw.SnapshotSharedLister())
	}
	return w.sched.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot)
}

// change updates one pod on each of a number of nodes. Each call selects other nodes.
func (w *world) change(ctx context.Context, nodes int) error {
	for range nodes {
		w.turn++
		pods := w.running[w.turn*7919%len(w.running)]
		changed := pods[0].DeepCopy()
		changed.Labels["revision"] = fmt.Sprint(w.turn)
		if err := w.sched.Cache.UpdatePod(klog.FromContext(ctx), pods[0], changed); err != nil {
			return err
		}
		if err := w.pods.Update(changed); err != nil {
			return err
		}
		pods[0] = changed
	}
	return nil
}

func worldNodeName(n int) string { return fmt.Sprintf("node-%06d", n) }

// worldNode returns node number n without pods. Its capacity equals the result of allocatable.
func worldNode(n int) *corev1.Node {
	room := requests(96, 1024, 8)
	room[corev1.ResourcePods] = resource.MustParse("110")
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: worldNodeName(n), Labels: map[string]string{
			corev1.LabelHostname: worldNodeName(n), corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", n%3),
		}},
		Status: corev1.NodeStatus{Capacity: room, Allocatable: room},
	}
}

// runningPod returns pod number i on node number n. Each of the first 8 pods of a node requests a
// GPU.
func runningPod(n, i int) *corev1.Pod {
	name, priority := fmt.Sprintf("pod-%06d-%02d", n, i), int32(10+(n*13+i*7)%50)
	var pod *corev1.Pod
	if i < 8 {
		pod = worldPod(name, 4, 32, 1, priority)
	} else {
		pod = worldPod(name, 2, 8, 0, priority)
	}
	pod.Spec.NodeName = worldNodeName(n)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.StartTime = &metav1.Time{Time: time.Unix(1_800_000_000+int64((n*31+i*17)%1000), 0)}
	return pod
}

func worldPod(name string, cpus, gibibytes, gpus int64, priority int32) *corev1.Pod {
	list := requests(cpus, gibibytes, gpus)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: worldNamespace, Name: name, UID: types.UID(name), Labels: map[string]string{"app": "work"}},
		Spec: corev1.PodSpec{
			SchedulerName: profileName, Priority: &priority,
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example.com/work:1",
				Resources: corev1.ResourceRequirements{Requests: list, Limits: list},
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

func requests(cpus, gibibytes, gpus int64) corev1.ResourceList {
	out := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(cpus, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(gibibytes<<30, resource.BinarySI),
	}
	if gpus > 0 {
		out[gpuResource] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	return out
}
